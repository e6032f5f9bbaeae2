package coordinator

import (
	"container/heap"
	"time"
)

// timers are the timers of a shard, the next one first.
type timers struct {
	byKey map[string]*timer
	heap  timerHeap
	count int64
}

type timer struct {
	key   string
	at    time.Time
	order int64 // of setting: among timers of one instant the first set goes first
	event any
	index int // in the heap
}

// set sets, moves or stops a timer.
func (t *timers) set(spec Timer, now time.Time) {
	at := t.byKey[spec.Key]
	if spec.Event == nil {
		if at != nil {
			delete(t.byKey, spec.Key)
			heap.Remove(&t.heap, at.index)
		}
		return
	}
	t.count++
	if at != nil {
		at.at, at.order, at.event = now.Add(spec.After), t.count, spec.Event
		heap.Fix(&t.heap, at.index)
		return
	}
	if t.byKey == nil {
		t.byKey = make(map[string]*timer)
	}
	at = &timer{key: spec.Key, at: now.Add(spec.After), order: t.count, event: spec.Event}
	t.byKey[spec.Key] = at
	heap.Push(&t.heap, at)
}

// next is the time until the next timer is due; a day where there is none.
func (t *timers) next(now time.Time) time.Duration {
	if len(t.heap) == 0 {
		return 24 * time.Hour
	}
	return max(0, t.heap[0].at.Sub(now))
}

// due takes out a timer whose time has come.
func (t *timers) due(now time.Time) (event any, ok bool) {
	if len(t.heap) == 0 || t.heap[0].at.After(now) {
		return nil, false
	}
	at := heap.Pop(&t.heap).(*timer)
	delete(t.byKey, at.key)
	return at.event, true
}

// timerHeap is a container/heap.
type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

package storage

import (
	"context"
	"math"
	"sync"
	"time"
)

// maxFlushMs is the longest time that flush.ms can mean; above it, as by default,
// nobody syncs by time.
const maxFlushMs = math.MaxInt64 / int64(time.Millisecond)

// flushClock knows when logs that are to be synced by time (flush.ms) are due. A
// log is in it from its first append until its flush, so logs without such a
// setting, and quiet ones, cost nothing.
type flushClock struct {
	// wake tells run that something is due earlier than what it waits for. Size 1:
	// run looks at everything each time.
	wake chan struct{}

	mu   sync.Mutex
	due  map[*Log]time.Time
	next time.Time // what run waits for; zero for nothing
}

func newFlushClock() *flushClock {
	return &flushClock{wake: make(chan struct{}, 1), due: make(map[*Log]time.Time)}
}

// within sets a log to be synced after d, if it is not due before. It is called
// under the log's lock.
func (c *flushClock) within(l *Log, d time.Duration) {
	at := time.Now().Add(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.due[l]; ok && !at.Before(before) {
		return
	}
	c.due[l] = at
	if c.next.IsZero() || at.Before(c.next) {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// take removes a log that is due from the clock and returns it, or nil and how
// long nothing will be due.
func (c *flushClock) take(now time.Time) (*Log, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = time.Time{}
	for l, at := range c.due {
		if !at.After(now) {
			// An append from here on sets it anew: the flush may miss it.
			delete(c.due, l)
			return l, 0
		}
		if c.next.IsZero() || at.Before(c.next) {
			c.next = at
		}
	}
	if c.next.IsZero() {
		return nil, math.MaxInt64
	}
	return nil, c.next.Sub(now)
}

// run syncs logs when they are due, until ctx ends.
func (c *flushClock) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		for {
			l, wait := c.take(time.Now())
			if l == nil {
				timer.Reset(wait)
				break
			}
			// An error has taken the directory offline and been logged.
			_ = l.Flush(math.MaxInt64)
		}
	}
}

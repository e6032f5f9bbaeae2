//go:build integration

package rolling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Nodes are restarted one after the other, each when `klamm can-stop` says so, under
// clients of three kinds. None of them reports an error; what they were acknowledged
// is there, once where the producer is idempotent, and everybody reads all of it.
func TestRollingRestart(t *testing.T) {
	w := start(t)
	w.Create("t", 12)
	w.AwaitISR("t", 1, 2, 3)
	all := w.clients("t", nil)
	load := w.load(all)
	load.moved("with all")
	for _, id := range []int32{1, 2, 3} {
		w.AwaitCanStop(id)
		began := time.Now()
		w.Node(id).Stop()
		stopped := time.Since(began)
		load.mark()
		load.moved("without it")
		began = time.Now()
		w.Node(id).Restart()
		t.Logf("node %d stopped within %v, served again within %v", id, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		load.mark()
	}
	w.AwaitISR("t", 1, 2, 3)
	load.moved("with all")
	load.end()
	w.whole("t", all)
}

// whole compares what is there with what clients were told.
func (w *world) whole(topic string, all []*client) {
	w.T.Helper()
	acked := make(map[string]bool)
	for _, c := range all {
		c.mu.Lock()
		for _, v := range c.acked {
			acked[v] = true
		}
		w.T.Logf("%s: %d records acknowledged, at most %v between two", c.name, len(c.acked), c.gap.Round(time.Millisecond))
		c.mu.Unlock()
	}
	times := make(map[string]int)
	for _, v := range w.Consume(topic, int(w.Count(topic))) {
		times[v]++
	}
	for v := range acked {
		switch {
		case times[v] == 0:
			w.T.Errorf("%s is lost", v)
		case times[v] > 1 && !strings.HasPrefix(v, "librdkafka"): // whose default is not to be idempotent
			w.T.Errorf("%s is there %d times", v, times[v])
		}
	}
	w.SameLogs(topic)
}

// load has clients write.
type load struct {
	w       *world
	clients []*client
	stop    chan struct{}
	done    chan struct{}
	written map[string]int
	acked   []int // by each of the clients, at the last mark
	read    []int
}

// pace is the time between two records of a client.
const pace = 5 * time.Millisecond

func (w *world) load(clients []*client) *load {
	l := &load{
		w: w, clients: clients, stop: make(chan struct{}), done: make(chan struct{}),
		acked: make([]int, len(clients)), read: make([]int, len(clients)), written: make(map[string]int),
	}
	go func() {
		defer close(l.done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ; i++ {
			for _, c := range clients {
				c.produce(fmt.Sprintf("%s-%06d", c.name, i))
				l.written[c.name]++
			}
			select {
			case <-tick.C:
			case <-l.stop:
				return
			}
		}
	}()
	w.T.Cleanup(l.halt)
	return l
}

func (l *load) halt() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.done
}

// mark notes how far all are.
func (l *load) mark() {
	for i, c := range l.clients {
		l.acked[i], l.read[i] = c.counts()
	}
}

// moved waits until each has got some records further since the last mark, writing
// and, but for those named, reading.
func (l *load) moved(when string, waiting ...string) {
	l.w.T.Helper()
	const some = 30
	for i, c := range l.clients {
		l.w.Await(c.name+" to write and read "+when, func() bool {
			acked, read := c.counts()
			return acked >= l.acked[i]+some && (read >= l.read[i]+some || slices.Contains(waiting, c.name))
		})
	}
}

// end waits until all that was written is acknowledged and has been read by all, and
// ends the clients.
func (l *load) end() {
	l.w.T.Helper()
	l.halt()
	all := 0
	for _, n := range l.written {
		all += n
	}
	for _, c := range l.clients {
		l.w.Await(c.name+" to be acknowledged what it wrote, and to read what all wrote", func() bool {
			acked, read := c.counts()
			return acked == l.written[c.name] && read == all
		})
		c.end()
	}
}

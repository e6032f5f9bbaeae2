//go:build integration

package replication

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm/klamm/integration/harness"
)

var kills = flag.Int("kills", 30, "how often a leader is killed")

type world struct{ *harness.World }

func start(t *testing.T, settings ...string) *world {
	t.Helper()
	settings = append([]string{"auto.create.topics.enable=false", "min.insync.replicas=2"}, settings...)
	// By default a client looks for another leader after up to five seconds.
	return &world{harness.NewWorld(t, harness.StartCluster(t, 3, settings...), kgo.MetadataMinAge(100*time.Millisecond))}
}

// load writes unique records, several at a time, until it is stopped.
type load struct {
	stop    func()
	writing sync.WaitGroup
	count   atomic.Int64 // of those that were acknowledged

	mu    sync.Mutex
	acked []string
	gap   time.Duration // the longest between two that were acknowledged
	last  time.Time
}

// writers write to a topic: idempotent ones, as the client is by default.
func (w *world) writers(topic string, count int) *load {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.T.Context())
	l := &load{last: time.Now()}
	l.stop = func() {
		cancel()
		l.writing.Wait()
	}
	w.T.Cleanup(l.stop)
	for id := range count {
		client := w.NewClient(kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(200))
		l.writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				value := fmt.Sprintf("%d-%07d", id, n)
				client.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)}, func(_ *kgo.Record, err error) {
					if err != nil {
						if !errors.Is(err, kgo.ErrClientClosed) {
							w.T.Errorf("record %s: %v", value, err)
						}
						return
					}
					l.acknowledged(value)
				})
				if n%50 == 49 {
					time.Sleep(5 * time.Millisecond) // as fast as it goes would take time from the rest
				}
			}
			if err := client.Flush(w.Within()); err != nil {
				w.T.Errorf("records without an answer: %v", err)
			}
		})
	}
	return l
}

func (l *load) acknowledged(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, value)
	l.gap, l.last = max(l.gap, time.Since(l.last)), time.Now()
	l.count.Add(1)
}

// awaitMore waits for so many more records to be acknowledged.
func (w *world) awaitMore(l *load, count int64) {
	w.T.Helper()
	before := l.count.Load()
	w.Await("more acknowledged records", func() bool { return l.count.Load() >= before+count })
}

// mustHaveOnce fails where a record that was acknowledged is not there, or is twice.
func (w *world) mustHaveOnce(topic string, l *load) {
	w.T.Helper()
	got := w.Consume(topic, int(w.Count(topic)))
	for i := 1; i < len(got); i++ {
		if got[i] == got[i-1] {
			w.T.Errorf("%s is there twice", got[i])
		}
	}
	for _, value := range l.acked {
		if _, ok := slices.BinarySearch(got, value); !ok {
			w.T.Errorf("%s was acknowledged and is not there", value)
		}
	}
	w.T.Logf("%d records, %d acknowledged, at most %v between two", len(got), len(l.acked), l.gap.Round(time.Millisecond))
}

// verify is klamm replicas verify of a topic.
func (w *world) verify(topic string) (out string, equal bool) {
	w.T.Helper()
	stdout, stderr, ok := harness.Run(w.T, "replicas", "verify", topic, "--bootstrap-server", strings.Join(w.Bootstrap(), ","))
	return stdout + stderr, ok
}

// The leader dies again and again under load.
func TestLeaderKilledAgainAndAgain(t *testing.T) {
	w := start(t)
	w.Create("t", 3)
	w.AwaitISR("t", 1, 2, 3)
	l := w.writers("t", 2)
	w.awaitMore(l, 1000)
	var gaps []time.Duration
	for range *kills {
		victim := w.Leader("t")
		w.Node(victim).Kill()
		w.awaitMore(l, 1000)
		l.mu.Lock()
		gaps = append(gaps, l.gap)
		l.gap = 0
		l.mu.Unlock()
		w.Node(victim).Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
	l.stop()
	l.gap = slices.Max(gaps)
	slices.Sort(gaps)
	t.Logf("%d kills: without an acknowledged record for %v, median %v", len(gaps), gaps[len(gaps)-1], gaps[len(gaps)/2])
	w.mustHaveOnce("t", l)
	out, equal := w.verify("t")
	if !equal || strings.Count(out, "of brokers 1,2,3 are equal") != 3 {
		t.Errorf("replicas verify:\n%s", out)
	}
	w.causes("t")
	w.SameLogs("t")
}

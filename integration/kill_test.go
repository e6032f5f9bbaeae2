//go:build integration

package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKillUnderLoad: kill -9 twenty times while one idempotent producer writes
// with acks=all. Nothing acknowledged is missing, nothing is there twice, and
// every partition is in the order in which it was written.
func TestKillUnderLoad(t *testing.T) {
	const (
		topic      = "killed"
		partitions = 3
		kills      = 20
	)
	n := startNode(t)
	createTopic(t, n.address, topic, partitions)
	w := newWriter(t, n.address, topic, partitions)
	for i := range kills {
		// Each life must have taken records before it ends.
		w.waitForMore(t, 200)
		n.kill()
		n.start()
		if t.Failed() {
			t.Fatalf("kill %d", i)
		}
	}
	w.waitForMore(t, 200)
	acked := w.stop(t)
	n.kill()
	n.start()

	total := 0
	for partition := range int32(partitions) {
		recs := readAll(t, n.address, topic, partition, int(endOffset(t, n.address, topic, partition)))
		seen := make(map[int]int64, len(recs))
		last := -1
		for _, r := range recs {
			seq, err := strconv.Atoi(strings.TrimSpace(string(r.Value)))
			if err != nil {
				t.Fatalf("partition %d, offset %d: %v", partition, r.Offset, err)
			}
			if at, twice := seen[seq]; twice {
				t.Fatalf("partition %d: record %d is at offset %d and %d", partition, seq, at, r.Offset)
			}
			if seq <= last {
				t.Fatalf("partition %d: record %d at offset %d comes after %d", partition, seq, r.Offset, last)
			}
			seen[seq], last = r.Offset, seq
		}
		for seq, offset := range acked[partition] {
			if at, ok := seen[seq]; !ok || at != offset {
				t.Fatalf("partition %d: record %d was acknowledged at offset %d and is at %d (there: %v); the log has %d records", partition, seq, offset, at, ok, len(recs))
			}
		}
		total += len(acked[partition])
	}
	t.Logf("%d kills, %d records acknowledged, all there", kills, total)
}

// writer produces numbered records to all partitions until it is stopped.
type writer struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	acked  []map[int]int64 // per partition: number → offset
	total  int
	failed error
	more   chan struct{} // told at every acknowledgement, holds one
}

func newWriter(t *testing.T, address, topic string, partitions int32) *writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{cancel: cancel, done: make(chan struct{}), more: make(chan struct{}, 1)}
	for range partitions {
		w.acked = append(w.acked, make(map[int]int64))
	}
	// Its own retries bridge the kills, so that a lost or doubled record is
	// the node's doing.
	c := client(t, address,
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.StopProducerOnDataLossDetected(),
		kgo.ProducerLinger(time.Millisecond),
		kgo.MaxBufferedRecords(2000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20*time.Millisecond),
		kgo.RecordRetries(1_000_000),
	)
	go func() {
		defer close(w.done)
		for i := 0; ctx.Err() == nil; i++ {
			partition := int32(i) % partitions
			seq := i / int(partitions)
			// Blocks while the buffer is full.
			c.Produce(ctx, &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%d%*s", seq, seq%200, "")}, func(r *kgo.Record, err error) {
				w.acknowledged(r, seq, err)
			})
		}
		flush, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Flush(flush); err != nil {
			w.acknowledged(nil, 0, err)
		}
	}()
	t.Cleanup(func() { cancel(); <-w.done })
	return w
}

func (w *writer) acknowledged(r *kgo.Record, seq int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.acked[r.Partition][seq] = r.Offset
		w.total++
	case !isCanceled(err) && w.failed == nil:
		w.failed = err
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func isCanceled(err error) bool { return strings.Contains(err.Error(), context.Canceled.Error()) }

// waitForMore waits for n further acknowledgements.
func (w *writer) waitForMore(t *testing.T, n int) {
	t.Helper()
	w.waitWithin(t, n, startTimeout)
}

func (w *writer) waitWithin(t *testing.T, n int, timeout time.Duration) {
	t.Helper()
	ctx := within(t, timeout)
	w.mu.Lock()
	want := w.total + n
	w.mu.Unlock()
	for {
		w.mu.Lock()
		total, failed := w.total, w.failed
		w.mu.Unlock()
		if failed != nil {
			t.Fatalf("a record failed: %v", failed)
		}
		if total >= want {
			return
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			t.Fatalf("%d of %d records acknowledged after %s", total, want, timeout)
		}
	}
}

// stop ends the writing, waits for what is under way, and gives the
// acknowledged numbers and their offsets by partition.
func (w *writer) stop(t *testing.T) []map[int]int64 {
	t.Helper()
	w.cancel()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		t.Fatalf("a record failed: %v", w.failed)
	}
	return w.acked
}

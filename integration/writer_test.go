//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// writer is an idempotent producer of numbered records with acks=all, until it
// is stopped. Its own retries bridge the node's deaths, so that a lost or
// doubled record is the node's doing.
type writer struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	acked    map[int32][]int64 // per partition: number → offset, or −1
	last     map[int32]int     // per partition: the largest number acknowledged
	producer int64
	total    int
	failed   error
	more     chan struct{} // told at every acknowledgement, holds one
}

// newWriter writes to the first partitions of a topic as fast as it can.
func newWriter(t *testing.T, address, topic string, partitions int32) *writer {
	t.Helper()
	var all []int32
	for p := range partitions {
		all = append(all, p)
	}
	return newWriterOf(t, address, topic, all, 0, kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(2000))
}

// newWriterOf writes to some partitions of a topic, a record each pause.
func newWriterOf(t *testing.T, address, topic string, partitions []int32, pause time.Duration, opts ...kgo.Opt) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{
		cancel: cancel, done: make(chan struct{}), more: make(chan struct{}, 1),
		acked: make(map[int32][]int64), last: make(map[int32]int), producer: -1,
	}
	for _, p := range partitions {
		w.last[p] = -1
	}
	c := client(t, address, append([]kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.StopProducerOnDataLossDetected(),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RecordRetries(1_000_000),
		kgo.AlwaysRetryEOF(), // else a death during its first request looks like missing SASL
	}, opts...)...)
	go func() {
		defer close(w.done)
		for i := 0; ctx.Err() == nil; i++ {
			partition := partitions[i%len(partitions)]
			seq := i / len(partitions)
			// Blocks while the buffer is full.
			c.Produce(ctx, &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%d%*s", seq, seq%200, "")}, func(r *kgo.Record, err error) {
				w.acknowledged(r, seq, err)
			})
			time.Sleep(pause)
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
		acked := w.acked[r.Partition]
		for len(acked) <= seq {
			acked = append(acked, -1)
		}
		acked[seq] = r.Offset
		w.acked[r.Partition] = acked
		w.last[r.Partition] = max(w.last[r.Partition], seq)
		w.producer = r.ProducerID
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
	w.waitWithin(t, n, patience)
}

func (w *writer) waitWithin(t *testing.T, n int, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
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

// progress is the id of the producer and the number of the last record that was
// acknowledged in a partition, −1 where there is none.
func (w *writer) progress(partition int32) (producer int64, last int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.producer, w.last[partition]
}

// stop ends the writing, waits for what is under way, and gives the offsets of
// the acknowledged numbers by partition, −1 where a number is not acknowledged.
func (w *writer) stop(t *testing.T) map[int32][]int64 {
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

//go:build integration

package mixed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm/klamm/integration/harness"
)

// place is where a record is.
type place struct {
	partition int32
	offset    int64
}

// load writes to a topic and reads it, until it is ended.
type load struct {
	w     *world
	topic string
	stop  context.CancelFunc // of the writers
	done  sync.WaitGroup
	leave context.CancelFunc // of the reader
	left  sync.WaitGroup

	confluent *exec.Cmd
	said      bytes.Buffer // what it says, once it has ended

	acked atomic.Int64 // how many of franz-go's

	mu      sync.Mutex
	answers map[place]string // what franz-go was answered, or the reader has seen
	values  []string         // of all records that must be there
	seen    map[int32]int64  // the last offset that the reader has seen
}

// pause is from one record of a writer to its next.
const pause = 10 * time.Millisecond

// load starts two idempotent writers with acks=all, franz-go's and librdkafka's, and
// a reader. No error may surface at any of them.
func (w *world) load(topic string) *load {
	w.T.Helper()
	ctx, stop := context.WithCancel(context.Background())
	reading, leave := context.WithCancel(context.Background())
	l := &load{w: w, topic: topic, stop: stop, leave: leave, answers: make(map[place]string), seen: make(map[int32]int64)}
	writer := w.NewClient(kgo.ProducerLinger(5 * time.Millisecond))
	reader := w.NewClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	dir, words := harness.Python.Ready(w.T)
	words = append(words, filepath.Join(dir, "confluent.py"), "produce", strings.Join(w.Bootstrap(), ","), topic, "lz4")
	l.confluent = exec.Command("env", words...)
	l.confluent.Stdout, l.confluent.Stderr = &l.said, &l.said
	lines, err := l.confluent.StdinPipe()
	if err == nil {
		err = l.confluent.Start()
	}
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		stop()
		_ = l.confluent.Process.Kill() // an error: it has ended already
		l.done.Wait()
		leave()
		l.left.Wait()
	})
	l.done.Go(func() { l.write(ctx, writer) })
	l.done.Go(func() { l.feed(ctx, lines) })
	l.left.Go(func() { l.read(reading, reader) })
	return l
}

// write is franz-go.
func (l *load) write(ctx context.Context, client *kgo.Client) {
	for i := 0; ctx.Err() == nil; i++ {
		value := fmt.Sprintf("franz %08d", i)
		client.Produce(context.Background(), &kgo.Record{Topic: l.topic, Value: []byte(value)}, func(r *kgo.Record, err error) {
			switch {
			case errors.Is(err, kgo.ErrClientClosed): // the test has failed
				return
			case err != nil:
				l.w.T.Errorf("franz-go: record %q: %v", value, err)
				return
			}
			l.acked.Add(1)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.values = append(l.values, value)
			l.note(place{r.Partition, r.Offset}, value)
		})
		time.Sleep(pause)
	}
	if l.w.T.Failed() {
		return // nobody may be there any more who answers
	}
	if err := client.Flush(l.w.Within()); err != nil {
		l.w.T.Errorf("franz-go: %d records are not answered: %v", client.BufferedProduceRecords(), err)
	}
}

// feed is the input of librdkafka's, which ends well where every record was acknowledged.
func (l *load) feed(ctx context.Context, lines io.WriteCloser) {
	for i := 0; ctx.Err() == nil; i++ {
		value := fmt.Sprintf("confluent %08d", i)
		if _, err := fmt.Fprintf(lines, "{\"key\": %q, \"value\": %q, \"header\": \"\"}\n", value, value); err != nil {
			l.w.T.Errorf("librdkafka takes no more: %v", err)
			break
		}
		l.mu.Lock()
		l.values = append(l.values, value)
		l.mu.Unlock()
		time.Sleep(pause)
	}
	_ = lines.Close() // an error: it has ended already
	if err := l.confluent.Wait(); err != nil {
		l.w.T.Errorf("librdkafka: %v\n%s", err, l.said.String())
	}
}

// read is a reader that follows every partition.
func (l *load) read(ctx context.Context, client *kgo.Client) {
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			l.w.T.Errorf("reader: %s/%d: %v", topic, partition, err)
		})
		l.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if last, ok := l.seen[r.Partition]; ok && r.Offset != last+1 {
				l.w.T.Errorf("reader: partition %d: offset %d comes after %d", r.Partition, r.Offset, last)
			}
			l.seen[r.Partition] = r.Offset
			l.note(place{r.Partition, r.Offset}, string(r.Value))
		})
		l.mu.Unlock()
	}
}

// note is called with mu.
func (l *load) note(at place, value string) {
	if was, ok := l.answers[at]; ok && was != value {
		l.w.T.Errorf("partition %d, offset %d: it was %q and is %q", at.partition, at.offset, was, value)
	}
	l.answers[at] = value
}

// goOn waits until more has been acknowledged.
func (l *load) goOn() {
	l.w.T.Helper()
	before := l.acked.Load()
	l.w.Await("records to be acknowledged", func() bool { return l.acked.Load() > before+50 })
}

// end ends the load, and reads all that was written.
func (l *load) end() {
	w := l.w
	w.T.Helper()
	l.stop()
	l.done.Wait()
	ends := w.Ends(l.topic)
	w.Await("the reader to be at the end", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for partition, end := range ends {
			if last, ok := l.seen[int32(partition)]; end > 0 && (!ok || last+1 < end) {
				return false
			}
		}
		return true
	})
	l.leave()
	l.left.Wait()
	client := w.NewClient(kgo.ConsumeTopics(l.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	counts := make(map[string]int)
	last := make(map[string]string) // value by writer and partition
	total, want := int64(0), int64(0)
	for _, end := range ends {
		want += end
	}
	for total < want {
		ctx := w.Within()
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.T.Fatalf("read %d of %d records of %s: %v", total, want, l.topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			total++
			value := string(r.Value)
			counts[value]++
			l.note(place{r.Partition, r.Offset}, value)
			writer := fmt.Sprint(strings.Fields(value)[0], r.Partition)
			if value <= last[writer] {
				w.T.Errorf("partition %d: %q comes after %q", r.Partition, value, last[writer])
			}
			last[writer] = value
		})
	}
	for _, value := range l.values {
		if n := counts[value]; n != 1 {
			w.T.Errorf("%s has %q %d times, which was acknowledged", l.topic, value, n)
		}
	}
	for at := range l.answers {
		if at.offset >= ends[at.partition] {
			w.T.Errorf("partition %d ends at %d, and there was a record at %d", at.partition, ends[at.partition], at.offset)
		}
	}
	if int64(len(l.values)) != total {
		w.T.Errorf("%s has %d records, and %d were written", l.topic, total, len(l.values))
	}
	w.T.Logf("%d records", total)
}

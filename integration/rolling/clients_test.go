//go:build integration

package rolling

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm/klamm/integration/harness"
)

// client writes what it is told to a topic, and reads all of it, as one of a group of
// its own. It has its library's default settings, and franz-go's does not take the death
// of a node that it has just connected to for missing SASL.
type client struct {
	t    *testing.T
	name string
	// produce begins to write a value, end ends the client when all is written.
	produce func(value string)
	end     func()

	mu    sync.Mutex
	acked []string
	read  map[string]int
	last  time.Time     // of an acknowledgement
	gap   time.Duration // the longest between two
}

func (c *client) heard(what, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "acked":
		now := time.Now()
		if len(c.acked) > 0 {
			c.gap = max(c.gap, now.Sub(c.last))
		}
		c.acked, c.last = append(c.acked, value), now
	case "read":
		c.read[value]++
	default:
		c.t.Errorf("%s: %s %s", c.name, what, value)
	}
}

func (c *client) counts() (acked, read int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acked), len(c.read)
}

// clients are one of each kind. Settings are of librdkafka's and Java's consumer; more
// are options of franz-go's.
func (w *world) clients(topic string, settings []string, opts ...kgo.Opt) []*client {
	w.T.Helper()
	bootstrap := strings.Join(w.Bootstrap(), ",")
	_, python := harness.Python.Ready(w.T)
	return []*client{
		w.franz(topic, opts...),
		w.program("librdkafka", slices.Concat(python, []string{filepath.Join("testdata", "client.py"), bootstrap, topic, "librdkafka"}, settings)),
		w.program("java", slices.Concat([]string{harness.KafkaTools(w.T), "java", filepath.Join("testdata", "Client.java"), bootstrap, topic, "java"}, settings)),
	}
}

func (w *world) franz(topic string, opts ...kgo.Opt) *client {
	w.T.Helper()
	c := &client{t: w.T, name: "franz-go", read: make(map[string]int)}
	producer := w.NewClient()
	consumer := w.NewClient(append([]kgo.Opt{kgo.ConsumerGroup("franz-go"), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			fetches := consumer.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			fetches.EachError(func(_ string, _ int32, err error) {
				// A member says so when it could not connect to a coordinator that is gone, and
				// joins again; what brokers answer is another matter.
				session, ok := errors.AsType[*kgo.ErrGroupSession](err)
				if _, answered := errors.AsType[*kerr.Error](err); ok && !answered {
					w.T.Logf("%s: %v", c.name, session)
					return
				}
				c.heard("error", err.Error())
			})
			fetches.EachRecord(func(r *kgo.Record) { c.heard("read", string(r.Value)) })
		}
	})
	c.produce = func(value string) {
		producer.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)}, func(_ *kgo.Record, err error) {
			if err != nil {
				c.heard("failed", value+" "+err.Error())
				return
			}
			c.heard("acked", value)
		})
	}
	c.end = sync.OnceFunc(func() {
		if err := producer.Flush(w.Within()); err != nil {
			c.heard("error", err.Error())
		}
		stop()
		reading.Wait()
	})
	w.T.Cleanup(func() { stop(); reading.Wait() })
	return c
}

// program is a client that is one.
func (w *world) program(name string, words []string) *client {
	w.T.Helper()
	c := &client{t: w.T, name: name, read: make(map[string]int)}
	p := harness.StartProcess(w.T, name, words, func(line string) {
		what, value, _ := strings.Cut(line, " ")
		c.heard(what, value)
	})
	c.produce = func(value string) {
		if _, err := io.WriteString(p.In, value+"\n"); err != nil {
			w.T.Errorf("%s: %v", name, err)
		}
	}
	c.end = func() { p.End(w.Patience) }
	return c
}

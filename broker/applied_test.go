package broker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// publisher publishes one batch after another.
type publisher struct {
	t   *testing.T
	img *metadata.Image
	to  *Applied
}

func (p *publisher) publish(records ...record.Record) {
	p.t.Helper()
	d := metadata.NewDelta(p.img)
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			p.t.Error(err)
		}
	}
	p.img = d.Apply(p.img.Offset()+int64(len(records)), 1, 0)
	p.to.Publish(d, p.img)
}

func topicRecord(name string, id byte) *record.Topic {
	return &record.Topic{Name: name, TopicID: protocol.UUID{id}}
}

func removeTopic(id byte) *record.RemoveTopic { return &record.RemoveTopic{TopicID: protocol.UUID{id}} }

type gate struct{ open chan struct{} }

func (g gate) Apply(*metadata.Delta, *metadata.Image) { <-g.open }

// Nobody sees an image before the replicas have acted on it.
func TestImageFollowsTheReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate{make(chan struct{})}
		a := newApplied(g, nil)
		p := &publisher{t: t, img: metadata.Empty(), to: a}
		go p.publish(topicRecord("a", 1))
		waited := make(chan error, 1)
		go func() { waited <- a.WaitApplied(t.Context(), 0) }()
		synctest.Wait()
		if a.Image().Offset() != -1 || len(waited) != 0 {
			t.Error("the image is there before the replicas have acted")
		}
		close(g.open)
		if err := <-waited; err != nil || a.Image().Offset() != 0 {
			t.Errorf("%v, offset %d", err, a.Image().Offset())
		}
	})
}

func TestWaitAppliedEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplied(nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.WaitApplied(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestExpectTopics(t *testing.T) {
	for _, test := range []struct {
		name   string
		appear bool
		before []record.Record
		after  [][]record.Record
		want   bool
	}{
		{"appears", true, nil, [][]record.Record{{topicRecord("a", 1), topicRecord("b", 2)}}, true},
		{"half of it", true, nil, [][]record.Record{{topicRecord("a", 1)}}, false},
		{"in two steps", true, nil, [][]record.Record{{topicRecord("a", 1)}, {topicRecord("b", 2)}}, true},
		{"was there", true, []record.Record{topicRecord("a", 1), topicRecord("b", 2)}, nil, true},
		{"comes and goes", true, nil, [][]record.Record{{topicRecord("a", 1), topicRecord("b", 2)}, {removeTopic(1)}}, true},
		{"goes", false, []record.Record{topicRecord("a", 1), topicRecord("b", 2)}, [][]record.Record{{removeTopic(1)}, {removeTopic(2)}}, true},
		{"stays", false, []record.Record{topicRecord("a", 1)}, nil, false},
		{"goes and comes", false, []record.Record{topicRecord("a", 1)}, [][]record.Record{{removeTopic(1)}, {topicRecord("a", 3)}}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newApplied(nil, nil)
			p := &publisher{t: t, img: metadata.Empty(), to: a}
			p.publish(test.before...)
			e := a.ExpectTopics(test.appear, []string{"a", "b"})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got := make(chan error, 1)
			go func() { got <- e.Wait(ctx, []string{"a", "b"}) }()
			for _, batch := range test.after {
				p.publish(batch...)
			}
			if err := <-got; (err == nil) != test.want {
				t.Errorf("%s: got %v, want success %v", test.name, err, test.want)
			}
			e.Close()
			if len(a.expected) != 0 {
				t.Errorf("%s: still expected after Close", test.name)
			}
		})
	}
}

// Only what is asked for is waited for: a topic that the controller refused
// does not come.
func TestExpectationOfSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplied(nil, nil)
		p := &publisher{t: t, img: metadata.Empty(), to: a}
		e := a.ExpectTopics(true, []string{"a", "refused"})
		defer e.Close()
		p.publish(topicRecord("a", 1))
		if err := e.Wait(t.Context(), []string{"a"}); err != nil {
			t.Error(err)
		}
		if err := e.Wait(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// ports are the listeners of the world's brokers: b2:9092 and so on.
type ports struct {
	mu      sync.Mutex
	refuses map[string]bool
	dialled []string
}

func (p *ports) dial(_ context.Context, addr string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialled = append(p.dialled, addr)
	if p.refuses[addr] {
		return fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	}
	return nil
}

func (p *ports) shut(addr string, refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses[addr] = refuses
}

// evident is a world with a detector, whose brokers 2 and 3 have joined.
type evident struct {
	*world
	*ports
	two, three protocol.BrokerEpoch
}

func evidence(t *testing.T, do func(t *testing.T, w *evident)) {
	synctest.Test(t, func(t *testing.T) {
		w := &evident{ports: &ports{refuses: map[string]bool{}}}
		cfg := testConfig()
		cfg.Probe, cfg.InterBroker = w.dial, "BROKER"
		w.world = newWorld(t, cfg)
		defer w.stop()
		w.two, w.three = w.joinAt(2, 'a'), w.joinAt(3, 'b')
		synctest.Wait()
		w.machine.take()
		do(t, w)
	})
}

// joinAt is join for a broker that listens, and is published as replay does.
func (w *evident) joinAt(id int32, incarnation byte) protocol.BrokerEpoch {
	w.t.Helper()
	before := w.machine.Image()
	req := registration(id, incarnation)
	for _, name := range []string{"CLIENT", "BROKER"} {
		l := kmsg.NewBrokerRegistrationRequestListener()
		l.Name, l.Host, l.Port = name, fmt.Sprintf("b%d-%s", id, name), 9092
		req.Listeners = append(req.Listeners, l)
	}
	epoch, err := w.c.RegisterBroker(req, soon()).Wait(w.t.Context())
	if err != nil {
		w.t.Fatalf("register %d: %v", id, err)
	}
	w.beat(id, epoch)
	w.publish(before)
	return epoch
}

func (w *evident) beat(id int32, epoch protocol.BrokerEpoch) {
	w.t.Helper()
	resp, err := w.c.Heartbeat(beat(id, epoch, w.machine.Image().Offset()), soon()).Wait(w.t.Context())
	if err != nil || resp.IsFenced {
		w.t.Fatalf("heartbeat of %d: %+v, %v", id, resp, err)
	}
}

// publish hands the controller what has changed since an image.
func (w *evident) publish(before *metadata.Image) {
	w.t.Helper()
	delta := metadata.NewDelta(before)
	for b := range w.machine.Image().Brokers() {
		if old, ok := before.Broker(b.ID); ok && old == b {
			continue
		}
		rec := &record.RegisterBroker{BrokerID: b.ID, BrokerEpoch: b.Epoch, Endpoints: b.Endpoints, Fenced: b.Fenced}
		if err := delta.Replay(rec); err != nil {
			w.t.Fatal(err)
		}
	}
	img := delta.Apply(w.machine.Image().Offset(), 1, 0)
	w.c.Publish(delta, img)
}

func (w *evident) fenced(id protocol.NodeID) bool {
	synctest.Wait()
	b, ok := w.machine.Image().Broker(id)
	return !ok || b.Fenced
}

func TestDeadBrokerIsFencedAtOnce(t *testing.T) {
	evidence(t, func(t *testing.T, w *evident) {
		if _, err := w.create(4, "t").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.shut("b2-BROKER:9092", true)
		w.c.Disconnected(2, w.two)
		time.Sleep(refusalPause - time.Nanosecond)
		if w.fenced(2) {
			t.Error("fenced after one refusal")
		}
		time.Sleep(time.Nanosecond)
		if !w.fenced(2) || w.fenced(3) {
			t.Error("a broker that is gone is not fenced, or another one is")
		}
		if seen, silent := w.c.FencedByEvidence(), w.c.FencedByTimeout(); seen != 1 || silent != 0 {
			t.Errorf("%d fenced by evidence and %d by timeout, want 1 and 0", seen, silent)
		}
		for p := range mustTopic(t, w.machine.Image(), "t").Partitions() {
			if p.Leader == 2 {
				t.Errorf("partition %d is led by a fenced broker", p.ID)
			}
		}
		// The next life need not wait for the end of the session.
		w.shut("b2-BROKER:9092", false)
		w.joinAt(2, 'c')
	})
}

func mustTopic(t *testing.T, img *metadata.Image, name string) *metadata.Topic {
	t.Helper()
	topic, ok := img.Topic(name)
	if !ok {
		t.Fatalf("no topic %s", name)
	}
	return topic
}

func TestSuspicionIsCleared(t *testing.T) {
	for name, meanwhile := range map[string]func(w *evident){
		"by a heartbeat": func(w *evident) {
			time.Sleep(time.Millisecond)
			w.beat(2, w.two)
		},
		"by its listener": func(w *evident) { w.shut("b2-BROKER:9092", false) },
		"by its being of an earlier life": func(w *evident) {
			w.c.Disconnected(2, w.two-1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			evidence(t, func(t *testing.T, w *evident) {
				w.shut("b2-BROKER:9092", true)
				epoch := w.two
				if name == "by its being of an earlier life" {
					epoch--
				}
				w.c.Disconnected(2, epoch)
				time.Sleep(refusalPause / 2)
				synctest.Wait()
				meanwhile(w)
				time.Sleep(time.Second)
				if w.fenced(2) {
					t.Error("fenced")
				}
			})
		})
	}
}

// A refusal counts only from a listener that was reached: this one never was.
func TestUnreachableListenerIsNoEvidence(t *testing.T) {
	evidence(t, func(t *testing.T, w *evident) {
		w.shut("b4-BROKER:9092", true)
		four := w.joinAt(4, 'd')
		time.Sleep(3 * time.Second)
		w.c.Disconnected(4, four)
		time.Sleep(time.Second)
		if w.fenced(4) {
			t.Error("fenced")
		}
		// It opens a little later than it is unfenced: then it counts.
		w.shut("b4-BROKER:9092", false)
		time.Sleep(4 * time.Second)
		w.shut("b4-BROKER:9092", true)
		w.beat(4, four)
		w.c.Disconnected(4, four)
		time.Sleep(time.Second)
		if !w.fenced(4) {
			t.Error("not fenced")
		}
	})
}

// A broker that shuts down closes its listener in peace.
func TestShutdownIsNoEvidence(t *testing.T) {
	evidence(t, func(t *testing.T, w *evident) {
		if _, err := w.create(4, "t").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		leave := beat(2, w.two, 0)
		leave.WantShutdown = true
		if _, err := w.c.Heartbeat(leave, soon()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.shut("b2-BROKER:9092", true)
		w.c.Disconnected(2, w.two)
		time.Sleep(time.Second)
		if w.fenced(2) {
			t.Error("fenced before it has handed over")
		}
	})
}

// Who takes office looks for those who died with the office before, on its node
// first.
func TestNewOfficeFindsTheDead(t *testing.T) {
	evidence(t, func(t *testing.T, w *evident) {
		w.shut("b3-BROKER:9092", true)
		w.ports.mu.Lock()
		w.dialled = nil
		w.ports.mu.Unlock()
		w.log.Depose(3)
		synctest.Wait()
		w.log.Lead()
		time.Sleep(refusalPause)
		if !w.fenced(3) || w.fenced(2) {
			t.Error("the dead one is not fenced, or another one is")
		}
	})
}

func TestPredecessorIsSuspectedFirst(t *testing.T) {
	evidence(t, func(t *testing.T, w *evident) {
		d := newDetector(&w.c.cfg, w.machine, nil, zerolog.Nop())
		d.suspectAll(w.machine.Image(), 3, time.Now())
		var order []protocol.NodeID
		for _, s := range d.suspects {
			order = append(order, s.broker)
		}
		if !slices.Equal(order, []protocol.NodeID{3, 2}) {
			t.Errorf("suspected in the order %v", order)
		}
	})
}

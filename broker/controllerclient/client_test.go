package controllerclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// quorum is a set of controllers that answer from memory.
type quorum struct {
	mu      sync.Mutex
	leader  protocol.NodeID // as everybody knows
	changed chan struct{}
	active  protocol.NodeID          // who really answers
	down    map[protocol.NodeID]bool // refuses connections
	hangs   map[protocol.NodeID]bool // never answers
	dials   []string
	closed  int
	asked   []protocol.NodeID
}

func newQuorum(leader protocol.NodeID) *quorum {
	return &quorum{
		leader: leader, active: leader, changed: make(chan struct{}),
		down: map[protocol.NodeID]bool{}, hangs: map[protocol.NodeID]bool{},
	}
}

func (q *quorum) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *quorum) known() (protocol.NodeID, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leader, q.changed
}

func (q *quorum) dial(_ context.Context, addr string) (Conn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dials = append(q.dials, addr)
	var node protocol.NodeID
	if _, err := fmt.Sscanf(addr, "c%d:1", &node); err != nil {
		return nil, err
	}
	if q.down[node] {
		return nil, errors.New("connection refused")
	}
	return &fakeConn{quorum: q, node: node}, nil
}

type fakeConn struct {
	quorum *quorum
	node   protocol.NodeID
}

func (c *fakeConn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	q := c.quorum
	q.mu.Lock()
	q.asked = append(q.asked, c.node)
	active, hangs, down := q.active, q.hangs[c.node], q.down[c.node]
	q.mu.Unlock()
	if down {
		return nil, errors.New("connection reset")
	}
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	code := int16(protocol.None)
	if c.node != active {
		code = int16(protocol.ErrNotController)
	}
	switch r := req.(type) {
	case *kmsg.EnvelopeRequest:
		return &kmsg.EnvelopeResponse{ErrorCode: code, ResponseData: answerInside(r.RequestData)}, nil
	case *kmsg.BrokerHeartbeatRequest:
		return &kmsg.BrokerHeartbeatResponse{ErrorCode: code}, nil
	}
	return nil, fmt.Errorf("no answer to %T", req)
}

func (c *fakeConn) Close() error {
	c.quorum.mu.Lock()
	defer c.quorum.mu.Unlock()
	c.quorum.closed++
	return nil
}

func (q *quorum) client(cfg Config) *Client {
	cfg.Voters = map[protocol.NodeID]string{1: "c1:1", 2: "c2:1", 3: "c3:1"}
	cfg.Dial = q.dial
	return New(cfg, zerolog.Nop())
}

func beat(ctx context.Context, c *Client) error {
	_, err := c.Do(ctx, kmsg.NewPtrBrokerHeartbeatRequest())
	return err
}

func TestKeepsOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(2)
		c := q.client(Config{Leader: q.known})
		for range 3 {
			if err := beat(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if len(q.dials) != 1 || q.dials[0] != "c2:1" || q.closed != 1 {
			t.Errorf("dialled %v, closed %d, want c2:1 once each", q.dials, q.closed)
		}
	})
}

// A start in one process: nobody leads yet, then this node does, and only a
// moment later is it ready. No pause may stand between that and the answer.
func TestWaitsForTheElectionNotForATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(protocol.NoNode)
		c := q.client(Config{Leader: q.known})
		defer c.Close()
		begin := time.Now()
		go func() {
			time.Sleep(3 * time.Millisecond)
			q.set(func() { q.leader = 1 })
			time.Sleep(4 * time.Millisecond)
			q.set(func() { q.active = 1 })
		}()
		if err := beat(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 7*time.Millisecond {
			t.Errorf("took %v, want the 7ms of the election", took)
		}
	})
}

func TestLeavesAHangingLeaderWhenAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(1)
		q.hangs[1] = true
		c := q.client(Config{Leader: q.known})
		defer c.Close()
		begin := time.Now()
		go func() {
			time.Sleep(2 * time.Second)
			q.set(func() { q.leader, q.active = protocol.NoNode, protocol.NoNode })
			time.Sleep(time.Second)
			q.set(func() { q.leader, q.active = 3, 3 })
		}()
		if err := beat(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
	})
}

func TestAsksTheVotersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(3)
		q.down[1] = true
		c := q.client(Config{}) // no Leader: a broker alone
		defer c.Close()
		for range 2 {
			if err := beat(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(q.asked); got != "[2 3 3]" {
			t.Errorf("asked %v, want 2, then 3, and 3 again at once", got)
		}
	})
}

// The leader that this node knows is gone, and it does not hear of another: the
// controllers are asked in turn, and then the one that answered, at once.
func TestAsksOthersThanTheKnownLeader(t *testing.T) {
	for _, gone := range []string{"refuses", "does not lead", "is not known"} {
		t.Run(gone, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQuorum(1)
				q.active = 3
				switch gone {
				case "refuses":
					q.down[1] = true
				case "is not known":
					q.leader = protocol.NoNode
				}
				c := q.client(Config{Leader: q.known, Known: func() []protocol.NodeID { return []protocol.NodeID{3, 2, 1} }})
				defer c.Close()
				for _, bound := range []time.Duration{500 * time.Millisecond, 0} {
					begin := time.Now()
					if err := beat(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begin); took > bound {
						t.Errorf("took %v, want at most %v", took, bound)
					}
				}
				// It is told of another.
				q.set(func() { q.leader, q.active = 2, 2 })
				asked := len(q.asked)
				if err := beat(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(q.asked[asked:]); got != "[2]" {
					t.Errorf("asked %v, want the new leader", got)
				}
			})
		})
	}
}

// The leader's host has vanished: a request that waited for it until its deadline is
// not the fate of the next.
func TestAsksAnotherAfterADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(1)
		q.hangs[1], q.active = true, 2
		c := q.client(Config{Leader: q.known, Known: func() []protocol.NodeID { return []protocol.NodeID{1, 2} }})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := beat(ctx, c); err == nil {
			t.Fatal("a controller that hangs has answered")
		}
		begin := time.Now()
		if err := beat(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestOpensAnewAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(1)
		c := q.client(Config{Leader: q.known})
		defer c.Close()
		if err := beat(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		q.mu.Lock()
		q.down[1] = true
		q.mu.Unlock()
		go func() {
			time.Sleep(time.Second)
			q.mu.Lock()
			q.down[1] = false
			q.mu.Unlock()
		}()
		begin := time.Now()
		if err := beat(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 1500*time.Millisecond {
			t.Errorf("took %v after the controller was back at 1s", took)
		}
	})
}

func TestGivesUpAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(1)
		q.active = protocol.NoNode
		c := q.client(Config{Leader: q.known})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		err := beat(ctx, c)
		if protocol.CodeOf(err) != protocol.ErrRequestTimedOut || !strings.Contains(err.Error(), "NOT_CONTROLLER") {
			t.Errorf("got %v, want REQUEST_TIMED_OUT that tells of NOT_CONTROLLER", err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v, want 5s", took)
		}
		if len(q.asked) > 20 {
			t.Errorf("asked %d times in 5s", len(q.asked))
		}
	})
}

func TestBoundsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(1)
		q.hangs[1] = true
		c := q.client(Config{Leader: q.known, MaxConns: 2})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() { _ = beat(ctx, c) })
		}
		synctest.Wait()
		if len(q.dials) != 2 {
			t.Errorf("%d connections, want 2", len(q.dials))
		}
		cancel()
		group.Wait()
	})
}

// The pauses have grown while nobody led; the new leader, which is not in office at
// once, is asked soon again all the same.
func TestNewLeaderIsAskedSoonAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(1)
		q.down[1] = true
		c := q.client(Config{Leader: q.known, Jitter: func(pause time.Duration) time.Duration { return pause }})
		defer c.Close()
		done := make(chan time.Time, 1)
		go func() {
			if _, err := c.Do(t.Context(), kmsg.NewPtrBrokerHeartbeatRequest()); err != nil {
				t.Error(err)
			}
			done <- time.Now()
		}()
		time.Sleep(2 * time.Second)
		q.set(func() { q.leader = 2 })
		led := time.Now()
		time.Sleep(firstPause / 2)
		q.mu.Lock()
		q.active = 2 // in office
		q.mu.Unlock()
		if took := (<-done).Sub(led); took != firstPause {
			t.Errorf("answered %v after the election", took)
		}
	})
}

// TestNotController: whatever a broker asks the controller for, the answer of a
// node that does not lead is known as such, and asked for again elsewhere.
func TestNotController(t *testing.T) {
	code := int16(protocol.ErrNotController)
	for _, resp := range []kmsg.Response{
		&kmsg.EnvelopeResponse{ErrorCode: code},
		&kmsg.BrokerRegistrationResponse{ErrorCode: code},
		&kmsg.BrokerHeartbeatResponse{ErrorCode: code},
		&kmsg.AllocateProducerIDsResponse{ErrorCode: code},
		&kmsg.ControllerRegistrationResponse{ErrorCode: code},
		&kmsg.AlterPartitionResponse{ErrorCode: code},
	} {
		if !notController(resp) {
			t.Errorf("%T is taken for the controller's", resp)
		}
	}
	if notController(&kmsg.AlterPartitionResponse{}) {
		t.Error("an answer without an error is not taken for the controller's")
	}
}

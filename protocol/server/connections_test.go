package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// served asks something and gets the answer.
func (p *peer) served() {
	p.t.Helper()
	p.send(1, metadataRequest())
	p.expect(1)
}

func TestMaxConnections(t *testing.T) {
	const one = "127.0.0.1"
	for name, change := range map[string]func(*ConnectionLimits){
		"all": func(l *ConnectionLimits) { l.Max = 2 },
		"listener": func(l *ConnectionLimits) {
			l.Listeners = map[string]ListenerLimits{"PLAINTEXT": {Max: 2, Rate: Unlimited}}
		},
		"per IP":   func(l *ConnectionLimits) { l.PerIP = 2 },
		"override": func(l *ConnectionLimits) { l.PerIP, l.PerIPOverrides = 0, map[string]int{one: 2} },
	} {
		t.Run(name, func(t *testing.T) {
			limits := NoConnectionLimits()
			change(&limits)
			s, addr := start(t, Config{Listener: "PLAINTEXT", Connections: NewConnections(limits)}, metadata(empty))
			a, b := connect(t, addr), connect(t, addr)
			a.served()
			b.served()
			connect(t, addr).expectClosed()
			_ = a.Close()
			for s.Connections() > 1 {
				time.Sleep(time.Millisecond)
			}
			connect(t, addr).served()
		})
	}
}

// Listeners share the bounds. Where brokers connect among each other there is
// always room: somebody else makes it, who was not active for longest.
func TestProtectedListener(t *testing.T) {
	limits := NoConnectionLimits()
	limits.Max, limits.Protected = 2, "BROKERS"
	cs := NewConnections(limits)
	_, clients := start(t, Config{Listener: "CLIENTS", Connections: cs}, metadata(empty))
	_, brokers := start(t, Config{Listener: "BROKERS", Connections: cs}, metadata(empty))
	a, b := connect(t, clients), connect(t, clients)
	a.served()
	b.served()
	a.served() // now b is the older one
	connect(t, brokers).served()
	b.expectClosed()
	a.served()
	connect(t, clients).expectClosed()
	connect(t, brokers).served()
	a.expectClosed()
	connect(t, brokers).served() // with nobody left to make room
}

// Alone, the listener of the brokers is one like any other.
func TestProtectedListenerAlone(t *testing.T) {
	limits := NoConnectionLimits()
	limits.Max, limits.Protected = 1, "BROKERS"
	_, addr := start(t, Config{Listener: "BROKERS", Connections: NewConnections(limits)}, metadata(empty))
	connect(t, addr).served()
	connect(t, addr).expectClosed()
}

// Limits change at run time.
func TestSetLimits(t *testing.T) {
	limits := NoConnectionLimits()
	cs := NewConnections(limits)
	_, addr := start(t, Config{Connections: cs}, metadata(empty))
	var peers []*peer
	for range 4 {
		p := connect(t, addr)
		p.served()
		peers = append(peers, p)
	}
	limits.Max = 2
	cs.SetLimits(limits)
	peers[0].expectClosed()
	peers[1].expectClosed()
	connect(t, addr).expectClosed()
	peers[2].served()
	limits.Max = 3
	cs.SetLimits(limits)
	connect(t, addr).served()
}

func TestConnectionRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := NoConnectionLimits()
		limits.Rate, limits.Protected = 10, "BROKERS"
		limits.Listeners = map[string]ListenerLimits{"BROKERS": {Max: Unlimited, Rate: 50}}
		cs := NewConnections(limits)
		cs.serve("CLIENTS")
		cs.serve("BROKERS")
		const wanted = 100
		took := func(listener string) time.Duration {
			began := time.Now()
			for range wanted {
				if err := cs.awaitTurn(context.Background(), listener); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		if d := took("CLIENTS"); d < 8*time.Second || d > 10*time.Second {
			t.Errorf("%d clients at 10/s took %v", wanted, d)
		}
		time.Sleep(20 * time.Second)
		if d := took("BROKERS"); d > 2*time.Second || d < time.Second/2 {
			t.Errorf("%d brokers at 50/s took %v", wanted, d)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		limits.Rate = 1
		cs.SetLimits(limits)
		for cs.awaitTurn(ctx, "CLIENTS") == nil {
		}
		if ctx.Err() == nil {
			t.Error("the end of the context does not end the wait")
		}
	})
}

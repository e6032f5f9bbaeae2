package server

import (
	"context"
	"math"
	"net"
	"sync"
	"time"
)

// ConnectionLimits bound the connections of a node. Unlimited is what Kafka has
// for no bound.
type ConnectionLimits struct {
	// Max is the most that are open at a time (max.connections). One more is
	// closed at once; Kafka leaves it unaccepted instead, where its client hangs.
	Max int
	// PerIP is the most of one address (max.connections.per.ip), and
	// PerIPOverrides that of certain ones (max.connections.per.ip.overrides),
	// by net.IP.String.
	PerIP          int
	PerIPOverrides map[string]int
	// Rate is how many a second are accepted (max.connection.creation.rate),
	// with what has not been used of the last second; then others wait.
	Rate int
	// Listeners have bounds of their own, by name (listener.name.NAME.max.connections).
	Listeners map[string]ListenerLimits
	// Protected names the listener that neither Max nor Rate hold up: that of
	// the brokers among each other. When it exceeds Max, the connection of
	// another listener that was not used for longest is closed.
	Protected string
}

// ListenerLimits are Max and Rate of one listener.
type ListenerLimits struct{ Max, Rate int }

// Unlimited is no bound.
const Unlimited = math.MaxInt32

// NoConnectionLimits returns limits that bound nothing.
func NoConnectionLimits() ConnectionLimits {
	return ConnectionLimits{Max: Unlimited, PerIP: Unlimited, Rate: Unlimited}
}

func (l *ConnectionLimits) listener(name string) ListenerLimits {
	if own, ok := l.Listeners[name]; ok {
		return own
	}
	return ListenerLimits{Max: Unlimited, Rate: Unlimited}
}

func (l *ConnectionLimits) perIP(ip string) int {
	if own, ok := l.PerIPOverrides[ip]; ok {
		return own
	}
	return l.PerIP
}

// Connections are the open connections of the servers that share it, and their
// limits.
type Connections struct {
	// mu guards what follows.
	mu         sync.Mutex
	limits     ConnectionLimits
	open       map[*Conn]string // to its address
	byIP       map[string]int
	byListener map[string]int
	pace       pace
	paces      map[string]*pace // by listener
}

// NewConnections returns the connections of servers that have not started.
func NewConnections(limits ConnectionLimits) *Connections {
	return &Connections{
		limits: limits, open: make(map[*Conn]string),
		byIP: make(map[string]int), byListener: make(map[string]int), paces: make(map[string]*pace),
	}
}

// SetLimits changes the limits. Where more than Max are open, those that were not
// used for longest are closed; the other limits concern new ones.
func (cs *Connections) SetLimits(limits ConnectionLimits) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.limits = limits
	cs.shedLocked()
}

// protectedLocked tells whether a listener is the protected one, and not alone.
func (cs *Connections) protectedLocked(listener string) bool {
	return listener == cs.limits.Protected && len(cs.paces) > 1
}

// shedLocked closes what is beyond Max, those first that were not used for
// longest. The protected listener's stay.
func (cs *Connections) shedLocked() {
	for n := len(cs.open) - cs.limits.Max; n > 0; n-- {
		var oldest *Conn
		for c := range cs.open {
			if !cs.protectedLocked(c.Listener) && (oldest == nil || c.lastActive.Load() < oldest.lastActive.Load()) {
				oldest = c
			}
		}
		if oldest == nil {
			return
		}
		cs.forgetLocked(oldest)
		_ = oldest.netConn.Close()
	}
}

// serve makes a listener known.
func (cs *Connections) serve(listener string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.paces[listener] == nil {
		cs.paces[listener] = new(pace)
	}
}

// awaitTurn waits until one more connection does not exceed the rates.
func (cs *Connections) awaitTurn(ctx context.Context, listener string) error {
	for {
		d := cs.turn(listener, time.Now())
		if d <= 0 {
			return nil
		}
		// Not longer at a time: the limits may change.
		if err := pause(ctx, min(d, time.Second)); err != nil {
			return err
		}
	}
}

// turn takes a connection's turn, or returns how long to wait for it.
func (cs *Connections) turn(listener string, now time.Time) time.Duration {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	own, rate := cs.paces[listener], cs.limits.listener(listener).Rate
	d := own.wait(now)
	if !cs.protectedLocked(listener) {
		d = max(d, cs.pace.wait(now))
	}
	if d <= 0 {
		own.take(rate)
		cs.pace.take(cs.limits.Rate)
	}
	return d
}

// admit counts a new connection, unless that is one too many.
func (cs *Connections) admit(c *Conn) bool {
	ip := addressOf(c.RemoteAddr)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byIP[ip] >= cs.limits.perIP(ip) || cs.byListener[c.Listener] >= cs.limits.listener(c.Listener).Max ||
		len(cs.open) >= cs.limits.Max && !cs.protectedLocked(c.Listener) {
		return false
	}
	cs.open[c] = ip
	cs.byIP[ip]++
	cs.byListener[c.Listener]++
	cs.shedLocked()
	return true
}

func (cs *Connections) leave(c *Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.forgetLocked(c)
}

func (cs *Connections) forgetLocked(c *Conn) {
	ip, ok := cs.open[c]
	if !ok {
		return // it was evicted
	}
	delete(cs.open, c)
	cs.byListener[c.Listener]--
	if cs.byIP[ip]--; cs.byIP[ip] == 0 {
		delete(cs.byIP, ip)
	}
}

func (cs *Connections) of(listener string) int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byListener[listener]
}

func addressOf(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return ""
}

// pace spreads events over time: one each interval on average, a second's worth
// at once.
type pace struct{ next time.Time }

func (p *pace) wait(now time.Time) time.Duration {
	if least := now.Add(-time.Second); p.next.Before(least) {
		p.next = least
	}
	return p.next.Sub(now)
}

func (p *pace) take(rate int) { p.next = p.next.Add(time.Second / time.Duration(max(rate, 1))) }

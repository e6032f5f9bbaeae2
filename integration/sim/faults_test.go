package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/klamm/klamm/protocol"
)

// faults are what may happen to a cluster, each at a random moment.
var faults map[string]func(w *world)

func init() {
	faults = map[string]func(w *world){
		"kill":      (*world).killOne,
		"power cut": (*world).cutPower,
		"stop":      (*world).stopOne,
		"partition": (*world).partition,
		"cut":       (*world).cutOne,
		"pause":     (*world).pauseOne,
		"leap":      (*world).leap,
		"election":  (*world).upset,
		"snapshot":  func(w *world) { w.snapshot(w.anyNode()) },
		"kill all":  (*world).killAll,
		"blackout":  (*world).blackout,
	}
}

func faultNames() []string { return slices.Sorted(maps.Keys(faults)) }

// fault lets something happen, and goes on.
func (w *world) fault() {
	if w.load.stopped {
		return
	}
	if name := pick(w.rng, w.mix.faults); name != "" {
		w.tracef("fault: %s", name)
		faults[name](w)
	}
	w.after(w.between(0, 2*w.mix.gap), "", w.fault)
}

func (w *world) anyNode() *node { return w.nodes[w.rng.IntN(len(w.nodes))] }

// outage is how long something lasts: mostly short, at times longer than any
// timeout.
func (w *world) outage() time.Duration {
	if w.rng.IntN(3) == 0 {
		return w.between(2*time.Second, 8*time.Second)
	}
	return w.between(20*time.Millisecond, time.Second)
}

func (w *world) restart(n *node) { w.after(w.outage(), "", n.start) }

func (w *world) killOne() {
	n := w.anyNode()
	n.kill(nil)
	w.restart(n)
}

func (w *world) killAll() {
	if w.rng.IntN(4) > 0 { // it takes long to come back from
		return
	}
	for _, n := range w.nodes {
		n.kill(nil)
		w.restart(n)
	}
}

// blackout cuts the power of all.
func (w *world) blackout() {
	if w.rng.IntN(4) > 0 {
		return
	}
	for _, n := range w.nodes {
		n.kill(w.rng)
		w.restart(n)
	}
}

// cutPower strikes one broker only, unless everything is synced, so that no more than
// one replica ever loses what was not synced; and the controllers, whose Raft is synced.
func (w *world) cutPower() {
	if w.mix.synced {
		n := w.anyNode()
		n.kill(w.rng)
		w.restart(n)
		return
	}
	n := w.node(w.mix.victim)
	if c := w.controllers(); w.rng.IntN(3) == 0 {
		n = c[w.rng.IntN(len(c))]
	}
	if n.broker && n.id != w.mix.victim {
		return
	}
	n.kill(w.rng)
	w.restart(n)
}

func (w *world) stopOne() {
	n := w.anyNode()
	if w.mix.faults["power cut"] > 0 && !w.mix.synced && n.broker && n.listens(protocol.BrokerListener) == 0 {
		// Stopped between its registration and the loading of its logs it comes
		// back as one that ended uncleanly (as in Kafka): see newMix.
		return
	}
	n.shutDown()
	w.after(w.outage()+time.Second, "", func() { w.comeBack(n) })
}

// comeBack starts a node that was told to stop, once it has.
func (w *world) comeBack(n *node) {
	if l := n.running(); l != nil && l.broker != nil {
		select {
		case <-l.stopped:
		default:
			w.after(time.Second, "", func() { w.comeBack(n) })
			return
		}
	}
	n.start()
}

// partition splits the nodes into two.
func (w *world) partition() {
	var cut [][2]protocol.NodeID
	side := make([]bool, len(w.nodes))
	for i := range side {
		side[i] = w.rng.IntN(2) == 0
	}
	for i, a := range w.nodes {
		for j, b := range w.nodes {
			if side[i] != side[j] {
				cut = append(cut, [2]protocol.NodeID{a.id, b.id})
			}
		}
	}
	w.cutLinks(cut)
}

// cutOne cuts one link in one direction, or all of a node in one or both.
func (w *world) cutOne() {
	a, b := w.anyNode(), w.anyNode()
	cut := [][2]protocol.NodeID{{a.id, b.id}}
	how := w.rng.IntN(4)
	if how > 0 {
		cut = nil
		for _, other := range w.nodes {
			if how&1 != 0 {
				cut = append(cut, [2]protocol.NodeID{a.id, other.id})
			}
			if how&2 != 0 {
				cut = append(cut, [2]protocol.NodeID{other.id, a.id})
			}
		}
	}
	w.cutLinks(cut)
}

func (w *world) cutLinks(links [][2]protocol.NodeID) {
	w.tracef("cut %v", links)
	w.net.setCut(links, true)
	w.after(w.outage(), fmt.Sprintf("heal %v", links), func() {
		w.net.setCut(links, false)
		w.net.reopen()
	})
}

func (n *network) setCut(links [][2]protocol.NodeID, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		if l[0] == l[1] {
			continue
		}
		if cut {
			n.cut[l] = true
		} else {
			delete(n.cut, l)
		}
	}
}

// pauseOne lets nothing in or out of a node, clients' requests neither, and all of
// it at once later: a machine that stalls.
func (w *world) pauseOne() {
	n := w.anyNode()
	w.net.setPaused(n.id, true)
	w.tracef("node %d stalls", n.id)
	w.after(w.outage(), fmt.Sprintf("node %d goes on", n.id), func() {
		w.net.setPaused(n.id, false)
		w.net.reopen()
	})
}

func (n *network) setPaused(id protocol.NodeID, paused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused[id] = paused
}

// leap is time that passes with nothing getting anywhere: all timers fire, all
// leases end.
func (w *world) leap() {
	if w.rng.IntN(4) > 0 {
		return
	}
	d := w.between(time.Second, 15*time.Second)
	w.tracef("time leaps by %v", d)
	time.Sleep(d)
}

// upset is an election for no reason, of the leader again or of another.
func (w *world) upset() {
	c := w.controllers()
	w.elect(c[w.rng.IntN(len(c))])
}

// heal ends all faults.
func (w *world) heal() {
	w.tracef("all faults end")
	w.net.mu.Lock()
	w.net.cut = map[[2]protocol.NodeID]bool{}
	w.net.paused = map[protocol.NodeID]bool{}
	w.net.mu.Unlock()
	w.net.reopen()
	for _, n := range w.nodes {
		w.after(w.between(0, time.Second), "", func() { w.comeBack(n) })
	}
	w.after(10*time.Second, "", w.revive)
}

// revive does what is left to an administrator: it restarts the brokers that were
// unregistered, which do not register again by themselves, and elects a leader
// where nothing tells who has the records (a change of min.insync.replicas forgets
// the eligible replicas, as in Kafka, also where nobody else is left).
func (w *world) revive() {
	img := w.check.newestImage()
	for _, n := range w.brokers() {
		l := n.running()
		if l == nil {
			continue
		}
		if b, ok := img.Broker(n.id); l.broker.Epoch() >= 0 && (!ok || b.Epoch != l.broker.Epoch()) {
			w.tracef("node %d is registered no more and is restarted", n.id)
			n.kill(nil)
			n.start()
		}
	}
	for topic := range img.Topics() {
		for p := range topic.Partitions() {
			if p.Leader < 0 && len(p.ISR)+len(p.ELR)+len(p.LastKnownELR) == 0 && !safe(topic.Name) {
				w.load.elect(topic.Name, p.ID, true)
			}
		}
	}
	w.after(10*time.Second, "", w.revive)
}

package follower

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// target is whom to ask next: the leader, or who may know it.
func (f *Follower) target() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if addr, ok := f.addrs[f.leader]; ok {
		return addr
	}
	seek := f.seek
	if f.cfg.Known != nil {
		known := f.cfg.Known()
		for _, id := range slices.Sorted(maps.Keys(known)) {
			if id != f.cfg.NodeID && !slices.Contains(seek, known[id]) {
				seek = append(slices.Clip(seek), known[id])
			}
		}
	}
	if len(seek) == 0 {
		return ""
	}
	return seek[f.turn%len(seek)]
}

// hear takes what an answer says of the leader. It reports whether the answer is
// the leader's own, in the epoch that this node asked in. The error is one of
// learning: the disk's, or that there is nothing to do but to ask another.
func (f *Follower) hear(code protocol.Error, leader, epoch int32, endpoints map[protocol.NodeID]string) (follow bool, err error) {
	news, err := f.learn(protocol.NodeID(leader), protocol.ControllerEpoch(epoch), endpoints)
	switch {
	case err != nil:
		return false, err
	case code == protocol.None && !news && f.follows(protocol.NodeID(leader), protocol.ControllerEpoch(epoch)):
		return true, nil
	case news:
		return false, nil // ask that one
	}
	from := f.connAddr
	f.lost()
	if code == protocol.None {
		return false, tryAgain("controller %s leads an epoch that has passed (%d)", from, epoch)
	}
	return false, tryAgain("controller %s does not lead: %w", from, code)
}

// follows tells whether this is the leader that is known, in its epoch.
func (f *Follower) follows(leader protocol.NodeID, epoch protocol.ControllerEpoch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return leader == f.leader && epoch == f.epoch
}

// learn takes a leader and its epoch, and reports whether there is now another
// leader to be asked. What is older than what is known changes nothing.
func (f *Follower) learn(leader protocol.NodeID, epoch protocol.ControllerEpoch, endpoints map[protocol.NodeID]string) (bool, error) {
	f.mu.Lock()
	switch {
	case epoch < f.epoch, epoch == f.epoch && (leader < 0 || leader == f.leader):
		f.mu.Unlock()
		return false, nil
	case epoch == f.epoch && f.leader >= 0:
		known := f.leader
		f.mu.Unlock()
		f.log.Error().Int32("epoch", int32(epoch)).Int32("leader", int32(known)).Int32("other", int32(leader)).
			Msg("two controllers are said to lead one epoch, staying with the first")
		return false, nil
	}
	_, reachable := f.addrs[leader]
	if addr, ok := endpoints[leader]; ok {
		f.addrs[leader], reachable = addr, true
	}
	f.mu.Unlock()
	leader = max(leader, protocol.NoNode)
	// Durable before it is acted on: what this node has once known of an epoch
	// must hold after a restart.
	if f.cfg.Learned != nil && (f.saved != leadership{leader, epoch}) {
		if err := f.cfg.Learned(leader, epoch); err != nil {
			return false, err
		}
		f.saved = leadership{leader, epoch}
	}
	if !reachable {
		leader = protocol.NoNode
	}
	f.mu.Lock()
	f.epoch = epoch
	f.setLeaderLocked(leader)
	f.mu.Unlock()
	if leader >= 0 {
		f.log.Info().Int32("leader", int32(leader)).Int32("epoch", int32(epoch)).Msg("following the active controller")
	}
	return leader >= 0, nil
}

func (f *Follower) setLeaderLocked(leader protocol.NodeID) {
	if leader == f.leader {
		return
	}
	f.leader = leader
	close(f.changed)
	f.changed = make(chan struct{})
}

// lost gives up the connection, and the leader if it was the leader's.
func (f *Follower) lost() {
	f.disconnect()
	f.mu.Lock()
	f.setLeaderLocked(protocol.NoNode)
	f.mu.Unlock()
	f.turn++
}

func (f *Follower) connect(ctx context.Context, addr string) error {
	if f.conn != nil && f.connAddr == addr {
		return nil
	}
	f.disconnect()
	ctx, cancel := context.WithTimeout(ctx, f.cfg.RequestTimeout)
	defer cancel()
	conn, err := f.cfg.Dial(ctx, addr)
	if err != nil {
		return err
	}
	f.conn, f.connAddr = conn, addr
	return nil
}

func (f *Follower) disconnect() {
	if f.conn != nil {
		_ = f.conn.Close() // of no further use, whatever it says
		f.conn, f.connAddr = nil, ""
	}
}

func (f *Follower) ask(ctx context.Context, req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f.conn.Request(ctx, req)
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

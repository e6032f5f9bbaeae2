package raftlog

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// pins remembers, per voter whose server id has no directory, the first one that
// was seen for it, and refuses another one: that is a disk which has lost the
// votes and entries of the voter whose place it takes.
type pins struct {
	logs *logStore

	mu   sync.Mutex
	seen map[protocol.NodeID]protocol.UUID
}

func pinKey(id protocol.NodeID) []byte { return fmt.Appendf(nil, "Directory/%d", id) }

func openPins(logs *logStore, voters []Voter) (*pins, error) {
	p := &pins{logs: logs, seen: make(map[protocol.NodeID]protocol.UUID)}
	for _, v := range voters {
		raw, err := logs.db.Get(pinKey(v.ID))
		if err != nil {
			if isNotFound(err) {
				continue
			}
			return nil, fmt.Errorf("raft store: read the directory id of node %d: %w", v.ID, err)
		}
		if len(raw) != 16 {
			return nil, fmt.Errorf("raft store: the directory id of node %d has %d bytes", v.ID, len(raw))
		}
		p.seen[v.ID] = protocol.UUID(raw)
	}
	return p, nil
}

// of returns the directory id pinned for a node, or zero.
func (p *pins) of(id protocol.NodeID) protocol.UUID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[id]
}

// check pins the directory id of a peer that shows up for the first time, and
// refuses one that is not the pinned one.
func (p *pins) check(who peerID) error {
	if who.Directory == protocol.ZeroUUID {
		return fmt.Errorf("node %d has no directory id", who.Node)
	}
	p.mu.Lock()
	pinned, ok := p.seen[who.Node]
	if !ok {
		p.seen[who.Node], pinned = who.Directory, who.Directory
	}
	p.mu.Unlock()
	if !ok {
		err := p.logs.write("pin a directory id", func() error {
			return p.logs.db.Set(pinKey(who.Node), who.Directory[:])
		})
		if err != nil {
			return err
		}
	}
	if pinned != who.Directory {
		return fmt.Errorf("node %d comes with directory %s, but has been %s: a wiped or foreign disk may not take a voter's place",
			who.Node, who.Directory, pinned)
	}
	return nil
}

func storeKey(id raft.ServerID) []byte { return []byte("Store/" + string(id)) }

// checkStore pins the store of a member that shows up for the first time, and refuses
// another one of a voter: its disk is empty, whatever directory id it was given. One
// that does not vote has nothing to have lost, so its pin is made anew. Of strangers
// nothing is kept: there is no end of ids that somebody can make up.
func (p *pins) checkStore(id raft.ServerID, store protocol.UUID, member, votes bool) error {
	if !member {
		return nil
	}
	raw, err := p.logs.db.Get(storeKey(id))
	known := err == nil && len(raw) == len(store)
	switch {
	case err != nil && !isNotFound(err):
		return fmt.Errorf("raft store: read the store of server %s: %w", id, err)
	case known && protocol.UUID(raw) == store:
		return nil
	case known && votes:
		return fmt.Errorf("voter %s comes with an empty or foreign %s: a wiped disk may not take a voter's place; "+
			"format it with --no-initial-controllers, and have klamm quorum replace put it there", id, boltFile)
	}
	return p.logs.write("pin a store", func() error { return p.logs.db.Set(storeKey(id), store[:]) })
}

package raftlog

import (
	"slices"
	"sync"

	"github.com/klamm/klamm/protocol"
)

// voters is who votes and where they listen: what the configuration says, or the
// metadata log once it says it, and guests besides.
type voters struct {
	configured []Voter
	log        func() []Voter // nil or empty in a static quorum

	mu     sync.Mutex
	guests []Voter // whom this leader feeds, so that they can become voters
}

// dynamic tells whether the voters are in the log.
func (v *voters) dynamic() bool {
	list := v.list()
	return len(list) > 0 && list[0].DirectoryID != protocol.ZeroUUID
}

// list is the voters, without guests. It is not to be modified.
func (v *voters) list() []Voter {
	if v.log != nil {
		if known := v.log(); len(known) > 0 {
			return known
		}
	}
	return v.configured
}

// endpoint is where a server listens. One without a directory is any of the node.
func (v *voters) endpoint(who peerID) (string, bool) {
	is := func(o Voter) bool {
		return o.ID == who.Node && (who.Directory == protocol.ZeroUUID || o.DirectoryID == who.Directory)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, known := range [][]Voter{v.list(), v.guests} {
		if i := slices.IndexFunc(known, is); i >= 0 {
			return known[i].Endpoint, true
		}
	}
	return "", false
}

func (v *voters) invite(guest Voter) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.guests = append(v.guests, guest)
}

func (v *voters) uninvite(guest Voter) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.guests = slices.DeleteFunc(v.guests, func(o Voter) bool { return o.peer() == guest.peer() })
}

func (v *voters) guestList() []Voter {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.guests)
}

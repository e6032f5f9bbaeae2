package raftlog

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// The members are led to the voters one change at a time: who is new comes first, a
// leader that is left out resigns last, and a static quorum stays as it is.
func TestNextChange(t *testing.T) {
	dir := func(n byte) protocol.UUID { return protocol.UUID{n} }
	voter := func(id protocol.NodeID, d byte) Voter { return Voter{ID: id, DirectoryID: dir(d)} }
	member := func(v Voter, suffrage raft.ServerSuffrage) raft.Server {
		return raft.Server{Suffrage: suffrage, ID: v.peer().server()}
	}
	one, two, three, wiped := voter(1, 1), voter(2, 2), voter(3, 3), voter(2, 9)
	for _, tt := range []struct {
		name    string
		members []raft.Server
		voters  []Voter
		guests  []Voter
		want    string
	}{
		{"as it is", []raft.Server{member(one, raft.Voter)}, []Voter{one}, nil, ""},
		{"a guest is fed", []raft.Server{member(one, raft.Voter)}, []Voter{one}, []Voter{two}, "0 of 2"},
		{"a guest gets no vote", []raft.Server{member(one, raft.Voter), member(two, raft.Nonvoter)}, []Voter{one}, []Voter{two}, ""},
		{"a guest that is named gets it", []raft.Server{member(one, raft.Voter), member(two, raft.Nonvoter)}, []Voter{one, two}, []Voter{two}, "1 of 2"},
		{"named and unknown", []raft.Server{member(one, raft.Voter)}, []Voter{one, two}, nil, "0 of 2"},
		{"given up", []raft.Server{member(one, raft.Voter), member(two, raft.Nonvoter)}, []Voter{one}, nil, "2 of 2"},
		{"removed", []raft.Server{member(one, raft.Voter), member(two, raft.Voter)}, []Voter{one}, nil, "2 of 2"},
		{"new before old", []raft.Server{member(one, raft.Voter), member(two, raft.Voter)}, []Voter{one, wiped}, nil, "0 of 2"},
		{"old once the new votes", []raft.Server{member(one, raft.Voter), member(two, raft.Voter), member(wiped, raft.Voter)}, []Voter{one, wiped}, nil, "2 of 2"},
		{"the leader itself", []raft.Server{member(one, raft.Voter), member(two, raft.Voter)}, []Voter{two}, nil, "3 of 1"},
		{"others before the leader", []raft.Server{member(one, raft.Voter), member(two, raft.Voter), member(three, raft.Voter)}, []Voter{two}, nil, "2 of 3"},
		{"static", []raft.Server{member(one, raft.Voter)}, []Voter{{ID: 1}, {ID: 2}}, nil, ""},
		{"nobody is named", []raft.Server{member(one, raft.Voter)}, nil, nil, ""},
	} {
		got := ""
		if next, ok := nextChange(func(v Voter) raft.ServerID { return v.peer().server() }, tt.members, tt.voters, tt.guests, one.peer().server()); ok {
			got = fmt.Sprintf("%d of %d", next.do, nodeOf(next.id))
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

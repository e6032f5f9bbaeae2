package raftlog

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// TestOutcome has all that the library says of an entry.
func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		said error
		want error
	}{
		{raft.ErrNotLeader, protocol.ErrNotController},
		{raft.ErrLeadershipTransferInProgress, protocol.ErrNotController},
		{raft.ErrLeadershipLost, ErrUnknownOutcome},
		{raft.ErrAbortedByRestore, ErrUnknownOutcome},
		{raft.ErrRaftShutdown, ErrUnknownOutcome},
		{io.ErrUnexpectedEOF, ErrUnknownOutcome}, // of the store
	} {
		_, err := outcome(nil, tt.said)
		if !errors.Is(err, tt.want) || !errors.Is(err, tt.said) {
			t.Errorf("%v: %v, want %v", tt.said, err, tt.want)
		}
		if errors.Is(err, ErrUnknownOutcome) == errors.Is(err, protocol.ErrNotController) {
			t.Errorf("%v is both or neither: %v", tt.said, err)
		}
	}
}

// opening is a SnapshotStore whose Open fails, and changes what is listed.
type opening struct {
	listed
	after listed
}

func (o *opening) Open(string) (SnapshotMeta, io.ReadCloser, error) {
	o.listed = o.after
	return SnapshotMeta{}, nil, io.ErrUnexpectedEOF
}

// TestNewestSnapshotOrNone shows that the library never gets an older snapshot
// than the newest, and when one that can not be opened ends the node.
func TestNewestSnapshotOrNone(t *testing.T) {
	cfg := bootConfig("")
	members := raft.EncodeConfiguration(cfg.membership())
	all := listed{{ID: "2", Index: 20, Term: 2, Configuration: members}, {ID: "1", Index: 10, Term: 1, Configuration: members}}
	metas, err := (&snapshotStore{store: all}).List()
	if err != nil || len(metas) != 1 || metas[0].ID != "2" || len(metas[0].Configuration.Servers) != 2 {
		t.Errorf("listed %+v, %v", metas, err)
	}
	if _, err := (&snapshotStore{store: listed{{ID: "x", Configuration: []byte("y")}}}).List(); err == nil {
		t.Error("a membership that does not decode was listed")
	}
	for _, tt := range []struct {
		name  string
		after listed
		fatal bool
	}{
		{"the newest is unreadable", all, true},
		{"replaced meanwhile", append(listed{{ID: "3"}}, all...), false},
	} {
		s := &snapshotStore{store: &opening{all, tt.after}, fail: newFailure()}
		if _, _, err := s.Open("2"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if fatal := s.fail.get() != nil; fatal != tt.fatal {
			t.Errorf("%s: fatal %t", tt.name, fatal)
		}
	}
}

// TestDeleteOrder shows that a crash between two pieces of a deletion leaves
// one run of entries.
func TestDeleteOrder(t *testing.T) {
	const n = deleteChunk + 10
	for _, tt := range []struct {
		name   string
		lo, hi uint64
		want   []string
	}{
		{"the front", 1, n - 1, []string{"delete 1-1024", "delete 1025-1033"}},
		{"the tail", 2, n, []string{"delete 11-1034", "delete 2-10"}},
	} {
		db := newFakeDB()
		for i := range uint64(n) {
			_ = db.InmemStore.StoreLog(&raft.Log{Index: i + 1})
		}
		if err := newLogStore(db, time.Minute, newFailure()).DeleteRange(tt.lo, tt.hi); err != nil {
			t.Error(err)
		}
		if !slices.Equal(db.writes, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, db.writes, tt.want)
		}
	}
}

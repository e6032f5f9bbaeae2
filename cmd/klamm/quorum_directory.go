package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/klamm/klamm/metadata/inspect"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// directoryStatus is what the files of one node say of its quorum.
type directoryStatus struct {
	Directory   string          `json:"directory"`
	Running     bool            `json:"running"`
	Node        *int32          `json:"node"` // null of the metadata log alone
	ClusterID   string          `json:"clusterId,omitempty"`
	DirectoryID string          `json:"directoryId,omitempty"`
	Epoch       int32           `json:"epoch"` // the newest that it has known
	Leader      int32           `json:"leader"`
	Voted       int32           `json:"voted"`
	Dynamic     bool            `json:"dynamic"`
	Voters      []voterStatus   `json:"voters"`
	StartOffset int64           `json:"startOffset"`
	EndOffset   int64           `json:"endOffset"`
	LastEpoch   int32           `json:"lastEpoch"`
	Unapplied   int64           `json:"unapplied"` // of them only in Raft's store
	Snapshot    *snapshotStatus `json:"snapshot"`
	Raft        *raftStatus     `json:"raft"`
	RaftError   string          `json:"raftError,omitempty"`
}

type voterStatus struct {
	Node        int32    `json:"node"`
	DirectoryID string   `json:"directoryId,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
}

type raftStatus struct {
	Term      uint64 `json:"term"`
	LastIndex uint64 `json:"lastIndex"`
	LastTerm  uint64 `json:"lastTerm"`
}

func quorumOfDirectory(w io.Writer, path string, asJSON bool) error {
	q, err := inspect.LoadQuorum(path)
	if err != nil {
		return err
	}
	s := newDirectoryStatus(q)
	if asJSON {
		return writeJSON(w, s)
	}
	s.print(w)
	return nil
}

func newDirectoryStatus(q *inspect.Quorum) *directoryStatus {
	s := &directoryStatus{
		Directory: q.Dir, Running: q.Running, Epoch: int32(q.NewestEpoch()), Leader: int32(q.Leader), Voted: int32(q.Voted),
		Dynamic: q.Dynamic, Voters: []voterStatus{},
		StartOffset: q.StartOffset, EndOffset: q.EndOffset, LastEpoch: int32(q.LastEpoch), Unapplied: q.Unapplied,
	}
	if q.Meta != nil {
		node := int32(q.Meta.NodeID)
		s.Node, s.ClusterID, s.DirectoryID = &node, q.Meta.ClusterID, q.Meta.DirectoryID.String()
	}
	if q.Election.Epoch < q.NewestEpoch() {
		s.Leader = int32(protocol.NoNode) // that of an epoch that has passed
	}
	if q.HasSnapshot {
		s.Snapshot = &snapshotStatus{EndOffset: q.Snapshot.Offset, Epoch: int32(q.Snapshot.Epoch), Bytes: q.SnapshotSize}
	}
	switch {
	case q.Store != nil:
		s.Raft = &raftStatus{q.Store.Term, q.Store.LastIndex, q.Store.LastTerm}
		s.Voted = int32(q.Store.Voted)
	case !errors.Is(q.StoreErr, fs.ErrNotExist):
		s.RaftError = q.StoreErr.Error()
	}
	switch {
	case q.Dynamic:
		for _, m := range q.Members {
			v := voterStatus{Node: int32(m.ID), DirectoryID: m.DirectoryID.String()}
			for _, e := range m.Endpoints {
				v.Endpoints = append(v.Endpoints, e.Name+"://"+e.Address())
			}
			s.Voters = append(s.Voters, v)
		}
	case q.Store != nil:
		for _, id := range q.Store.Voters {
			s.Voters = append(s.Voters, voterStatus{Node: int32(id)})
		}
	default:
		for _, id := range q.Voters {
			s.Voters = append(s.Voters, voterStatus{Node: int32(id)})
		}
	}
	return s
}

func (s *directoryStatus) print(w io.Writer) {
	fmt.Fprint(w, s.Directory, ": ")
	if s.Node == nil {
		fmt.Fprintln(w, "a metadata log, or a file of one, without its node's meta.properties")
	} else {
		state := "no process holds it"
		if s.Running {
			state = "its node is running"
		}
		fmt.Fprintf(w, "node %d of cluster %s, directory %s; %s\n", *s.Node, s.ClusterID, s.DirectoryID, state)
	}
	leader := "leader unknown"
	if s.Leader >= 0 {
		leader = fmt.Sprintf("controller %d leads", s.Leader)
	}
	fmt.Fprintf(w, "epoch %d: %s", s.Epoch, leader)
	if s.Voted >= 0 {
		fmt.Fprintf(w, ", voted for %d", s.Voted)
	}
	fmt.Fprintln(w)
	kind := "of a static quorum"
	if s.Dynamic {
		kind = "of a dynamic quorum"
	}
	var voters []string
	for _, v := range s.Voters {
		text := strconv.Itoa(int(v.Node))
		if v.DirectoryID != "" {
			text += " (" + strings.Join(append([]string{v.DirectoryID}, v.Endpoints...), " ") + ")"
		}
		voters = append(voters, text)
	}
	if len(voters) == 0 {
		voters = []string{"unknown"}
	}
	fmt.Fprintf(w, "voters %s: %s\n", kind, strings.Join(voters, ", "))
	fmt.Fprintf(w, "log: offsets %d to %d, epoch %d\n", s.StartOffset, s.EndOffset-1, s.LastEpoch)
	if s.Unapplied > 0 {
		fmt.Fprintf(w, "  the last %d are in Raft's store only, committed or not\n", s.Unapplied)
	}
	if s.Snapshot != nil {
		fmt.Fprintf(w, "newest snapshot: offsets below %d, epoch %d, %d bytes\n", s.Snapshot.EndOffset, s.Snapshot.Epoch, s.Snapshot.Bytes)
	} else {
		fmt.Fprintln(w, "newest snapshot: none yet")
	}
	switch {
	case s.Raft != nil:
		fmt.Fprintf(w, "Raft's store: term %d, last entry %d of term %d\n", s.Raft.Term, s.Raft.LastIndex, s.Raft.LastTerm)
	case s.RaftError == raftlog.ErrInUse.Error():
		fmt.Fprintln(w, "Raft's store: only a stopped node's is read; ask a running one by --bootstrap-controller")
	case s.RaftError != "":
		fmt.Fprintf(w, "Raft's store: %s\n", s.RaftError)
	}
}

package raftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klamm/klamm/protocol"
)

// quorumStateFile is Kafka's record of the election. Raft's own truth is in
// Bolt; this file is written for Kafka's readers, once a leader is known, so
// that a Kafka controller can be started on a copy of the directory.
const quorumStateFile = "quorum-state"

// quorumState is the file's JSON object, one line without an end, in the order
// in which Kafka writes it. Version 0 is that of a static quorum; version 1 has
// no cluster id, applied offset and voters.
type quorumState struct {
	ClusterID     string                   `json:"clusterId"` // always empty in Kafka's too
	LeaderID      protocol.NodeID          `json:"leaderId"`
	LeaderEpoch   protocol.ControllerEpoch `json:"leaderEpoch"`
	VotedID       protocol.NodeID          `json:"votedId"`
	AppliedOffset int64                    `json:"appliedOffset"` // always 0
	CurrentVoters []quorumVoter            `json:"currentVoters"`
	DataVersion   int16                    `json:"data_version"`
}

type quorumVoter struct {
	ID protocol.NodeID `json:"voterId"`
}

// dynamicQuorumState is version 1, of a dynamic quorum: its voters are in the log.
type dynamicQuorumState struct {
	LeaderID         protocol.NodeID          `json:"leaderId"`
	LeaderEpoch      protocol.ControllerEpoch `json:"leaderEpoch"`
	VotedID          protocol.NodeID          `json:"votedId"`
	VotedDirectoryID string                   `json:"votedDirectoryId"`
	DataVersion      int16                    `json:"data_version"`
}

// newQuorumState is what to write while leader leads in epoch.
func newQuorumState(leader protocol.NodeID, epoch protocol.ControllerEpoch, voters []Voter) quorumState {
	qs := quorumState{LeaderID: leader, LeaderEpoch: epoch, VotedID: protocol.NoNode}
	for _, v := range voters {
		qs.CurrentVoters = append(qs.CurrentVoters, quorumVoter{v.ID})
		if v.DirectoryID != protocol.ZeroUUID {
			qs.DataVersion = 1
		}
	}
	return qs
}

// encode is the file's content.
func (qs quorumState) encode() ([]byte, error) {
	if qs.DataVersion == 0 {
		return json.Marshal(qs)
	}
	return json.Marshal(dynamicQuorumState{
		LeaderID: qs.LeaderID, LeaderEpoch: qs.LeaderEpoch, VotedID: qs.VotedID,
		VotedDirectoryID: protocol.ZeroUUID.String(), DataVersion: qs.DataVersion,
	})
}

// readQuorumState reads the file; ok is false where there is none.
func readQuorumState(dir string) (qs quorumState, ok bool, err error) {
	path := filepath.Join(dir, quorumStateFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return qs, false, nil
	}
	if err != nil {
		return qs, false, err
	}
	if err := json.Unmarshal(raw, &qs); err != nil {
		return qs, false, fmt.Errorf("%s is damaged: %w: remove it where raft.db beside it is known to be the newest, else restore both from a copy", path, err)
	}
	if qs.DataVersion != 0 && qs.DataVersion != 1 {
		return qs, false, fmt.Errorf("%s: unknown data_version %d", path, qs.DataVersion)
	}
	return qs, true, nil
}

// write replaces the file, or leaves the old one.
func (qs quorumState) write(dir string) error {
	raw, err := qs.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, quorumStateFile)
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteObserverState writes quorum-state for a node that is no Raft member and
// follows the metadata log as an observer does: who leads, and in which epoch.
// voters are those of a static quorum, nil where they are in the log.
func WriteObserverState(dir string, leader protocol.NodeID, epoch protocol.ControllerEpoch, voters []protocol.NodeID) error {
	qs := quorumState{LeaderID: leader, LeaderEpoch: epoch, VotedID: protocol.NoNode}
	for _, id := range voters {
		qs.CurrentVoters = append(qs.CurrentVoters, quorumVoter{id})
	}
	if len(voters) == 0 {
		qs.DataVersion = 1
	}
	return qs.write(dir)
}

// ReadObserverEpoch returns the newest epoch that WriteObserverState wrote, 0
// where there is none.
func ReadObserverEpoch(dir string) (protocol.ControllerEpoch, error) {
	qs, _, err := readQuorumState(dir)
	return qs.LeaderEpoch, err
}

// Election is what quorum-state tells, klamm's or Apache Kafka's.
type Election struct {
	Leader protocol.NodeID // NoNode where unknown
	Epoch  protocol.ControllerEpoch
	Voted  protocol.NodeID   // in Epoch; klamm keeps its votes in its own store
	Voters []protocol.NodeID // nil in a dynamic quorum, whose voters are in the log
}

// ReadElection reads quorum-state; ok is false where there is none.
func ReadElection(dir string) (e Election, ok bool, err error) {
	qs, ok, err := readQuorumState(dir)
	if err != nil || !ok {
		return Election{Leader: protocol.NoNode, Voted: protocol.NoNode}, false, err
	}
	e = Election{Leader: qs.LeaderID, Epoch: qs.LeaderEpoch, Voted: qs.VotedID}
	for _, v := range qs.CurrentVoters {
		e.Voters = append(e.Voters, v.ID)
	}
	return e, true, nil
}

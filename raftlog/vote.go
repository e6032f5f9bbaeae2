package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// Keys of the StableStore. The first three are the library's own.
const (
	keyCurrentTerm   = "CurrentTerm"
	keyVoteTerm      = "LastVoteTerm"
	keyVoteCandidate = "LastVoteCand"
	// keyVote holds both of the vote's parts: term (8 bytes, big-endian), then
	// the candidate's server id.
	keyVote = "Vote"
)

// errNotFound has the text by which the library knows it, which is also that
// of raft-boltdb.
var errNotFound = errors.New("not found")

// isNotFound tells that a key is not in the store.
func isNotFound(err error) bool { return err != nil && err.Error() == errNotFound.Error() }

// stableStore stands between Raft and Bolt for the term and the vote.
//
// The library persists a vote in two writes, term first. A crash between them
// leaves the new term with the candidate of the old one, to whom a repeated
// request is then granted without a look at its log (#661). Here the term
// waits in memory and both are one value in one write. The library acts on a
// vote only after the second call has returned.
//
// It also keeps what is stored in memory, does not write a term that is
// stored already (as each start would), and refuses one that is lower.
type stableStore struct {
	logs *logStore

	mu        sync.Mutex
	changed   func() // called after each change by Raft's main loop: must not block
	term      uint64 // as stored
	vote      []byte // as stored: term and candidate; nil = never voted
	stagedFor uint64 // term of a vote whose candidate has not come yet
}

func openStableStore(logs *logStore) (*stableStore, error) {
	s := &stableStore{logs: logs, changed: func() {}}
	term, err := logs.db.GetUint64([]byte(keyCurrentTerm))
	if err != nil && !isNotFound(err) {
		return nil, fmt.Errorf("raft store: read the current term: %w", err)
	}
	vote, err := logs.db.Get([]byte(keyVote))
	if err != nil && !isNotFound(err) {
		return nil, fmt.Errorf("raft store: read the vote: %w", err)
	}
	if len(vote) > 0 && len(vote) < 8 {
		return nil, fmt.Errorf("raft store: the vote has %d bytes, want a term of 8 and a candidate", len(vote))
	}
	s.term = term
	if len(vote) > 0 {
		s.vote = vote
	}
	return s, nil
}

// current returns the stored term, and for whom this node voted in it ("" = nobody).
func (s *stableStore) current() (term uint64, candidate string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vote != nil && binary.BigEndian.Uint64(s.vote) == s.term {
		candidate = string(s.vote[8:])
	}
	return s.term, candidate
}

func (s *stableStore) SetUint64(key []byte, val uint64) error {
	switch string(key) {
	case keyVoteTerm:
		s.mu.Lock()
		s.stagedFor = val
		s.mu.Unlock()
		return nil
	case keyCurrentTerm:
		return s.logs.stop(s.setTerm(val))
	}
	return s.logs.stop(s.logs.write("set "+string(key), func() error { return s.logs.db.SetUint64(key, val) }))
}

func (s *stableStore) setTerm(term uint64) error {
	s.mu.Lock()
	stored := s.term
	s.mu.Unlock()
	if term == stored {
		return nil
	}
	if term < stored {
		err := fmt.Errorf("raft store: term %d after term %d", term, stored)
		s.logs.fail.set(err)
		return err
	}
	err := s.logs.write("set the term", func() error { return s.logs.db.SetUint64([]byte(keyCurrentTerm), term) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.term = term
	changed := s.changed
	s.mu.Unlock()
	changed()
	return nil
}

// onChange sets what is called after each change.
func (s *stableStore) onChange(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = f
}

func (s *stableStore) Set(key, val []byte) error {
	if string(key) != keyVoteCandidate {
		return s.logs.stop(s.logs.write("set "+string(key), func() error { return s.logs.db.Set(key, val) }))
	}
	s.mu.Lock()
	vote := append(binary.BigEndian.AppendUint64(nil, s.stagedFor), val...)
	s.mu.Unlock()
	if err := s.logs.write("set the vote", func() error { return s.logs.db.Set([]byte(keyVote), vote) }); err != nil {
		return s.logs.stop(err)
	}
	s.mu.Lock()
	s.vote = vote
	s.mu.Unlock()
	return nil
}

func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch string(key) {
	case keyCurrentTerm:
		if s.term == 0 {
			return 0, errNotFound
		}
		return s.term, nil
	case keyVoteTerm:
		if s.vote == nil {
			return 0, errNotFound
		}
		return binary.BigEndian.Uint64(s.vote), nil
	}
	return s.logs.db.GetUint64(key)
}

func (s *stableStore) Get(key []byte) ([]byte, error) {
	if string(key) != keyVoteCandidate {
		return s.logs.db.Get(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vote == nil {
		return nil, errNotFound
	}
	return bytes.Clone(s.vote[8:]), nil
}

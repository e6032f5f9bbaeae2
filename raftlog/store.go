package raftlog

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// database is the part of raft-boltdb's store that we use.
type database interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// deleteChunk bounds the entries that one transaction deletes. Bolt has one
// writer: a long deletion behind a snapshot would hold up the leader's append.
const deleteChunk = 1024

// logStore stands between Raft and Bolt. A write that fails or takes longer
// than the deadline ends the engine: after a failed fsync the kernel may have
// dropped the pages, so a second try that succeeds proves nothing, and a
// leader whose disk hangs keeps its office by its heartbeats for as long as
// the process lives (hashicorp/raft #503, #614, #666).
//
// The library would panic on some of these errors, retry on others. It sees
// none of them: the goroutine that asked ends, by Goexit, which runs the
// library's deferred clean-up (waiters are answered, replication stops).
type logStore struct {
	db       database
	deadline time.Duration
	fail     *failure
	hung     atomic.Bool // a write never came back: Close would wait for it
	guarded  atomic.Bool // Raft's goroutines run, so their errors must not reach them
	early    early       // what was read before that
}

// start says that the library is about to start, on the caller's goroutine.
func (s *logStore) start() {
	s.early.begin()
	s.guarded.Store(false)
}

func newLogStore(db database, deadline time.Duration, fail *failure) *logStore {
	return &logStore{db: db, deadline: deadline, fail: fail}
}

// deadlineParts is in how many parts a deadline is waited for. A process that
// stood still, or its machine, finds one or two of them over when it goes on,
// however long that was; the disk has the others.
const deadlineParts = 8

// write runs one mutation with the deadline and reports its failure. What has
// timed out goes on in its goroutine, which nothing can end but the process.
func (s *logStore) write(op string, f func() error) error {
	if err := s.fail.get(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	ticker := time.NewTicker(s.deadline / deadlineParts)
	defer ticker.Stop()
	err, ok := within(done, ticker.C)
	switch {
	case !ok:
		s.hung.Store(true)
		err = fmt.Errorf("raft store: %s took longer than %s: the disk hangs", op, s.deadline)
	case err != nil:
		err = fmt.Errorf("raft store: %s: %w", op, err)
	default:
		return nil
	}
	s.fail.set(err)
	return err
}

// within waits until a mutation is done, or all parts of the deadline are over.
func within(done <-chan error, parts <-chan time.Time) (err error, ok bool) {
	for range deadlineParts {
		select {
		case err := <-done:
			return err, true
		case <-parts:
		}
	}
	return nil, false
}

// stop ends the calling goroutine, which is one of Raft's, where err is set.
func (s *logStore) stop(err error) error {
	if err != nil && s.guarded.Load() {
		runtime.Goexit()
	}
	return err
}

func (s *logStore) FirstIndex() (uint64, error) { return s.db.FirstIndex() }
func (s *logStore) LastIndex() (uint64, error)  { return s.db.LastIndex() }

// GetLog passes on that an entry is not there, which is ordinary. Any other
// error is the disk's.
func (s *logStore) GetLog(index uint64, log *raft.Log) error {
	guarded := s.guarded.Load()
	if guarded {
		if l, ok := s.early.take(index); ok {
			*log = l
			return nil
		}
	}
	err := s.db.GetLog(index, log)
	if err == nil && !guarded {
		s.early.keep(*log)
	}
	if err == nil || errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	err = fmt.Errorf("raft store: read entry %d: %w", index, err)
	if s.guarded.Load() {
		s.fail.set(err)
	}
	return s.stop(err)
}

func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

func (s *logStore) StoreLogs(logs []*raft.Log) error {
	return s.stop(s.write("append", func() error { return s.db.StoreLogs(logs) }))
}

// DeleteRange deletes in pieces. A crash between two leaves no hole: the front
// of the log goes from its first entry on, its tail from the last one back.
func (s *logStore) DeleteRange(lo, hi uint64) error {
	s.early.begin()
	first, err := s.db.FirstIndex()
	if err != nil {
		return s.stop(err)
	}
	last, err := s.db.LastIndex()
	if err != nil {
		return s.stop(err)
	}
	lo, hi = max(lo, first), min(hi, last)
	for _, r := range deleteRanges(lo, hi, hi == last && lo > first) {
		op := fmt.Sprintf("delete entries %d to %d", r[0], r[1])
		if err := s.write(op, func() error { return s.db.DeleteRange(r[0], r[1]) }); err != nil {
			return s.stop(err)
		}
	}
	return nil
}

// deleteRanges cuts [lo, hi] into pieces, from the end where backwards is set.
func deleteRanges(lo, hi uint64, backwards bool) [][2]uint64 {
	var out [][2]uint64
	for lo <= hi && hi > 0 {
		if backwards {
			from := lo
			if hi-lo >= deleteChunk {
				from = hi - deleteChunk + 1
			}
			out = append(out, [2]uint64{from, hi})
			hi = from - 1
		} else {
			to := min(hi, lo+deleteChunk-1)
			out = append(out, [2]uint64{lo, to})
			lo = to + 1
		}
	}
	return out
}

// close closes the database, unless a write hangs in it.
func (s *logStore) close() error {
	if s.hung.Load() {
		return nil
	}
	return s.db.Close()
}

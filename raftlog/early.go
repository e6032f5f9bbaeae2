package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// earlyBytes bounds what is kept between the two readings of a start.
const earlyBytes = 16 << 20

// early keeps the entries that the library reads when it starts, in search of
// memberships, for its second reading, when it applies them. Decoding them is
// most of a start's time.
type early struct {
	mu   sync.Mutex
	logs map[uint64]raft.Log
	size int
}

// begin forgets everything.
func (e *early) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.logs, e.size = nil, 0
}

func (e *early) keep(log raft.Log) {
	e.mu.Lock()
	defer e.mu.Unlock()
	size := len(log.Data) + 100
	if e.size+size > earlyBytes {
		return
	}
	if e.logs == nil {
		e.logs = make(map[uint64]raft.Log)
	}
	e.logs[log.Index] = log
	e.size += size
}

// take gives an entry away, since who applies it may change its bytes.
func (e *early) take(index uint64) (raft.Log, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	log, ok := e.logs[index]
	if ok {
		delete(e.logs, index)
		e.size -= len(log.Data) + 100
	}
	if len(e.logs) == 0 {
		e.logs = nil
	}
	return log, ok
}

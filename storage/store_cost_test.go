package storage

import (
	"strings"
	"sync"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// changes counts the changes of a file system by their kind, those below the
// directories of partitions and those elsewhere.
type changes struct {
	mu    sync.Mutex
	logs  map[string]int
	other map[string]int
}

func (c *changes) watch(mem *vfs.Mem) {
	c.logs, c.other = map[string]int{}, map[string]int{}
	mem.SetHook(func(op vfs.Op) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if strings.Contains(op.Path, "/x-") {
			c.logs[op.Kind]++
		} else {
			c.other[op.Kind]++
		}
		return nil
	})
}

func (c *changes) inLogs() int {
	n := 0
	for _, count := range c.logs {
		n += count
	}
	return n
}

func (c *changes) syncs() int {
	return c.logs["sync"] + c.logs["syncdir"] + c.other["sync"] + c.other["syncdir"]
}

// TestCloseCosts shows what a clean stop asks of the disk: two syncs for a new
// log that is empty, nothing for a log that nobody has written to, whatever
// leader epochs it has seen, and what is common to all logs once.
func TestCloseCosts(t *testing.T) {
	const n = 50
	mem := vfs.NewMem()
	var c changes
	s := openStore(t, mem, formatDirs(t, mem, "/a"), storeConfig())
	for i := range int32(n) {
		l, err := s.Create(tp("x", i), protocol.UUID{1}, nil)
		check(t, err)
		l.AssignEpoch(0, 0)
	}
	c.watch(mem)
	closeStore(t, s, 1)
	if got := c.syncs(); got > 2*n+10 {
		t.Errorf("closing %d new logs took %d syncs: %v, and elsewhere %v", n, got, c.logs, c.other)
	}

	for _, left := range []*vfs.Mem{mem.Crash(nil), mem.Kill()} {
		s = openStore(t, left, openDirs(t, left, "/a"), storeConfig())
		for i := range int32(n) {
			if l, ok := s.Get(tp("x", i)); !ok || l.TopicID() != (protocol.UUID{1}) {
				t.Fatalf("partition %d is gone after a clean stop and a power cut, or its topic id is", i)
			}
		}
	}

	for epoch := range protocol.LeaderEpoch(3) {
		for _, l := range s.Logs() {
			l.AssignEpoch(epoch+1, l.LEO())
		}
		mem = s.fs.(*vfs.Mem)
		c.watch(mem)
		closeStore(t, s, 1)
		if c.inLogs() > 0 {
			t.Errorf("closing logs that nobody has written to changed files: %v", c.logs)
		}
		mem.SetHook(nil)
		s = openStore(t, mem, openDirs(t, mem, "/a"), storeConfig())
	}

	l, _ := s.Get(tp("x", 7))
	appendTest(t, l, record(t, "kept"), 9)
	closeStore(t, s, 1)
	left := mem.Crash(nil)
	s = openStore(t, left, openDirs(t, left, "/a"), storeConfig())
	l, _ = s.Get(tp("x", 7))
	if got := l.EpochFor(0); got != 9 || l.LEO() != 1 {
		t.Errorf("after a clean stop and a power cut the log ends at %d, its first record in epoch %d", l.LEO(), got)
	}
}

// TestDeleteCosts shows that logs which are deleted together share one sync.
func TestDeleteCosts(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a"), storeConfig())
	var tps []protocol.TopicPartition
	for i := range int32(50) {
		l, err := s.Create(tp("x", i), protocol.UUID{1}, nil)
		check(t, err)
		appendTest(t, l, record(t, "a"), 1)
		check(t, l.Flush(1))
		tps = append(tps, tp("x", i))
	}
	var c changes
	c.watch(mem)
	check(t, s.Delete(tps...))
	if c.syncs() != 1 {
		t.Errorf("deleting %d logs took %d syncs: %v, and elsewhere %v", len(tps), c.syncs(), c.logs, c.other)
	}
	for _, name := range dirsOf(t, mem.Crash(nil), "/a") {
		if !strings.HasSuffix(name, deleteDirSuffix) {
			t.Errorf("%s came back after a power cut", name)
		}
	}
}

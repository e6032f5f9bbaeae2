package storage

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// countingFS counts the bytes that are read from segments.
type countingFS struct {
	vfs.FS
	read *atomic.Int64
}

func (c countingFS) OpenWrite(path string) (vfs.File, error) {
	return c.counted(path)(c.FS.OpenWrite(path))
}

func (c countingFS) Open(path string) (vfs.File, error) { return c.counted(path)(c.FS.Open(path)) }

func (c countingFS) counted(path string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil || filepath.Ext(path) != ".log" {
			return f, err
		}
		return countingFile{f, c.read}, nil
	}
}

type countingFile struct {
	vfs.File
	read *atomic.Int64
}

func (c countingFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.File.ReadAt(p, at)
	c.read.Add(int64(n))
	return n, err
}

// A start after a clean stop reads no segment but a batch header at either end,
// however much the log holds; one after a kill reads what was not synced.
func TestCleanStartReadsNoSegment(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a"), storeConfig())
	l, err := s.Create(tp("t", 0), protocol.UUID{1}, nil)
	check(t, err)
	for i := range 2000 {
		appendTest(t, l, record(t, fmt.Sprintf("a record of some length, number %d", i)), 1)
	}
	var read atomic.Int64
	killed := countingFS{mem.Kill(), &read}
	openStore(t, killed, openDirs(t, killed, "/a"), storeConfig())
	unclean := read.Swap(0)
	closeStore(t, s, 5)
	counted := countingFS{mem, &read}
	openStore(t, counted, openDirs(t, counted, "/a"), storeConfig())
	if clean := read.Load(); clean > 2*4096 || unclean < 10*clean {
		t.Errorf("%d bytes of segments read after a clean stop, %d after a kill", clean, unclean)
	}
}

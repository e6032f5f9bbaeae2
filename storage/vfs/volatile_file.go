package vfs

import (
	"os"
	"slices"
)

// volatileFile is an open file of a Volatile.
type volatileFile struct {
	fs   *Volatile
	node *cached
	handle
}

func (f *volatileFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("read", false); err != nil {
		return 0, err
	}
	return readAt(f.node.data, p, off)
}

func (f *volatileFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("write", true); err != nil {
		return 0, err
	}
	n := f.node
	n.changedLocked(min(off, int64(len(n.data))))
	n.resize(max(off+int64(len(p)), int64(len(n.data))))
	return copy(n.data[off:], p), nil
}

func (f *volatileFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("truncate", true); err != nil {
		return err
	}
	f.node.changedLocked(min(size, int64(len(f.node.data))))
	f.node.resize(size)
	return nil
}

// resize cuts the bytes, or extends them with zeros.
func (n *cached) resize(size int64) {
	old := int64(len(n.data))
	if size > old {
		n.data = slices.Grow(n.data, int(size-old))
		clear(n.data[old:size])
	}
	n.data = n.data[:size]
}

func (f *volatileFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("sync", true); err != nil {
		return err
	}
	return f.node.syncBytes()
}

func (f *volatileFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *volatileFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("close", false); err != nil {
		return err
	}
	f.closed = true
	n := f.node
	if n.opened--; n.opened == 0 && n.dirty == clean && n.onDisk() {
		n.loaded, n.data = false, nil // the disk has all of it
	}
	return nil
}

// OS returns nil: the file of the operating system has only what was synced.
func (f *volatileFile) OS() *os.File { return nil }

package vfs

import (
	"bytes"
	"os"
	"slices"
)

// memFile is an open file of a Mem. Like a descriptor it stays usable when
// the name is gone.
type memFile struct {
	fs   *Mem
	node *node
	handle
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("read", false); err != nil {
		return 0, err
	}
	return readAt(f.node.data, p, off)
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("write", true); err != nil {
		return 0, err
	}
	beforeCut := f.fs.cutAt == 0 || f.fs.ops < f.fs.cutAt
	if err := f.fs.changeLocked("write", f.path); err != nil {
		if beforeCut {
			p = p[:len(p)/2]
			f.node.write(p, off)
			return len(p), err
		}
		return 0, err
	}
	p, err := f.fitLocked(p, off)
	f.node.write(p, off)
	f.node.modified = f.fs.now()
	return len(p), err
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("truncate", true); err != nil {
		return err
	}
	if err := f.fs.changeLocked("truncate", f.path); err != nil {
		return err
	}
	f.node.truncate(size)
	f.node.modified = f.fs.now()
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("sync", true); err != nil {
		return err
	}
	if err := f.fs.changeLocked("sync", f.path); err != nil {
		return err
	}
	n := f.node
	// Mostly only the end has changed: replaying the writes costs their size,
	// a copy would cost the file's.
	for _, w := range n.unsynced {
		n.synced = w.applyTo(n.synced)
	}
	n.unsynced = nil
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("close", false); err != nil {
		return err
	}
	f.closed = true
	return nil
}

// OS returns nil: there is no descriptor, so readers fall back to ReadAt.
func (f *memFile) OS() *os.File { return nil }

func (n *node) write(p []byte, off int64) {
	w := write{at: off, data: bytes.Clone(p)}
	if w.data == nil {
		w.data = []byte{} // nil stands for a truncation
	}
	n.data = w.applyTo(n.data)
	n.unsynced = append(n.unsynced, w)
}

func (n *node) truncate(size int64) {
	w := write{at: size}
	n.data = w.applyTo(n.data)
	n.unsynced = append(n.unsynced, w)
}

// applyTo returns data after the change; data's own array may be reused.
func (w write) applyTo(data []byte) []byte {
	end := w.at + int64(len(w.data))
	if w.data == nil && end < int64(len(data)) {
		clear(data[end:])
		return data[:end]
	}
	if missing := end - int64(len(data)); missing > 0 {
		old := len(data)
		data = slices.Grow(data, int(missing))[:end]
		clear(data[old:])
	}
	copy(data[w.at:], w.data)
	return data
}

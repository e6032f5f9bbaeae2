package vfs

import (
	"io/fs"
	"syscall"
)

// SetVolume bounds what all files hold together, as the volume below a real file
// system does; 0 means no bound. A write that does not fit writes what does, and
// fails with ENOSPC.
func (m *Mem) SetVolume(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volume = bytes
}

// Space returns the size of the volume and what is left of it, as the function
// Space does.
func (m *Mem) Space(string) (total, usable int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.volume == 0 {
		return -1, -1, nil
	}
	return m.volume, m.leftLocked(), nil
}

func (m *Mem) leftLocked() int64 { return max(m.volume-m.root.size(), 0) }

// size is what the files of a node hold.
func (n *node) size() int64 {
	size := int64(len(n.data))
	for _, child := range n.entries {
		size += child.size()
	}
	return size
}

// fitLocked cuts a write of a file down to what the volume has room for.
func (f *memFile) fitLocked(p []byte, off int64) ([]byte, error) {
	grows := max(off+int64(len(p))-int64(len(f.node.data)), 0)
	if f.fs.volume == 0 || grows == 0 {
		return p, nil
	}
	if missing := grows - f.fs.leftLocked(); missing > 0 {
		return p[:max(int64(len(p))-missing, 0)], &fs.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
	}
	return p, nil
}

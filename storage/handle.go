package storage

import (
	"sync/atomic"

	"github.com/klamm/klamm/storage/vfs"
)

// handle is an open file that several owners share: the segment, and each
// read that is under way. The last one to let go closes it, so a segment that
// is removed or replaced still delivers what was promised from it.
type handle struct {
	vfs.File
	refs atomic.Int32
}

func newHandle(f vfs.File) *handle {
	h := &handle{File: f}
	h.refs.Store(1)
	return h
}

func (h *handle) retain() { h.refs.Add(1) }

// release lets go. Errors of a close are of no interest: what must be durable
// has been synced before.
func (h *handle) release() {
	switch refs := h.refs.Add(-1); {
	case refs == 0:
		_ = h.Close()
	case refs < 0:
		panic("storage: file released more often than retained")
	}
}

// shared tells whether somebody besides the one who asks holds the file.
func (h *handle) shared() bool { return h.refs.Load() > 1 }

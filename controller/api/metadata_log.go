package api

import (
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// MetadataLog is what observers are served from. All that the log holds is
// committed: its end is the high watermark.
type MetadataLog struct {
	ClusterID string
	Log       *storage.Log
	// FS and Dir are where its checkpoints lie.
	FS  vfs.FS
	Dir string
	// Leadership returns who leads, and a channel that is closed at its next change.
	Leadership func() (raftlog.Leadership, <-chan struct{})
	// Grown returns a channel that is closed when the log has grown since the call.
	Grown func() <-chan struct{}
	// Endpoint is where a controller listens.
	Endpoint func(protocol.NodeID) (host string, port uint16, ok bool)
}

// Package snapshot is checkpoints of the metadata: the state up to, but not
// including, one offset of the metadata log, in files that Apache Kafka reads.
//
// A checkpoint is a run of record batches whose offsets start at 0, all stamped
// with the epoch of the last record that the state contains:
//
//	control batch    SnapshotHeader, and with kraft.version 1 KRaftVersion, Voters
//	metadata batches the records that rebuild the image, metadata.version first
//	control batch    SnapshotFooter
//
// Offset and epoch of the state are in the file's name only,
// <offset, 20 digits>-<epoch, 10 digits>.checkpoint. Encode and Decode are the
// format. The times inside are those of the last record contained, not of the
// writing, so one state gives the same bytes on every node.
//
// Store keeps them for Raft (raftlog.SnapshotStore). What Raft must know, its
// index, term and membership, is in a sidecar per snapshot, named after the
// index. A checkpoint is written under a temporary name, verified, made
// read-only, synced, renamed, and its directory synced; the sidecar follows in
// the same way, last. So a checkpoint without a sidecar is whole but no snapshot
// of Raft's, a sidecar always has its checkpoint, and two sidecars may point at
// one: between them Raft appended nothing but entries of its own. A checkpoint
// is never rewritten.
//
// Raft's streams carry a preamble in front of the file's bytes, since a peer
// has to learn the name as well:
//
//	0  magic   4 bytes  "kmcp"
//	4  version uint16   1
//	6  epoch   int32
//	10 offset  int64    first offset not contained
//
// The checkpoint named 0-0 is not a state: it holds what the first leader
// writes into an empty log (WriteBootstrap, ReadBootstrap).
//
// A Store takes no goroutine and may be used by several. Start reading at
// Encode, then Store.
package snapshot

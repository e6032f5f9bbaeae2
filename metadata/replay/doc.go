// Package replay turns committed entries into the metadata log, the metadata
// log into images, and tells subscribers.
//
// Replayer is Raft's state machine (raftlog.StateMachine). For each entry:
//
//  1. A batch whose stamp, its leader epoch, is not the entry's term is skipped:
//     it was decided on an outdated image.
//  2. The batch gets the next offset of the metadata log as its base offset, a
//     pure function of what was applied before it.
//  3. Its records are replayed into a metadata.Delta.
//  4. It is appended to __cluster_metadata-0, an ordinary storage.Log.
//  5. The delta's image is published: stored for Image, then handed to the
//     subscribers one after the other.
//
// Records between BeginTransaction and EndTransaction are published together,
// however many batches they take; after AbortTransaction it is as if they had
// not been. An entry that can not be applied stops the node with its offset
// and content (nobody may go on with part of the state); so does everything
// after it.
//
// After a start. Raft's store is the truth and the log is derived from it, but
// the log holds committed batches only, so New loads the newest checkpoint and
// the log behind it and publishes that at once, before Raft knows what is
// committed. Raft then repeats its entries since its own last snapshot: what
// the log has already is compared, by offset, epoch, size and CRC, and a
// difference is fatal; what it lacks is appended. A Restore to an offset that
// the log has is such a repetition and changes nothing; one beyond the log's
// end replaces log and image, and subscribers get the difference as one delta.
//
// The log is not synced per entry: what a power cut takes, Raft repeats. It is
// synced before a snapshot counts, since Raft may then forget the entries.
//
// An observer has no Raft. metadata/follower fills its log with what the leader
// holds, committed or not, and only what lies below the leader's high watermark
// is replayed: New publishes the newest checkpoint, Append, Truncate and Install
// are about the log, Advance is step 3 and 5 (observe.go). A controller that is no
// voter yet, or no more, is fed in the same way until Raft feeds it.
//
// Apply, Snapshot and Restore run on Raft's goroutine, Publish on the same one,
// the follower's, or on that of Subscribe. There are two locks: feeding, over
// whatever brings records in, and below it mu, held over Publish: a subscriber
// must not call Subscribe, nor what takes feeding, and must be quick.
//
// Start reading at Apply.
package replay

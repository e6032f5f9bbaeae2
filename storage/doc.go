// Package storage keeps logs of record batches on disk, in Kafka's files: a
// directory of ours opens in Kafka and the other way round, and Kafka's tools
// read it. It knows offsets, leader epochs and producers; it has never heard
// of replicas, high watermarks as state, topics' configs or requests.
//
// Its parts: Log is one replica's log, a directory <topic>-<partition> with
// segments, indexes, leader epochs and producer state. Dir is one log
// directory with its lock, identity and checkpoints. Store is all logs in all
// directories of a node. Package vfs is the file system below.
//
//	dir, err := storage.OpenDir(vfs.OS(), path, time.Now())
//	store, err := storage.OpenStore(ctx, vfs.OS(), []*storage.Dir{dir}, storage.DefaultStoreConfig(), log)
//	l, err := store.Create(tp, topicID, nil)
//	result, err := l.AppendAsLeader(batches, epoch, storage.AppendOptions{})
//	slice, err := l.Read(0, 1<<20, highWatermark, true) // send it, then slice.Release()
//
// Append and read. An append patches base offset and leader epoch into the
// caller's bytes and writes them at once, into one segment. A read finds
// positions and copies nothing: a Slice holds a reference on the file, so
// truncation and deletion never take bytes away that a reader was promised.
//
// Durability. Nothing is synced but by Flush, which many may share, and by
// what must not be undone by a power cut: truncation, renames, checkpoints. A
// write or sync that fails takes the log directory offline and is never tried
// again; but an append that a full volume has no room for is only refused
// (space.go). FlushedTo is the recovery point: bytes, indexes, producer snapshots
// and epochs below it are on disk. A start without the mark of a clean
// shutdown checks every batch from there on and cuts the log at the first that
// is not whole; if whole ones follow, the disk is at fault, and what is cut
// off is kept in *.corrupt files and reported by Log.Recovery.
//
// Goroutines: none of a Log's own. Store.Run syncs closed segments, writes
// checkpoints and removes deleted logs until its context ends. Lock order:
// Store.changing, Log.syncing, Dir.checkpoint, Store.mu, Log.mu. Log.mu is held
// over the write of an append, and over no sync.
//
// Formats: record batches of magic 2; N.log, N.index, N.timeindex, N.txnindex,
// N.snapshot (version 1), leader-epoch-checkpoint (0), partition.metadata (0),
// the offset checkpoints (0), meta.properties (1, and 0 is read),
// .kafka_cleanshutdown (0). Byte tables stand beside the code of each. One of our
// own, which says nothing: klamm.ballast (ballast.go).
//
// Where it differs from Kafka: the index files of the active segment do not
// exist; their entries are on the heap, and the files are written when the
// segment is closed and synced, or at a clean shutdown, with Kafka's sizes.
// Nothing is mapped into memory. Files are not preallocated. flush.ms counts from
// the append, not from a scheduler's next look. While its volume is short of space
// a log that has a retention rolls before its segment is full. Aborted
// transactions are written to N.txnindex but not yet answered to readers, which
// comes with transactions. A producer snapshot is not written after a recovery,
// as the next clean stop or roll writes it.
//
// Dump prints these files in the lines of Kafka's dump tool. What retention lets
// go, and when, is in retention.go.
//
// Start reading at log.go, append.go and read.go; then load.go and recovery.go.
package storage

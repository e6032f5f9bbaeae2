// Package metadata is the cluster as a value: brokers, topics, partitions,
// configs, features, quotas and credentials at one offset of the metadata log.
//
// An Image is what the log says up to its offset. It never changes once it is
// published, so readers share the pointer and take no lock. A Delta is an image
// in the making: records are replayed into it, Apply gives the next image, and
// until the next Replay it knows what became different:
//
//	delta := metadata.NewDelta(image)
//	for _, rec := range batch {
//		if err := delta.Replay(rec); err != nil { ... }
//	}
//	image = delta.Apply(offset, epoch, timestampMs)
//
// Images share structure. Their tables are copy-on-write B-trees
// (tidwall/btree), and a topic holds its partitions in chunks, so a change costs
// its own size and a logarithm, not the size of the cluster. Measured against
// hashicorp/go-immutable-radix with 200,000 partitions: the same time for a
// change, 48 bytes an entry instead of 411.
//
// Memory changes only by replaying records, on the active controller as
// everywhere else, so two nodes at one offset hold equal images; Digest compares
// them. Where the records come from, and how transactions of many batches are
// kept together, is the business of metadata/replay.
//
// Start reading at Image, then Delta.Replay.
package metadata

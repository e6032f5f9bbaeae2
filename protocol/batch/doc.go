// Package batch is the RecordBatch v2, Kafka's unit of everything that is
// produced, stored, replicated and fetched (KIP-98). A Batch is a slice of bytes
// seen in place: nothing is decoded into structs on the way from a producer to
// the log and from the log to a consumer.
//
// It owns the header, the CRC, the records' framing, compression, and what may
// be said of a producer's batch without knowing the partition's log. Offsets,
// epochs and sequences are given out and checked by storage.
//
//	b, err := batch.Single(partition.Records)  // a produce request's one batch
//	result, err := batch.Validate(b, &options) // walks it, corrects timestamps
//	b, rest, err := batch.Next(buf)            // framing only, for readers of logs
//	err = b.Each(func(r batch.Record) error { … })
//	built, err := batch.NewBuilder(opts)…      // metadata log, markers, tests
//
// Validate walks every record's framing, so that unreadable bytes never enter a
// log, and allocates nothing for it. Compressed records pass through a window of
// 64 KiB: how much they decompress to costs time, not memory. Decoders are pooled
// and bounded in number by codec.go; there are no goroutines and no other state.
// Whether a topic's compression.type asks for another codec is the caller's
// matter, before or after Validate.
//
// Read: magic 2; gzip, snappy raw and as snappy-java frames it, LZ4 frames of
// independent blocks, zstd with windows up to 128 MiB. Written: the same, snappy
// raw. Message sets of magic 0 and 1 are refused, as by Kafka 4.
//
// Against Kafka: the length of a compressed record must be right; the records of
// a batch decompress to 2 GiB at most; LZ4 frames end with the payload; at most
// 100 refused records are described.
//
// Start reading at batch.go, then next.go and validate.go.
package batch

// Package record is Kafka's metadata records (KRaft) and their encoding: what
// the metadata log and its checkpoints are made of.
//
// A Record is one change of cluster metadata: a broker registered, a topic or
// a partition was created. A Control record is about the log itself: a leader
// took office, a checkpoint begins. Both are plain structs; what they mean to
// the cluster is the business of metadata.
//
// Bytes are Kafka's, down to the choice of a record's version, which
// metadata.version governs (metadata/feature):
//
//	frame := record.AppendFrame(nil, &record.Topic{Name: "orders", TopicID: id}, level)
//	rec, err := record.ReadFrame(frame)
//	b := record.EncodeBatch(records, level, baseOffset, epoch, timestampMs)
//	err = record.Each(b, func(e record.Entry) error { ... })
//
// A record describes its layout once, in walk, from which it is written, read
// and printed. All ids and versions of Kafka 4.4 are readable, those that klamm
// never writes too, so that a log of Kafka's can be read whole; anything else
// is an error that names the id. Records that were read share no memory with
// the bytes, and no length that is only claimed is allocated.
//
// One tagged field is ours: the cause, in which our controllers say why they
// wrote a record (cause.go). Unknown ones are skipped and, unlike in Kafka, not
// kept: nothing here writes a record that it has read from elsewhere.
//
// Start reading at records.go, then layout.go, frame.go and batch.go.
package record

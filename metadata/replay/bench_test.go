package replay

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// topicEntries are the entries that create that many topics of three partitions,
// a hundred topics a batch.
func topicEntries(topics int) []raftlog.Entry {
	var entries []raftlog.Entry
	var records []record.Record
	for i := range topics {
		id := protocol.UUID{1, byte(i >> 16), byte(i >> 8), byte(i)}
		records = append(records, &record.Topic{Name: fmt.Sprint("topic-", i), TopicID: id})
		for p := range int32(3) {
			records = append(records, &record.Partition{
				TopicID: id, PartitionID: p, Replicas: []protocol.NodeID{1}, ISR: []protocol.NodeID{1}, Leader: 1,
				Directories: []protocol.UUID{{9}},
			})
		}
		if i%100 == 99 || i == topics-1 {
			data := record.EncodeBatch(records, feature.Latest, 0, 1, 1000)
			entries = append(entries, raftlog.Entry{Index: uint64(len(entries) + 1), Term: 1, Data: data})
			records = nil
		}
	}
	return entries
}

type nobody struct{}

func (nobody) Publish(*metadata.Delta, *metadata.Image) {}

// BenchmarkReplay is 3,000 partitions from Raft's entries to an image: on a node
// that has none of them, which appends them to the metadata log on a real disk,
// and at a start, which reads that log.
func BenchmarkReplay(b *testing.B) {
	const topics = 1000
	entries := topicEntries(topics)
	open := func(dir string) (*storage.Log, *Replayer) {
		b.Helper()
		log, err := storage.OpenLog(vfs.OS(), dir, storage.LogOptions{
			Config: storage.DefaultLogConfig(), TopicID: protocol.MetadataTopicID, Log: zerolog.Nop(),
		})
		if err != nil {
			b.Fatal(err)
		}
		r, err := New(Config{Log: log, FS: vfs.OS(), Dir: dir}, zerolog.Nop())
		if err != nil {
			b.Fatal(err)
		}
		r.Subscribe(nobody{})
		return log, r
	}
	apply := func(r *Replayer) {
		b.Helper()
		for i := range entries {
			if _, err := r.Apply(entries[i : i+1]); err != nil {
				b.Fatal(err)
			}
		}
		if n := r.Image().NumTopics(); n != topics {
			b.Fatalf("%d topics", n)
		}
	}
	b.Run("appended", func(b *testing.B) {
		b.ReportAllocs()
		root, n := b.TempDir(), 0
		for b.Loop() {
			n++
			log, r := open(filepath.Join(root, fmt.Sprint(n)))
			apply(r)
			if err := log.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(3*topics), "ns/partition")
	})
	b.Run("read", func(b *testing.B) {
		dir := filepath.Join(b.TempDir(), "log")
		log, r := open(dir)
		apply(r)
		if err := log.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			log, r := open(dir)
			apply(r)
			if err := log.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(3*topics), "ns/partition")
	})
}

// BenchmarkSnapshot is a checkpoint of 100,000 partitions: written with all that
// is checked in it, read at a start, and handed to a new subscriber.
func BenchmarkSnapshot(b *testing.B) {
	const topics = 100_000 / 3
	dir := filepath.Join(b.TempDir(), "log")
	open := func() (*storage.Log, *Replayer) {
		b.Helper()
		log, err := storage.OpenLog(vfs.OS(), dir, storage.LogOptions{
			Config: storage.DefaultLogConfig(), TopicID: protocol.MetadataTopicID, Log: zerolog.Nop(),
		})
		if err != nil {
			b.Fatal(err)
		}
		r, err := New(Config{Log: log, FS: vfs.OS(), Dir: dir}, zerolog.Nop())
		if err != nil {
			b.Fatal(err)
		}
		return log, r
	}
	log, r := open()
	for _, e := range topicEntries(topics) {
		if _, err := r.Apply([]raftlog.Entry{e}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := r.WriteSnapshot(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("subscribe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Subscribe(nobody{})
		}
	})
	if err := r.WriteSnapshot(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := log.Close(); err != nil {
				b.Fatal(err)
			}
			log, r = open()
		}
		if n := r.Image().NumTopics(); n != topics {
			b.Fatalf("%d topics", n)
		}
	})
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
}

package storage

import (
	"bytes"
	"context"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// testdata/kafka was written by Apache Kafka 4.4.0: a log directory after a
// clean stop, and its one topic before that, as a kill would have left it. The
// topic was made with index.interval.bytes=200 and segment.index.bytes=1200,
// and has plain batches, transactions committed and aborted (zstd), timestamps
// out of order, one roll by age (the end markers have a time years after the
// records'), and an open transaction at the end.
const (
	kafkaClean  = "testdata/kafka/clean"
	kafkaKilled = "testdata/kafka/killed"
)

func kafkaOptions() LogOptions {
	opts := LogOptions{Config: DefaultLogConfig(), Now: now}
	opts.Config.IndexIntervalBytes = 200
	opts.Config.SegmentIndexBytes = 1200
	return opts
}

// copyIn copies a directory of the disk to one in memory.
func copyIn(t testing.TB, mem *vfs.Mem, from, to string) {
	t.Helper()
	check(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return mkdirAll(mem, filepath.Join(to, rel))
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return writeFile(mem, filepath.Join(to, rel), data)
	}))
}

// sameFiles compares files with those that Kafka has written.
func sameFiles(t *testing.T, mem *vfs.Mem, dir, kafka string, names ...string) {
	t.Helper()
	for _, name := range names {
		want, err := os.ReadFile(filepath.Join(kafka, name))
		check(t, err)
		got := readFile(t, mem, dir, name)
		// While Kafka runs, the active segment's indexes have their full size.
		if len(got) < len(want) && strings.HasSuffix(name, "index") && len(bytes.Trim(want[len(got):], "\x00")) == 0 {
			want = want[:len(got)]
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from Kafka's:\n%s\nwant\n%s", name, hex.Dump(got), hex.Dump(want))
		}
	}
}

// The same batches give the same files, byte for byte.
func TestFilesAreKafkas(t *testing.T) {
	mem := vfs.NewMem()
	id, err := protocol.ParseUUID("1cVkf9RoTtO0MzKpTbvUsQ")
	check(t, err)
	opts := kafkaOptions()
	opts.TopicID = id
	l := openTest(t, mem, "/golden-0", opts)
	for _, base := range []int64{0, 18} {
		data, err := os.ReadFile(filepath.Join(kafkaKilled, "golden-0", fileName(base, logSuffix)))
		check(t, err)
		for len(data) > 0 {
			b, rest, err := batch.Next(data)
			check(t, err)
			if _, err := l.AppendAsFollower(b); err != nil {
				t.Fatal(err)
			}
			data = rest
		}
	}
	check(t, l.Close())
	sameFiles(t, mem, "/golden-0", kafkaKilled+"/golden-0",
		"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
		"00000000000000000018.log", "00000000000000000018.snapshot", "leader-epoch-checkpoint", "partition.metadata")
	sameFiles(t, mem, "/golden-0", kafkaClean+"/golden-0",
		"00000000000000000018.log", "00000000000000000018.index", "00000000000000000018.timeindex",
		"00000000000000000018.txnindex", "00000000000000000042.snapshot")
	want := []string{
		"00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
		"00000000000000000018.index", "00000000000000000018.log", "00000000000000000018.snapshot",
		"00000000000000000018.timeindex", "00000000000000000018.txnindex", "00000000000000000042.snapshot",
		"leader-epoch-checkpoint", "partition.metadata",
	}
	if got := fileNames(t, mem, "/golden-0"); !slices.Equal(got, want) {
		t.Errorf("files are %q, want %q", got, want)
	}
}

// A log that Kafka did not close is recovered, with and without the files that
// can be made anew, to the files that Kafka makes.
func TestRecoverKafkasLog(t *testing.T) {
	for _, bare := range []bool{false, true} {
		mem := vfs.NewMem()
		copyIn(t, mem, kafkaKilled+"/golden-0", "/golden-0")
		if bare {
			for _, name := range fileNames(t, mem, "/golden-0") {
				if !strings.HasSuffix(name, logSuffix) && name != partitionMetaFile {
					check(t, mem.Remove("/golden-0/"+name))
				}
			}
		}
		l := openTest(t, mem, "/golden-0", kafkaOptions())
		if l.LEO() != 42 || l.Recovery().Cut {
			t.Fatalf("log ends at %d: %+v", l.LEO(), l.Recovery())
		}
		if got := l.LastStableOffset(42); got != 40 {
			t.Errorf("last stable offset is %d, want 40", got)
		}
		check(t, l.Close())
		sameFiles(t, mem, "/golden-0", kafkaKilled+"/golden-0",
			"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
			"00000000000000000018.log", "leader-epoch-checkpoint", "partition.metadata")
		sameFiles(t, mem, "/golden-0", kafkaClean+"/golden-0",
			"00000000000000000018.log", "00000000000000000018.index", "00000000000000000018.timeindex",
			"00000000000000000018.txnindex", "00000000000000000042.snapshot")
	}
}

// A directory that Kafka has closed opens without a check, and goes on.
func TestOpenKafkasDirectory(t *testing.T) {
	mem := vfs.NewMem()
	copyIn(t, mem, kafkaClean, "/data")
	dir, err := OpenDir(mem, "/data", now())
	check(t, err)
	meta := dir.MetaProperties()
	if meta.ClusterID != "a2xhbW0tdGVzdC1jbHVzdA" || meta.NodeID != 1 || dir.ID().String() != directoryIDOf(t, kafkaClean) {
		t.Errorf("meta.properties read as %+v", meta)
	}
	if epoch, clean := dir.CleanShutdown(); !clean || epoch != 16 {
		t.Errorf("clean shutdown %t of broker epoch %d", clean, epoch)
	}
	cfg := storeConfig()
	cfg.LogConfig = func(string) LogConfig { return kafkaOptions().Config }
	store, err := OpenStore(context.Background(), mem, []*Dir{dir}, cfg, zerolog.Nop())
	check(t, err)
	tp := protocol.TopicPartition{Topic: "golden"}
	l, ok := store.Get(tp)
	if !ok || l.TopicID().String() != "1cVkf9RoTtO0MzKpTbvUsQ" {
		t.Fatal("the topic is not there")
	}
	if l.LogStartOffset() != 18 || l.LEO() != 42 || l.FlushedTo() != 42 || store.HighWatermark(tp) != 42 {
		t.Errorf("log from %d to %d, synced to %d, high watermark %d", l.LogStartOffset(), l.LEO(), l.FlushedTo(), store.HighWatermark(tp))
	}
	if epoch, end := l.EndOffsetFor(0); epoch != 0 || end != 42 {
		t.Errorf("epoch 0 ends at %d, %d", epoch, end)
	}
	r, err := l.AppendAsLeader(produced{value: "x", producer: &batch.Producer{ID: 1, Epoch: 4, BaseSequence: 1}, txn: true}.build(t), 1, AppendOptions{})
	if err != nil || r.FirstOffset != 42 {
		t.Errorf("append got offset %d, %v", r.FirstOffset, err)
	}
	check(t, store.Close(17, nil))
	check(t, dir.Close())
	if got := string(readFile(t, mem, "/data/.kafka_cleanshutdown")); got != `{"version":0,"brokerEpoch":17}` {
		t.Errorf("mark is %s", got)
	}
}

func directoryIDOf(t *testing.T, dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, metaPropertiesFile))
	check(t, err)
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(line, "directory.id="); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// What is read and written again is what Kafka has written.
func TestRewriteKafkasFiles(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(kafkaClean, name))
		check(t, err)
		return data
	}
	data := read("golden-0/00000000000000000018.txnindex")
	aborted, err := parseAborted(data)
	check(t, err)
	if got := appendAborted(nil, aborted); !bytes.Equal(got, data) || len(aborted) != 2 {
		t.Errorf("transaction index: %+v", aborted)
	}
	data = read("golden-0/00000000000000000042.snapshot")
	producers, err := parseSnapshot(data)
	check(t, err)
	state := newProducerState()
	for _, p := range producers {
		state.load(p)
	}
	if got := appendSnapshot(nil, state); !bytes.Equal(got, data) || len(producers) != 2 {
		t.Errorf("producer snapshot: %+v", producers)
	}
	data = read("golden-0/" + epochsFile)
	epochs, err := parseEpochs(data)
	check(t, err)
	if got := formatEpochs(epochs); !bytes.Equal(got, data) {
		t.Errorf("epochs: %q", got)
	}
	data = read("golden-0/" + partitionMetaFile)
	id, err := parsePartitionMetadata(data)
	check(t, err)
	if got := formatPartitionMetadata(id); !bytes.Equal(got, data) {
		t.Errorf("partition.metadata: %q", got)
	}
	data = read(metaPropertiesFile)
	meta, err := parseMetaProperties(data)
	check(t, err)
	at, err := time.Parse("Mon Jan 02 15:04:05 UTC 2006", strings.TrimPrefix(strings.Split(string(data), "\n")[1], "#"))
	check(t, err)
	if got := meta.format(at); !bytes.Equal(got, data) {
		t.Errorf("meta.properties: %q, want %q", got, data)
	}
	for _, name := range []string{recoveryPointFile, logStartOffsetFile, highWatermarkFile} {
		data = read(name)
		offsets, err := parseOffsetCheckpoint(data)
		check(t, err)
		got := appendOffsetCheckpoint(nil, offsets)
		if !slices.Equal(slices.Sorted(strings.Lines(string(got))), slices.Sorted(strings.Lines(string(data)))) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

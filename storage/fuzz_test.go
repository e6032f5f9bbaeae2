package storage

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// seedFiles adds Kafka's files of these names as seeds.
func seedFiles(f *testing.F, names ...string) {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(kafkaClean, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// What can be read can be written, and is read the same.
func FuzzProducerSnapshot(f *testing.F) {
	seedFiles(f, "golden-0/00000000000000000018.snapshot", "golden-0/00000000000000000042.snapshot")
	f.Add(appendSnapshot(nil, newProducerState()))
	f.Fuzz(func(t *testing.T, data []byte) {
		producers, err := parseSnapshot(data)
		if err != nil {
			return
		}
		state := newProducerState()
		for _, p := range producers {
			state.load(p)
		}
		again, err := parseSnapshot(appendSnapshot(nil, state))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range again {
			if *state.byID[p.id] != p {
				t.Fatalf("%+v was written and read as %+v", *state.byID[p.id], p)
			}
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	seedFiles(f, "golden-0/00000000000000000018.txnindex")
	f.Fuzz(func(t *testing.T, data []byte) {
		txns, err := parseAborted(data)
		if err == nil && !bytes.Equal(appendAborted(nil, txns), data) {
			t.Fatalf("%x is read as %+v", data, txns)
		}
	})
}

// An index that is believed gives positions inside the log, and a lookup finds
// what a search from the start finds.
func FuzzIndex(f *testing.F) {
	for _, name := range []string{"golden-0/00000000000000000018.index", "golden-0/00000000000000000018.timeindex"} {
		data, err := os.ReadFile(filepath.Join(kafkaClean, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, name[len(name)-9:] == "timeindex", int64(1852), int64(20))
	}
	f.Fuzz(func(t *testing.T, data []byte, time bool, logSize, key int64) {
		size := offsetEntrySize
		if time {
			size = timeEntrySize
		}
		if checkIndex(data, size, logSize) != nil {
			return
		}
		mem := vfs.NewMem()
		check(t, writeFile(mem, "/index", data))
		h, err := openShared(mem, "/index", false)
		check(t, err)
		defer h.release()
		onDisk := index{entrySize: size}
		check(t, onDisk.use(h))
		for _, c := range []column{byFirst, bySecond} {
			want, found := entry{}, false
			for at := 0; at < len(data); at += size {
				e := decodeEntry(data[at : at+size])
				if !time && (e.b < 0 || e.b >= logSize) {
					t.Fatalf("entry %+v of a log of %d bytes is believed", e, logSize)
				}
				if e.at(c) <= key {
					want, found = e, true
				}
			}
			for _, v := range []view{
				{entrySize: size, entries: len(data) / size, heap: data},
				{entrySize: size, entries: onDisk.entries, file: h},
			} {
				if got, ok, err := v.floor(c, key); err != nil || ok != found || ok && got != want {
					t.Fatalf("lookup of %d: %+v, %t, %v; want %+v, %t", key, got, ok, err, want, found)
				}
			}
		}
	})
}

func FuzzOffsetCheckpoint(f *testing.F) {
	seedFiles(f, recoveryPointFile, logStartOffsetFile, highWatermarkFile)
	f.Add([]byte("0\n1\na b 0 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		offsets, err := parseOffsetCheckpoint(data)
		if err != nil {
			return
		}
		again, err := parseOffsetCheckpoint(appendOffsetCheckpoint(nil, offsets))
		if err != nil || !maps.Equal(again, offsets) {
			t.Fatalf("%v was written and read as %v, %v", offsets, again, err)
		}
	})
}

func FuzzEpochCheckpoint(f *testing.F) {
	seedFiles(f, "golden-0/"+epochsFile)
	f.Add([]byte("0\n2\n1 0\n3 20\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseEpochs(data)
		if err != nil {
			return
		}
		again, err := parseEpochs(formatEpochs(entries))
		if err != nil || !slices.Equal(again, entries) {
			t.Fatalf("%v was written and read as %v, %v", entries, again, err)
		}
	})
}

func FuzzPartitionMetadata(f *testing.F) {
	seedFiles(f, "golden-0/"+partitionMetaFile)
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := parsePartitionMetadata(data)
		if err != nil {
			return
		}
		if again, err := parsePartitionMetadata(formatPartitionMetadata(id)); err != nil || again != id {
			t.Fatalf("%v was written and read as %v, %v", id, again, err)
		}
	})
}

func FuzzMetaProperties(f *testing.F) {
	seedFiles(f, metaPropertiesFile)
	f.Add([]byte("broker.id=3\nversion=0\n"))
	f.Add([]byte("! x\r\nnode.id : 1\nversion 1\ncluster\\u002eid = a\\\n  b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		meta, err := parseMetaProperties(data)
		if err != nil || !plainText(meta.ClusterID) {
			return
		}
		again, err := parseMetaProperties(meta.format(testNow))
		if meta.ClusterID != "" && (err != nil || again != meta) {
			t.Fatalf("%+v was written and read as %+v, %v", meta, again, err)
		}
	})
}

// plainText tells whether a value needs no escapes, as no id of a cluster does.
func plainText(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return true
}

func FuzzDirName(f *testing.F) {
	for _, name := range []string{"a-0", "a-b-12", "a-0.0123-delete", "a.b-1.x-stray", "x-0.y-delete-3", "lost+found", "-1", "a-", "remote-log-index-cache"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		tp, kind := parseDirName(name)
		if kind != dirLog {
			return
		}
		if again, kind := parseDirName(tp.String()); kind != dirLog || again != tp {
			t.Fatalf("%q is %v, whose name is that of %v", name, tp, again)
		}
		retired := retiredDirName(tp, protocol.UUID{1}, deleteDirSuffix)
		if _, kind := parseDirName(retired); kind != dirDeleted || len(retired) > maxNameLength && len(tp.Topic) < 200 {
			t.Fatalf("%q is retired as %q", name, retired)
		}
	})
}

// Whatever bytes a segment's file holds, a start makes a log of it: what is
// whole is there, the next start finds the same, and it goes on.
func FuzzSegmentRecovery(f *testing.F) {
	seedFiles(f, "golden-0/00000000000000000018.log")
	var good []byte
	for range 3 {
		b := batch.NewBuilder(batch.Options{BaseOffset: int64(len(good)), Producer: &batch.Producer{ID: 1}})
		b.Append(batch.Record{Value: []byte("x")})
		built, err := b.Build()
		if err != nil {
			f.Fatal(err)
		}
		good = append(good, built...)
	}
	f.Add(good)
	f.Add(append(slices.Clone(good), good...))
	f.Add(append(slices.Clone(good[:100]), good...))
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := vfs.NewMem()
		check(t, mem.Mkdir("/t-0"))
		check(t, writeFile(mem, firstLog, data))
		l := openTest(t, mem, "/t-0", smallOptions())
		batches, err := readAll(l, 0)
		if err != nil {
			t.Fatal(err)
		}
		size := int64(0)
		for _, b := range batches {
			size += int64(b.Size())
		}
		if size != l.Size() || !bytes.Equal(readFile(t, mem, firstLog), data[:size]) {
			t.Fatalf("%d bytes are read of %d", size, l.Size())
		}
		if _, _, err := l.OffsetForTimestamp(0); err != nil && protocol.CodeOf(err) == protocol.ErrKafkaStorageError {
			t.Fatal(err)
		}
		leo := l.LEO()
		if l = openTest(t, mem.Kill(), "/t-0", smallOptions()); l.LEO() != leo || l.Recovery().Cut {
			t.Fatalf("the next start finds an end at %d, not %d: %+v", l.LEO(), leo, l.Recovery())
		}
		if leo < math.MaxInt64-1 {
			appendTest(t, l, record(t, "x"), 1)
		}
	})
}

package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

const (
	kafkaBootstrap  = "../record/testdata/kafka/00000000000000000000-0000000000.checkpoint"
	kafkaCheckpoint = "../record/testdata/kafka/00000000000000000163-0000000001.checkpoint"
)

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t testing.TB, data []byte) (Header, []record.Record) {
	t.Helper()
	var recs []record.Record
	h, err := Decode(bytes.NewReader(data), func(rec record.Record) error {
		recs = append(recs, rec)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, recs
}

// sameTimes gives every batch of a checkpoint one time: Kafka's writer takes
// the clock for each.
func sameTimes(t *testing.T, data []byte, ms int64) []byte {
	t.Helper()
	out := bytes.Clone(data)
	for rest := out; len(rest) > 0; {
		b, next, err := batch.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint64(b[27:], uint64(ms))
		binary.BigEndian.PutUint64(b[35:], uint64(ms))
		b.SetCRC()
		rest = next
	}
	return out
}

// Kafka's checkpoints come out byte for byte when they are decoded and encoded
// again, but for the clock's times.
func TestKafkasCheckpoints(t *testing.T) {
	for _, c := range []struct {
		path    string
		epoch   protocol.ControllerEpoch
		kraft   int16
		voters  int
		records int
	}{
		{"testdata/static-0-0.checkpoint", 0, 0, 0, 6},
		{kafkaBootstrap, 0, 1, 1, 6},
		{kafkaCheckpoint, 1, 1, 1, 74},
	} {
		t.Run(c.path, func(t *testing.T) {
			data := readFile(t, c.path)
			h, recs := decode(t, data)
			voters := 0
			if h.KRaft.Voters != nil {
				voters = len(h.KRaft.Voters.Voters)
			}
			if h.KRaft.Version != c.kraft || voters != c.voters || len(recs) != c.records {
				t.Errorf("kraft.version %d, %d voters, %d records", h.KRaft.Version, voters, len(recs))
			}
			if rec, ok := recs[0].(*record.FeatureLevel); !ok || rec.Name != "metadata.version" {
				t.Errorf("the first record is %+v", recs[0])
			}
			var out bytes.Buffer
			size, err := Encode(&out, c.epoch, h, slices.Values(recs))
			if err != nil || size != int64(len(data)) {
				t.Fatalf("encoded to %d bytes, Kafka's has %d; error %v", size, len(data), err)
			}
			if want := sameTimes(t, data, h.LastTimestampMs); !bytes.Equal(out.Bytes(), want) {
				t.Errorf("encoded:\n%x, Kafka's:\n%x", out.Bytes(), want)
			}
		})
	}
}

func TestBootstrapIsWhatFormatWrites(t *testing.T) {
	fsys := vfs.NewMem()
	want := readFile(t, "testdata/static-0-0.checkpoint")
	h, _ := decode(t, want)
	if err := WriteBootstrap(fsys, "/", h.LastTimestampMs, Quorum{}, defaultFeatures); err != nil {
		t.Fatal(err)
	}
	got, err := vfs.ReadFile(fsys.Crash(nil), "/00000000000000000000-0000000000.checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 411 || !bytes.Equal(got, sameTimes(t, want, h.LastTimestampMs)) {
		t.Errorf("wrote %d bytes\n%x, Kafka\n%x", len(got), got, want)
	}
	_, recs, ok, err := ReadBootstrap(fsys, "/")
	if err != nil || !ok || len(recs) != 6 {
		t.Errorf("read %d records, ok %v, error %v", len(recs), ok, err)
	}
	if ids, err := Checkpoints(fsys, "/"); err != nil || len(ids) != 0 {
		t.Errorf("checkpoints %v, error %v: the bootstrap one is none", ids, err)
	}
	if _, _, ok, err := ReadBootstrap(vfs.NewMem(), "/"); ok || err != nil {
		t.Errorf("no checkpoint: ok %v, error %v", ok, err)
	}
}

// As the real file is made read-only, a second format must be able to replace it.
func TestBootstrapOnDisk(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := WriteBootstrap(vfs.OS(), dir, 1, Quorum{}, defaultFeatures); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir + "/00000000000000000000-0000000000.checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o400 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestManyRecordsTakeSeveralBatches(t *testing.T) {
	var recs []record.Record
	for range 2*maxBatchRecords + 5 {
		recs = append(recs, &record.NoOp{})
	}
	long := strings.Repeat("x", maxBatchBytes)
	recs = append(recs, &record.Config{Value: &long}, &record.Config{Value: &long})
	var out bytes.Buffer
	if _, err := Encode(&out, 3, Header{LastTimestampMs: 7}, slices.Values(recs)); err != nil {
		t.Fatal(err)
	}
	batches := 0
	for rest := out.Bytes(); len(rest) > 0; batches++ {
		b, next, err := batch.Next(rest)
		if err != nil || b.LeaderEpoch() != 3 || b.MaxTimestamp() != 7 {
			t.Fatalf("batch %d: epoch %d, time %d, error %v", batches, b.LeaderEpoch(), b.MaxTimestamp(), err)
		}
		rest = next
	}
	// Header, two of 10,000 records, 5 with the first long one, the second, footer.
	if batches != 6 {
		t.Errorf("%d batches, want 6", batches)
	}
	if _, again := decode(t, out.Bytes()); len(again) != len(recs) {
		t.Errorf("%d records, want %d", len(again), len(recs))
	}
}

func TestDamage(t *testing.T) {
	whole := readFile(t, kafkaBootstrap) // batches at 0, 166 and 419; 494 bytes
	frame := func(control bool, offset int64, recs ...batch.Record) []byte {
		b := batch.NewBuilder(batch.Options{BaseOffset: offset, Control: control})
		for _, r := range recs {
			b.Append(r)
		}
		out, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	flip := func(at int) []byte {
		out := bytes.Clone(whole)
		out[at] ^= 1
		return out
	}
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	leader := record.EncodeControlBatch([]record.Control{&record.LeaderChange{}}, 3, 0, 0)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "position 0: the footer is missing"},
		{"ends in a frame", whole[:170], "position 166: batch ends early"},
		{"ends in a batch", whole[:418], "position 166: batch ends early"},
		{"no footer", whole[:419], "position 419: the footer is missing"},
		{"ends in the footer", whole[:493], "position 419: batch ends early"},
		{"bit in a record", flip(300), "position 166: batch CRC does not match"},
		{"bit in the footer", flip(493), "position 419: batch CRC does not match"},
		{"length of 2 GiB", cat(whole[:166+8], []byte{0x7f, 0xff, 0xff, 0xff}, whole[166+12:]), "position 166: a batch of"},
		{"negative length", cat(whole[:8], []byte{0xff, 0xff, 0xff, 0xff}, whole[12:]), "position 0: batch length is impossible"},
		{"magic", flip(166 + 16), "position 166: batch magic is unknown"},
		{"no header", whole[166:], "position 0: a batch at offset 3, want 0"},
		{"no header, offset 0", frame(false, 0, batch.Record{Value: []byte{1, 20, 0, 0}}), "position 0: the header is missing"},
		{"a gap", cat(whole[:166], whole[419:]), "position 166: a batch at offset 9, want 3"},
		{"behind the footer", cat(whole, whole), "position 494: a batch behind the footer"},
		{"unknown record", cat(whole[:166], frame(false, 3, batch.Record{Value: []byte{1, 99, 0}})), "position 166: offset 3: metadata record: record id 99 (version 0) is unknown"},
		{"unknown control record", cat(whole[:166], frame(true, 3, batch.Record{Key: []byte{0, 0, 0, 9}})), "position 166: offset 3: control record: type 9"},
		{"leader change", cat(whole[:166], leader), "position 166: LeaderChange where none is expected"},
		{"second header", cat(whole[:166], record.EncodeControlBatch([]record.Control{&record.SnapshotHeader{}}, 3, 0, 0)), "position 166: SnapshotHeader where none is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(bytes.NewReader(c.data), func(record.Record) error { return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadNamesTheFile(t *testing.T) {
	fsys := vfs.NewMem()
	id := ID{Offset: 12, Epoch: 3}
	write(t, fsys, "/"+id.FileName(), readFile(t, kafkaCheckpoint)[:1000])
	_, err := Read(fsys, "/", id, func(record.Record) error { return nil })
	want := "checkpoint /00000000000000000012-0000000003.checkpoint: position 166: batch ends early"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	stop := errors.New("stop")
	write(t, fsys, "/"+id.FileName(), readFile(t, kafkaCheckpoint))
	if _, err := Read(fsys, "/", id, func(record.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v, want the callback's", err)
	}
}

func TestFileNames(t *testing.T) {
	for _, id := range []ID{{}, {1, 2}, {math.MaxInt64, math.MaxInt32}} {
		if got, ok := ParseFileName(id.FileName()); !ok || got != id {
			t.Errorf("%s is read as %v, %v", id.FileName(), got, ok)
		}
	}
	for _, name := range []string{
		"", "0-0.checkpoint", "00000000000000000001.log", "00000000000000000001-0000000001.checkpoint.part",
		"99999999999999999999-0000000001.checkpoint", "00000000000000000001-9999999999.checkpoint",
		"00000000000000000001-0000000001.checkpoint.deleted",
	} {
		if id, ok := ParseFileName(name); ok {
			t.Errorf("%q is read as %v", name, id)
		}
	}
}

// Whatever the bytes are: no panic, and what is read is written so that it
// reads the same. Most damage ends at a CRC; with the CRCs put right it gets
// to the records.
func FuzzDecode(f *testing.F) {
	f.Add(readFile(f, "testdata/static-0-0.checkpoint"))
	f.Add(readFile(f, kafkaBootstrap))
	f.Add(readFile(f, kafkaBootstrap)[:419])
	f.Add(readFile(f, kafkaCheckpoint))
	f.Fuzz(func(t *testing.T, data []byte) {
		decodeAny(t, data)
		mended := bytes.Clone(data)
		for rest := mended; len(rest) > 0; {
			b, next, err := batch.Next(rest)
			if err != nil {
				break
			}
			b.SetCRC()
			rest = next
		}
		decodeAny(t, mended)
	})
}

func decodeAny(t *testing.T, data []byte) {
	var recs []record.Record
	h, err := Decode(bytes.NewReader(data), func(rec record.Record) error {
		recs = append(recs, rec)
		return nil
	})
	if err != nil {
		return
	}
	var out bytes.Buffer
	if _, err := Encode(&out, 0, h, slices.Values(recs)); err != nil {
		t.Fatal(err)
	}
	if _, again := decode(t, out.Bytes()); len(again) != len(recs) {
		t.Errorf("%d records were read, then %d", len(recs), len(again))
	}
}

// defaultFeatures are the records that Kafka 4.4's format tool writes.
var defaultFeatures = []record.Record{
	&record.FeatureLevel{Name: "metadata.version", Level: 33},
	&record.FeatureLevel{Name: "eligible.leader.replicas.version", Level: 1},
	&record.FeatureLevel{Name: "group.version", Level: 1},
	&record.FeatureLevel{Name: "share.version", Level: 2},
	&record.FeatureLevel{Name: "streams.version", Level: 1},
	&record.FeatureLevel{Name: "transaction.version", Level: 2},
}

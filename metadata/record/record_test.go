package record

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

type golden struct {
	name    string
	id      int16 // negative: a control record's type
	version int16
	fields  []byte
	json    string
}

// goldens are what Kafka's own classes wrote of every record in every version.
func goldens(t testing.TB) []golden {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		id, err1 := strconv.ParseInt(f[0], 10, 16)
		version, err2 := strconv.ParseInt(f[1], 10, 16)
		fields, err3 := hex.DecodeString(f[4])
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("golden line %q", line)
		}
		all = append(all, golden{f[2] + "/" + f[1] + "/" + f[3], int16(id), int16(version), fields, f[5]})
	}
	return all
}

func (g golden) frame() []byte {
	return append([]byte{frameVersion, byte(g.id), byte(g.version)}, g.fields...)
}

func TestGoldenRecords(t *testing.T) {
	seen := map[int16]int16{}
	for _, g := range goldens(t) {
		if g.id < 0 {
			continue
		}
		seen[g.id] = g.version
		t.Run(g.name, func(t *testing.T) {
			rec, err := ReadFrame(g.frame())
			if err != nil {
				t.Fatal(err)
			}
			if got := appendVersion(nil, rec, g.version); !bytes.Equal(got, g.frame()) {
				t.Errorf("written again:\n%x, Kafka wrote\n%x", got, g.frame())
			}
			want := `{"type":"` + Name(rec) + `","version":` + strconv.Itoa(int(g.version)) + `,"data":` + g.json + `}`
			if got := string(AppendJSON(nil, rec, g.version)); got != want {
				t.Errorf("JSON:\n%s, Kafka prints\n%s", got, want)
			}
			if len(g.fields) == 0 {
				return
			}
			if _, err := ReadFrame(g.frame()[:len(g.frame())-1]); err == nil {
				t.Error("a frame that ends early was read")
			}
		})
	}
	for id, k := range kinds {
		if seen[id] != k.last {
			t.Errorf("%s: golden bytes up to version %d, known up to %d", k.name, seen[id], k.last)
		}
		for level := feature.Oldest; level <= feature.Latest; level++ {
			if rec := k.make(); rec.ID() != id || rec.version(level) > k.last {
				t.Errorf("%s has id %d and writes version %d", k.name, rec.ID(), rec.version(level))
			}
		}
	}
}

func TestGoldenControls(t *testing.T) {
	for _, g := range goldens(t) {
		if g.id >= 0 || g.name == "LeaderChangeMessage/1/full" || g.name == "LeaderChangeMessage/1/default" {
			continue // version 1 is nowhere written
		}
		t.Run(g.name, func(t *testing.T) {
			c, err := ReadControl([]byte{0, 0, 0, byte(-g.id)}, g.fields)
			if err != nil {
				t.Fatal(err)
			}
			_, got := AppendControl(nil, nil, c)
			if !bytes.Equal(got, g.fields) {
				t.Errorf("written again:\n%x, Kafka wrote\n%x", got, g.fields)
			}
			if got := string(AppendControlJSON(nil, c)); got != g.json {
				t.Errorf("JSON:\n%s, Kafka prints\n%s", got, g.json)
			}
		})
	}
}

// realFiles are of one small cluster of Apache Kafka 4.4.0.
var realFiles = []string{
	"00000000000000000000.log",
	"00000000000000000000-0000000000.checkpoint",
	"00000000000000000163-0000000001.checkpoint",
}

// What Kafka wrote must come out byte for byte when it is read and written
// again, whole batches included.
func TestRealFiles(t *testing.T) {
	for _, name := range realFiles {
		t.Run(name, func(t *testing.T) {
			rest, err := os.ReadFile("testdata/kafka/" + name)
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for len(rest) > 0 {
				var b batch.Batch
				b, rest, err = batch.Next(rest)
				if err != nil {
					t.Fatal(err)
				}
				again := encodeAgain(t, b)
				if !bytes.Equal(again, b) {
					t.Errorf("batch at offset %d written again:\n%x, Kafka wrote\n%x", b.BaseOffset(), again, []byte(b))
				}
				count++
			}
			if count < 3 {
				t.Errorf("%d batches only", count)
			}
		})
	}
}

func encodeAgain(t *testing.T, b batch.Batch) batch.Batch {
	var recs []Record
	var controls []Control
	err := Each(b, func(e Entry) error {
		if e.Offset != b.BaseOffset()+int64(len(recs)+len(controls)) || e.TimestampMs != b.BaseTimestamp() {
			t.Errorf("record at offset %d, time %d in batch %d, %d", e.Offset, e.TimestampMs, b.BaseOffset(), b.BaseTimestamp())
		}
		if e.Control != nil {
			controls = append(controls, e.Control)
		} else {
			recs = append(recs, e.Record)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	epoch := protocol.ControllerEpoch(b.LeaderEpoch())
	if b.IsControl() {
		return EncodeControlBatch(controls, b.BaseOffset(), epoch, b.BaseTimestamp())
	}
	return EncodeBatch(recs, feature.Latest, b.BaseOffset(), epoch, b.BaseTimestamp())
}

func TestVersionRule(t *testing.T) {
	dirs := []protocol.UUID{{15: 9}}
	levels := []feature.Level{7, 8, 16, 17, 22, 23, 29, 30, 33}
	for _, c := range []struct {
		rec  Record
		want []int16 // at levels
	}{
		{&RegisterBroker{}, []int16{1, 2, 2, 3, 3, 3, 3, 4, 4}},
		{&Partition{}, []int16{0, 0, 0, 1, 1, 2, 2, 2, 2}},
		{NewPartitionChange(protocol.UUID{}, 0), []int16{0, 0, 0, 1, 1, 2, 2, 2, 2}},
		{&BrokerRegistrationChange{Fenced: -1}, []int16{0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{&BrokerRegistrationChange{InControlledShutdown: 1}, []int16{1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{&BrokerRegistrationChange{LogDirs: dirs}, []int16{0, 0, 0, 2, 2, 2, 2, 2, 2}},
		{&BrokerRegistrationChange{CordonedLogDirs: []protocol.UUID{}}, []int16{0, 0, 0, 0, 0, 0, 0, 3, 3}},
		{&BrokerRegistrationChange{Fenced: 1, LogDirs: dirs, CordonedLogDirs: dirs}, []int16{0, 0, 0, 2, 2, 2, 2, 3, 3}},
		{&FeatureLevel{}, []int16{0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		for i, level := range levels {
			if got := c.rec.version(level); got != c.want[i] {
				t.Errorf("%s %+v is written in version %d at %s, want %d", Name(c.rec), c.rec, got, level, c.want[i])
			}
		}
	}
}

// What a level cannot say is gone for the writer too.
func TestFit(t *testing.T) {
	dir := []protocol.UUID{{15: 200}}
	full := &Partition{Directories: dir, ELR: []protocol.NodeID{1}, Replicas: []protocol.NodeID{1}, ISR: []protocol.NodeID{}, RemovingReplicas: []protocol.NodeID{}, AddingReplicas: []protocol.NodeID{}}
	for _, c := range []struct {
		level     feature.Level
		dirs, elr int
	}{{16, 0, 0}, {17, 1, 0}, {22, 1, 0}, {23, 1, 1}, {33, 1, 1}} {
		if fit := Fit(full, c.level).(*Partition); len(fit.Directories) != c.dirs || len(fit.ELR) != c.elr || len(fit.Replicas) != 1 {
			t.Errorf("at %s: %+v", c.level, fit)
		}
	}
	if Fit(full, 33) != Record(full) {
		t.Error("a record that fits was copied")
	}
}

// A nil list is null or unchanged, an empty one is empty: both survive.
func TestNilAndEmptyLists(t *testing.T) {
	topic := protocol.UUID{15: 7}
	unchanged := NewPartitionChange(topic, 3)
	emptied := NewPartitionChange(topic, 3)
	emptied.ISR = []protocol.NodeID{}
	emptied.Leader = protocol.NoNode
	emptied.ELR = []protocol.NodeID{1, 2}
	emptied.RemovingReplicas = []protocol.NodeID{}
	emptied.AddingReplicas = []protocol.NodeID{}
	for _, rec := range []*PartitionChange{unchanged, emptied} {
		again, err := ReadFrame(AppendFrame(nil, rec, feature.Latest))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, Record(rec)) {
			t.Errorf("read %+v, wrote %+v", again, rec)
		}
	}
}

// A tag that this version does not know is skipped, as KIP-482 promises it may be.
func TestUnknownTagIsSkipped(t *testing.T) {
	frame := AppendFrame(nil, &BeginTransaction{}, feature.Latest)
	frame = append(frame[:len(frame)-1], 2, 0, 3, 3, 'o', 'k', 9, 2, 0xff, 0xff)
	rec, err := ReadFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	if name := rec.(*BeginTransaction).Name; name == nil || *name != "ok" {
		t.Errorf("name is %v", name)
	}
}

// A cause is one more tagged field, behind Kafka's, and nothing of it is seen in
// what Kafka's tools print.
func TestCause(t *testing.T) {
	for id, k := range kinds {
		bare := AppendFrame(nil, k.make(), feature.Latest)
		rec := k.make()
		SetCause(rec, "broker 3: lag")
		frame := AppendFrame(nil, rec, feature.Latest)
		if CauseOf(rec) == "" {
			if !bytes.Equal(frame, bare) {
				t.Errorf("record id %d has no cause and is written otherwise", id)
			}
			continue
		}
		want := append(bytes.Clone(bare[:len(bare)-1]), 1, 0x90, 0x4e, 14, 14)
		if want = append(want, "broker 3: lag"...); !bytes.Equal(frame, want) {
			t.Errorf("record id %d: % x, want % x", id, frame, want)
		}
		again, err := ReadFrame(frame)
		if err != nil || CauseOf(again) != "broker 3: lag" {
			t.Errorf("record id %d: read %q, error %v", id, CauseOf(again), err)
		}
		version := Version(rec, feature.Latest)
		if got, want := AppendJSON(nil, rec, version), AppendJSON(nil, k.make(), version); !bytes.Equal(got, want) {
			t.Errorf("record id %d prints as %s, without a cause as %s", id, got, want)
		}
	}
}

func TestBadFrames(t *testing.T) {
	for _, c := range []struct{ name, frame, want string }{
		{"empty", "", "metadata record: byte 0: the frame version is no unsigned varint of 31 bits"},
		{"frame version", "000c00", "frame version 0 is unknown"},
		{"unused id", "010600", "record id 6 (version 0) is unknown"},
		{"large id", "0180800400", "record id 65536 (version 0) is unknown"},
		{"version", "010005", "version 5 of record id 0 (REGISTER_BROKER_RECORD) is unknown, at most 4 is known"},
		{"left over", "01140000ff", "NO_OP_RECORD version 0: byte 4: 1 bytes are left over"},
		{"ends early", "01020005616263", "TOPIC_RECORD version 0: byte 4: name claims 4 elements, 3 bytes are left"},
		{"null name", "010200000000", "TOPIC_RECORD version 0: byte 4: name is null"},
		{"claimed length", "010200ffffffff07", "name claims 2147483646 elements, 0 bytes are left"},
		{"varint of six bytes", "010200ffffffffff01", "name is no unsigned varint of 31 bits"},
		{"claimed array", "010e00ffffff7f", "entity claims 268435454 elements, 0 bytes are left"},
		{"tag is too long", "01170001000500", "tagged field 0 takes 5 bytes, 1 are left"},
		{"tag is not read whole", "0117000100030261ff", "1 bytes are left of tagged field 0"},
		{"tag reads past its end", "01170001000203616263", "name claims 2 elements, 1 bytes are left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame, err := hex.DecodeString(c.frame)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := ReadFrame(frame)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("read %v, error %v, want %q", rec, err, c.want)
			}
		})
	}
}

func TestBadControls(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, value []byte
		want       string
	}{
		{"no key", nil, nil, "the key has 0 bytes, not 4"},
		{"key version", []byte{0, 1, 0, 2}, nil, "key version 1 is unknown"},
		{"transaction marker", []byte{0, 0, 0, 1}, nil, "type 1 is none of a metadata log"},
		{"version", []byte{0, 0, 0, 4}, []byte{0, 2, 0}, "version 2 of SnapshotFooter is unknown"},
		{"ends early", []byte{0, 0, 0, 5}, []byte{0, 0, 0}, "KRaftVersion: byte 2: kRaftVersion takes 2 bytes, 1 are left"},
		{"left over", []byte{0, 0, 0, 4}, []byte{0, 0, 0, 0}, "SnapshotFooter: byte 3: 1 bytes are left over"},
	} {
		if _, err := ReadControl(c.key, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestDoubles(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.0", 1024: "1024.0", 12.5: "12.5", 1e7: "1.0E7", 12345678.5: "1.23456785E7", 0.0001: "1.0E-4", -3: "-3.0",
	} {
		if got := string(appendDouble(nil, v)); got != want {
			t.Errorf("%v is printed as %s, by Java as %s", v, got, want)
		}
	}
}

package inspect

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// TestShow runs testdata/show.txt over files that Apache Kafka wrote.
func TestShow(t *testing.T) {
	load := func(file, moment string) (*metadata.Image, error) {
		var at At
		if moment != "" {
			var err error
			if at, err = ParseAt(moment); err != nil {
				return nil, err
			}
		}
		return Load(filepath.Join(kafkaDir, file), at)
	}
	datadriven.RunTest(t, "testdata/show.txt", func(t *testing.T, d *datadriven.TestData) string {
		arg := func(name string) (value string) {
			if d.HasArg(name) {
				d.ScanArgs(t, name, &value)
			}
			return value
		}
		var out strings.Builder
		var err error
		switch d.Cmd {
		case "show":
			var img *metadata.Image
			if img, err = load(arg("file"), arg("at")); err == nil {
				err = Show(&out, img, arg("path"), Options{JSON: d.HasArg("json")})
			}
		case "diff":
			var from, to *metadata.Image
			if from, err = load("", arg("from")); err == nil {
				if to, err = load("", arg("to")); err == nil {
					err = ShowDiff(&out, from, to)
				}
			}
		}
		if err != nil {
			return err.Error() + "\n"
		}
		return out.String()
	})
}

func mustLoad(t *testing.T, path string, at At) *metadata.Image {
	t.Helper()
	img, err := Load(path, at)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func offset(n int64) At { return At{Offset: &n} }

// copyOf copies a directory of Kafka's without some files.
func copyOf(t *testing.T, without string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range kafkaFiles {
		data, err := os.ReadFile(filepath.Join(kafkaDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == without {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The image from a checkpoint is that from the log (invariant 8).
func TestCheckpointAndLogAgree(t *testing.T) {
	fromLog := copyOf(t, "00000000000000000163-0000000001.checkpoint")
	checkpoint := mustLoad(t, filepath.Join(kafkaDir, "00000000000000000163-0000000001.checkpoint"), At{})
	replayed := mustLoad(t, fromLog, offset(162))
	// Kafka writes a broker's features in the order of a hash table.
	if diff := Diff(checkpoint, replayed); len(diff) > 0 || checkpoint.Offset() != replayed.Offset() || checkpoint.TimestampMs() != replayed.TimestampMs() {
		t.Errorf("the checkpoint has offset %d, the log has %d; they differ in %+v", checkpoint.Offset(), replayed.Offset(), diff)
	}
	if a, b := mustLoad(t, kafkaDir, At{}), mustLoad(t, fromLog, At{}); len(Diff(a, b)) > 0 || a.Offset() != b.Offset() {
		t.Errorf("with the checkpoint the end is %d, without %d", a.Offset(), b.Offset())
	}
}

// A node that writes, or was killed while it did, leaves a batch that is not
// whole at the end; anywhere else that is an error.
func TestTornTail(t *testing.T) {
	dir := copyOf(t, "")
	path := filepath.Join(dir, "00000000000000000000.log")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := mustLoad(t, dir, At{}).Offset()
	for _, cut := range []int{1, 20, 70} {
		if err := os.WriteFile(path, data[:len(data)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mustLoad(t, dir, At{}).Offset(); got >= whole || got < 162 {
			t.Errorf("without the last %d bytes the state is of offset %d, with them %d", cut, got, whole)
		}
	}
	next := filepath.Join(dir, "00000000000000009999.log")
	if err := os.WriteFile(next, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, At{}); err == nil {
		t.Error("a segment that is not whole is followed by another, and nobody minds")
	}
}

// written is a directory with segments of records, a batch each.
func written(t *testing.T, segments map[string][]record.Record) string {
	t.Helper()
	dir := t.TempDir()
	for name, records := range segments {
		var data []byte
		base := baseOf(name)
		for i, r := range records {
			data = append(data, record.EncodeBatch([]record.Record{r}, feature.Latest, base+int64(i), 3, 1000*(base+int64(i)))...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func topic(name string, id byte) *record.Topic {
	return &record.Topic{Name: name, TopicID: protocol.UUID{id}}
}

// What is in a transaction counts from its end on, and not at all if aborted.
func TestLoadTransactions(t *testing.T) {
	dir := written(t, map[string][]record.Record{
		"00000000000000000000.log": {
			topic("a", 1), &record.BeginTransaction{}, topic("b", 2), &record.EndTransaction{},
			&record.BeginTransaction{}, topic("c", 3), &record.AbortTransaction{}, topic("d", 4),
		},
		"00000000000000000008.log": {&record.BeginTransaction{}, topic("e", 5)},
	})
	for at, want := range map[int64]string{0: "a", 1: "a", 2: "a", 3: "a b", 5: "a b", 6: "a b", 7: "a b d", 9: "a b d"} {
		img := mustLoad(t, dir, offset(at))
		var names []string
		for topic := range img.Topics() {
			names = append(names, topic.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("at offset %d: topics %s, want %s", at, got, want)
		}
	}
}

func TestMissingRecords(t *testing.T) {
	dir := written(t, map[string][]record.Record{"00000000000000000005.log": {topic("a", 1)}})
	if _, err := Load(dir, At{}); err == nil || !strings.Contains(err.Error(), "the records from 0 on are missing") {
		t.Errorf("a log without its beginning: %v", err)
	}
	if _, err := Load(kafkaDir, offset(1<<40)); err != nil {
		t.Errorf("an offset that is not there yet: %v", err)
	}
}

// Nobody sees keys and salts in a state.
func TestSecretsAreNotShown(t *testing.T) {
	dir := written(t, map[string][]record.Record{"00000000000000000000.log": {&record.UserScramCredential{
		Name: "alice/x", Mechanism: 1, Salt: []byte("salt"), StoredKey: []byte("stored"), ServerKey: []byte("server"), Iterations: 4096,
	}}})
	var out strings.Builder
	if err := Show(&out, mustLoad(t, dir, At{}), "scram", Options{}); err != nil {
		t.Fatal(err)
	}
	if want := "SCRAM-SHA-256\n  alice%2Fx\n    iterations: 4096\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// FuzzLoad gives a segment's bytes: whatever they are, there is a state or an
// error, and every state can be shown.
func FuzzLoad(f *testing.F) {
	for _, name := range kafkaFiles {
		data, err := os.ReadFile(filepath.Join(kafkaDir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 20000)])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Checksums would let nothing through.
		for rest := data; len(rest) > batch.HeaderSize; {
			b, next, err := batch.Next(rest)
			if err != nil {
				break
			}
			b.SetCRC()
			rest = next
		}
		path := filepath.Join(t.TempDir(), "00000000000000000000.log")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		img, err := Load(path, At{})
		for _, kind := range []string{"topic", "partition", "broker", "config", "acl", "user"} {
			name := map[string]string{"partition": "orders/0", "broker": "1", "config": "topics/orders"}[kind]
			o, parsed := ParseObject(kind, cmp.Or(name, "orders"))
			if parsed != nil {
				t.Fatal(parsed)
			}
			h, failed := LoadHistory(path, At{}, o)
			if (failed == nil) != (err == nil) {
				t.Fatalf("the state: %v, the history of %s: %v", err, o, failed)
			}
			if failed == nil {
				failed = ShowHistory(io.Discard, h, o, Options{JSON: true})
			}
			if failed == nil && kind == "partition" {
				_ = Explain(io.Discard, path, At{}, o) // there may be none
			}
		}
		if err != nil {
			return
		}
		for _, opts := range []Options{{}, {JSON: true}} {
			if err := Show(&strings.Builder{}, img, "", opts); err != nil {
				t.Errorf("a state that cannot be shown: %v", err)
			}
		}
	})
}

// A file that a running node removes while it is read is not the end of it.
func TestReadAgain(t *testing.T) {
	for _, test := range []struct {
		errs  []error
		calls int
	}{
		{[]error{nil}, 1},
		{[]error{fs.ErrNotExist, fs.ErrNotExist, nil}, 3},
		{[]error{fs.ErrPermission, nil}, 1},
		{slices.Repeat([]error{fs.ErrNotExist}, 9), 5},
	} {
		calls := 0
		_, err := again(func() (int, error) {
			calls++
			return 0, test.errs[calls-1]
		})
		if calls != test.calls || err != test.errs[calls-1] {
			t.Errorf("%v: %d calls, %v", test.errs, calls, err)
		}
	}
}

package inspect

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol/batch"
)

const kafkaDir = "../record/testdata/kafka"

var kafkaFiles = []string{
	"00000000000000000000-0000000000.checkpoint",
	"00000000000000000163-0000000001.checkpoint",
	"00000000000000000000.log",
}

// A dump of Kafka's files is what Kafka's tool prints of them, to the byte.
func TestTextIsKafkas(t *testing.T) {
	for _, name := range kafkaFiles {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(kafkaDir, name)
			want, err := os.ReadFile(path + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := Dump(&out, path, Options{}); err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimPrefix(out.String(), "Dumping "+path+"\n"), "\n")
			lines := strings.Split(string(want), "\n")
			for i := range max(len(got), len(lines)) {
				if i >= len(got) || i >= len(lines) || got[i] != lines[i] {
					t.Fatalf("line %d of %d: %q, Kafka prints %d lines, here %q",
						i, len(got), at(got, i), len(lines), at(lines, i))
				}
			}
		})
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

func TestDirectory(t *testing.T) {
	logDir := t.TempDir()
	if err := os.Symlink(absolute(t, kafkaDir), filepath.Join(logDir, "__cluster_metadata-0")); err != nil {
		t.Fatal(err)
	}
	var whole, inner strings.Builder
	if err := Dump(&whole, logDir, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Dump(&inner, kafkaDir, Options{}); err != nil {
		t.Fatal(err)
	}
	var order []string
	for line := range strings.Lines(whole.String()) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "Dumping "); ok {
			order = append(order, filepath.Base(path))
		}
	}
	if strings.Join(order, " ") != strings.Join(kafkaFiles, " ") {
		t.Errorf("dumped %v, want %v", order, kafkaFiles)
	}
	if strings.Count(whole.String(), "\n") != strings.Count(inner.String(), "\n") {
		t.Error("a log directory is dumped otherwise than the metadata directory in it")
	}
	if err := Dump(&inner, t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "holds no segment and no checkpoint") {
		t.Errorf("empty directory: error %v", err)
	}
	if err := Dump(&inner, "/does/not/exist", Options{}); err == nil {
		t.Error("no directory: no error")
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestJSONLines(t *testing.T) {
	var out bytes.Buffer
	if err := Dump(&out, kafkaDir, Options{JSON: true}); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range bytes.Lines(out.Bytes()) {
		var entry struct {
			File      string
			Offset    *int64
			Epoch     *int32
			Timestamp int64
			Type      string
			Control   string
			Version   *int16
			Data      map[string]any
		}
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&entry); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if entry.File == "" || entry.Offset == nil || entry.Epoch == nil || entry.Timestamp < 1e12 || entry.Data == nil {
			t.Fatalf("incomplete: %s", line)
		}
		if (entry.Type == "") == (entry.Control == "") || (entry.Type == "") != (entry.Version == nil) {
			t.Fatalf("neither or both: %s", line)
		}
		counts[entry.Type+entry.Control]++
	}
	for name, want := range map[string]int{
		"LeaderChange": 1, "SnapshotHeader": 2, "KRaftVoters": 3, "FEATURE_LEVEL_RECORD": 18,
		"USER_SCRAM_CREDENTIAL_RECORD": 3, "REMOVE_TOPIC_RECORD": 1,
	} {
		if counts[name] != want {
			t.Errorf("%d × %s, want %d", counts[name], name, want)
		}
	}
}

func TestDamage(t *testing.T) {
	segment, err := os.ReadFile(filepath.Join(kafkaDir, "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	b := batch.NewBuilder(batch.Options{BaseOffset: 164})
	b.Append(batch.Record{Value: []byte{1, 99, 0}})
	unknown, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	after := record.EncodeBatch([]record.Record{&record.NoOp{}}, feature.Latest, 165, 1, 1)
	flipped := bytes.Clone(segment)
	flipped[300] ^= 1
	for _, c := range []struct {
		name, file string
		data       []byte
		shown      string // in text and JSON
		err        string // "" = none
		records    int
	}{
		{
			"a batch that is being written", "00000000000000000000.log", segment[:len(segment)-3],
			"position 11321: batch ends early", "", 163,
		},
		{
			"a damaged batch", "00000000000000000000.log", flipped,
			"position 174: batch CRC does not match", "00000000000000000000.log: position 174: batch CRC does not match", 3,
		},
		{
			"an unknown record", "00000000000000000000.log", bytes.Join([][]byte{segment, unknown, after}, nil),
			"position 11408: offset 164: metadata record: record id 99", "position 11408: offset 164: metadata record: record id 99", 165,
		},
		{
			"half a checkpoint", "00000000000000000164-0000000001.checkpoint", segment[:200],
			"position 174: batch ends early", "position 174: batch ends early", 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, opts := range []Options{{}, {JSON: true}} {
				var out strings.Builder
				err := Dump(&out, path, opts)
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				if !strings.Contains(out.String(), c.shown) {
					t.Errorf("%q is not shown", c.shown)
				}
				records := strings.Count(out.String(), "| offset: ")
				if opts.JSON {
					records = strings.Count(out.String(), `"epoch":`)
				}
				if records != c.records {
					t.Errorf("%d records, want %d", records, c.records)
				}
			}
		})
	}
}

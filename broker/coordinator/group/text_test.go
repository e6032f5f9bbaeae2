package group

import (
	"bytes"
	"os"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// The records of a group on Kafka 4.4, from its first member to its deletion,
// are printed as Kafka's dump tool prints them (--offsets-decoder).
func TestRecordTextIsKafkas(t *testing.T) {
	want, err := os.ReadFile("testdata/kafka/decoded.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	options := storage.DumpOptions{Records: true, Texts: map[string]func(key, value []byte) (string, string, bool){protocol.OffsetsTopic: RecordText}}
	if err := storage.Dump(&got, "testdata/kafka/__consumer_offsets-3/00000000000000000000.log", options); err != nil {
		t.Fatal(err)
	}
	_, lines, _ := bytes.Cut(got.Bytes(), []byte("\n")) // the file's name
	if !bytes.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", lines, want)
	}
}

func FuzzRecordText(f *testing.F) {
	f.Add(groupRecordKey("g"), foundedRecord(&group{name: "g"}).Value)
	f.Add(offsetRecordKey("g", "t", 1), offsetRecord("g", "t", 1, offset{offset: 5, expireMs: 7}).Value)
	f.Add([]byte{0, 3}, []byte{0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if k, v, ok := RecordText(key, value); ok && (k == "" || v == "") {
			t.Errorf("%q %q", k, v)
		}
	})
}

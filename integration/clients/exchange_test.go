//go:build integration

package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// TestEachReadsWhatAllWrote: what each client writes, with each codec, each
// client reads: key, value, header, null and what is too large for one block of
// a codec's frame included.
func TestEachReadsWhatAllWrote(t *testing.T) {
	n := harness.Start(t)
	written := make(map[string]record) // by key
	var topics []string
	t.Run("write", func(t *testing.T) {
		for _, writer := range clients {
			byCodec := make(map[string][]record)
			for _, codec := range codecs {
				topic := fmt.Sprintf("by.%s.%s", writer.name, codec)
				franz{}.create(t, n.Address, topic, 1)
				topics = append(topics, topic)
				byCodec[topic] = assorted(writer.name, codec)
				for _, r := range byCodec[topic] {
					written[r.Key] = r
				}
			}
			t.Run(writer.name, func(t *testing.T) {
				t.Parallel()
				for topic, records := range byCodec {
					writer.client.produce(t, n.Address, topic, records[0].Header, records)
				}
			})
		}
	})
	for _, reader := range clients {
		t.Run("read/"+reader.name, func(t *testing.T) {
			t.Parallel()
			seen := make(map[string]bool)
			for _, r := range reader.client.read(t, n.Address, topics, len(written)) {
				want, ok := written[r.Key]
				switch {
				case !ok:
					t.Errorf("%q came, which nobody wrote", r.Key)
				case seen[r.Key]:
					t.Errorf("%q came twice", r.Key)
				case show(r.Value) != show(want.Value) || r.Header != want.Header:
					t.Errorf("%q has the value %s and the header %q, want %s and %q", r.Key, clip(show(r.Value)), r.Header, clip(show(want.Value)), want.Header)
				}
				seen[r.Key] = true
			}
			if len(seen) != len(written) {
				t.Errorf("%d of %d records came", len(seen), len(written))
			}
		})
	}
}

// assorted are records of one writer, small and large, some without a value.
func assorted(writer, codec string) []record {
	var records []record
	for i := range 40 {
		value := fmt.Sprintf("%s writes %d with %s", writer, i, codec)
		switch i % 20 {
		case 7:
			value = strings.Repeat(value+" ", 4000) // above 64 KiB, a block of LZ4, and 32 KiB, one of Snappy
		case 9:
			value = "ünïcödé 日本"
		}
		r := record{Key: fmt.Sprintf("%s/%s/%d", writer, codec, i), Value: &value, Header: codec}
		if i%20 == 13 {
			r.Value = nil
		}
		records = append(records, r)
	}
	return records
}

func show(value *string) string {
	if value == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *value)
}

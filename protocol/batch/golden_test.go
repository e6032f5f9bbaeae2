package batch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The files of testdata/kafka-4.4 hold one batch each, as a broker of Apache
// Kafka 4.4.0 wrote it to a topic of that compression.type: its own encoders,
// snappy in snappy-java's framing. 1000 records, two blocks of snappy.
func TestKafkasBatches(t *testing.T) {
	for _, codec := range codecs[1:] {
		t.Run(codec.String(), func(t *testing.T) {
			p, err := os.ReadFile(filepath.Join("testdata", "kafka-4.4", codec.String()+".batch"))
			if err != nil {
				t.Fatal(err)
			}
			b, err := Single(p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Validate(b, options()); err != nil {
				t.Fatal(err)
			}
			if b.Codec() != codec || b.RecordCount() != 1000 {
				t.Fatalf("codec %s, %d records", b.Codec(), b.RecordCount())
			}
			n := 0
			err = b.Each(func(r Record) error {
				if string(r.Key) != fmt.Sprintf("key-%d", n%7) || string(r.Value) != fmt.Sprintf("value of a record like any other, namely %d", n%5) ||
					r.Timestamp != now+int64(n) || int(r.OffsetDelta) != n || r.Headers.Len() != 1 {
					return fmt.Errorf("record %d: %+v", n, r)
				}
				for h := range r.Headers.All() {
					if h.Key != "n" || h.Value != nil {
						return fmt.Errorf("record %d: header %+v", n, h)
					}
				}
				n++
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

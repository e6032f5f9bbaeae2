package replay

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// A snapshot that does not read back as the state it is of is none.
func TestSnapshotReadsBack(t *testing.T) {
	image := func(level feature.Level) *metadata.Image {
		delta := metadata.NewDelta(metadata.Empty())
		for _, rec := range []record.Record{
			&record.FeatureLevel{Name: feature.MetadataVersion, Level: int16(level)},
			&record.Topic{Name: "a", TopicID: protocol.UUID{15: 1}},
			&record.Partition{
				TopicID: protocol.UUID{15: 1}, Replicas: []protocol.NodeID{1}, Directories: []protocol.UUID{{15: 200}},
				ISR: []protocol.NodeID{}, ELR: []protocol.NodeID{1}, Leader: protocol.NoNode,
			},
		} {
			if err := delta.Replay(rec); err != nil {
				t.Fatal(err)
			}
		}
		return delta.Apply(2, 1, 1000)
	}
	var out bytes.Buffer
	r := &Replayer{}
	if _, ok := r.Digest(); ok {
		t.Error("a digest without a snapshot")
	}
	good := image(feature.Latest)
	if size, err := (&capture{r: r, img: good}).encode(&out); err != nil || size != int64(out.Len()) {
		t.Fatalf("%d of %d bytes, %v", size, out.Len(), err)
	}
	want := Digest{Offset: 2, Sum: good.Digest()}
	if d, ok := r.Digest(); !ok || d != want {
		t.Errorf("digest %v, want %v", d, want)
	}
	// That level has no eligible replicas: they would be lost.
	if _, err := (&capture{r: r, img: image(22)}).encode(io.Discard); err == nil || !strings.Contains(err.Error(), "reads back with digest") {
		t.Errorf("a snapshot that loses something: %v", err)
	}
	if _, err := (&capture{r: r, img: good}).encode(full{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	if d, _ := r.Digest(); d != want {
		t.Errorf("digest %v of a snapshot that is none", d)
	}
}

var errFull = errors.New("disk full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

package decide

import (
	"testing"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Only a replica in a directory that is not known to be gone may lead.
func TestDirOnline(t *testing.T) {
	here, gone := protocol.UUID{1}, protocol.UUID{2}
	delta := metadata.NewDelta(metadata.Empty())
	for _, rec := range []record.Record{
		&record.RegisterBroker{BrokerID: 1, LogDirs: []protocol.UUID{here}},
		&record.RegisterBroker{BrokerID: 2}, // of before KIP-858
	} {
		if err := delta.Replay(rec); err != nil {
			t.Fatal(err)
		}
	}
	img := delta.Apply(1, 1, 0)
	for _, tc := range []struct {
		broker protocol.NodeID
		dir    protocol.UUID
		want   bool
	}{
		{1, here, true},
		{1, gone, false},
		{1, protocol.UnassignedDir, true},
		{1, protocol.MigratingDir, true},
		{1, protocol.LostDir, false},
		{2, gone, true},
		{3, here, false},
	} {
		if got := dirOnline(img, tc.broker, tc.dir); got != tc.want {
			t.Errorf("broker %d, directory %s: %t, want %t", tc.broker, tc.dir, got, tc.want)
		}
	}
}

package controller

import (
	"testing"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// B053: leaders out of the ELR were counted as unclean.
func TestElectionsAreCounted(t *testing.T) {
	topic := protocol.UUID{1}
	img := metadata.Empty()
	var counted elections
	replay := func(recs ...record.Record) {
		t.Helper()
		delta := metadata.NewDelta(img)
		for _, rec := range recs {
			if err := delta.Replay(rec); err != nil {
				t.Fatal(err)
			}
		}
		img = delta.Apply(img.Offset()+int64(len(recs)), 1, 0)
		counted.publish(delta)
	}
	replicas := []protocol.NodeID{1, 2, 3}
	replay(&record.Topic{Name: "t", TopicID: topic}, &record.Partition{
		TopicID: topic, Replicas: replicas, ISR: replicas, Leader: 1, Directories: make([]protocol.UUID, 3),
	})
	for _, step := range []struct {
		what              string
		leader            protocol.NodeID
		isr, elr          []protocol.NodeID
		eligible, unclean int64
	}{
		{"in sync", 2, []protocol.NodeID{2, 3}, []protocol.NodeID{}, 0, 0},
		{"nobody", protocol.NoNode, []protocol.NodeID{}, []protocol.NodeID{2, 3}, 0, 0},
		{"eligible", 3, []protocol.NodeID{3}, []protocol.NodeID{2}, 1, 0},
		{"nobody again", protocol.NoNode, []protocol.NodeID{}, []protocol.NodeID{2, 3}, 1, 0},
		{"neither", 1, []protocol.NodeID{1}, []protocol.NodeID{}, 1, 1},
		{"the same", record.LeaderUnchanged, []protocol.NodeID{1, 2}, nil, 1, 1},
	} {
		change := record.NewPartitionChange(topic, 0)
		change.Leader, change.ISR, change.ELR = step.leader, step.isr, step.elr
		replay(change)
		if e, u := counted.eligible.Load(), counted.unclean.Load(); e != step.eligible || u != step.unclean {
			t.Errorf("%s: %d eligible and %d unclean, want %d and %d", step.what, e, u, step.eligible, step.unclean)
		}
	}
	if n := counted.all.Load(); n != 3 {
		t.Errorf("%d elections in all, want 3", n)
	}
}

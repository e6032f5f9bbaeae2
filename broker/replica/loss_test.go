package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/klamm/klamm/protocol"
)

// TestLoss: what a follower cuts off is told by its leader, in its log and in the
// proposal that takes the follower in, where it was promised to somebody or may have
// been: the leader was elected without having been in sync.
func TestLoss(t *testing.T) {
	for _, test := range []struct {
		name          string
		recovery      int8
		highWatermark int64 // of the follower
		again         protocol.BrokerEpoch
		want          protocol.Loss
	}{
		{"committed", 0, 9, 7, protocol.Loss{From: 4, To: 9, Committed: 9}},
		{"some of it committed", 0, 6, 7, protocol.Loss{From: 4, To: 9, Committed: 6}},
		{"nobody was promised it", 0, 4, 7, protocol.Loss{}},
		{"a follower that does not tell", 0, Never, 7, protocol.Loss{}},
		{"an unclean election", recovering, 4, 7, protocol.Loss{From: 4, To: 9, Committed: 4}},
		{"an unclean election, and it does not tell", recovering, Never, 7, protocol.Loss{From: 4, To: 9, Committed: 4}},
		{"a later life of the broker", recovering, 9, 8, protocol.Loss{}},
	} {
		events := &told{}
		log := &fakeLog{leo: 5, epochs: []protocol.LeaderEpoch{1}, starts: []int64{0}}
		p := following(log, events)
		lead := registration(1, 4, 1, 2)
		lead.ISR, lead.LeaderRecovery = []protocol.NodeID{1}, test.recovery
		p.become(lead, actionLead, log, 0)
		if want := test.recovery == recovering; (len(events.uncleanAt) == 1) != want {
			t.Errorf("%s: elected uncleanly at %v", test.name, events.uncleanAt)
		}
		fetch := func(offset int64, epoch protocol.BrokerEpoch, highWatermark int64) bool {
			t.Helper()
			got, err := p.Fetch(FetchRequest{
				Offset: offset, MaxBytes: 100, Replica: 2, ReplicaEpoch: epoch, HighWatermark: highWatermark,
				CurrentLeaderEpoch: -1, LastFetchedEpoch: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			return got.Diverges
		}
		if !fetch(9, 7, test.highWatermark) {
			t.Fatalf("%s: it does not diverge", test.name)
		}
		if fetch(4, test.again, 4) {
			t.Fatalf("%s: it still diverges", test.name)
		}
		fetch(5, test.again, 4)
		lives := func(protocol.NodeID) (protocol.BrokerEpoch, bool) { return test.again, true }
		want, ok := p.wantISR(time.Now(), time.Minute, lives)
		if !ok || want.loss != test.want {
			t.Errorf("%s: asked for %v: loss %+v, want %+v", test.name, ok, want.loss, test.want)
		}
		var told []protocol.Loss
		if !test.want.IsZero() {
			told = []protocol.Loss{test.want}
		}
		if !slices.Equal(events.losses, told) {
			t.Errorf("%s: told %+v", test.name, events.losses)
		}
		// Once it is told it is not told again.
		in := registration(1, 4, 1, 2)
		in.PartitionEpoch = 5
		p.become(in, actionUpdate, log, 0)
		if f := p.followerLocked(2); !f.loss.IsZero() {
			t.Errorf("%s: there is still %+v to tell", test.name, f.loss)
		}
	}
}

// TestUncleanOnce: only the election is told, not a later one of a leader that was in
// sync by then, nor one that is found after a start.
func TestUncleanOnce(t *testing.T) {
	events := &told{}
	log := &fakeLog{leo: 5}
	p := following(log, events)
	for epoch := protocol.LeaderEpoch(4); epoch < 6; epoch++ {
		lead := registration(1, epoch, 1, 2)
		lead.ISR, lead.LeaderRecovery = []protocol.NodeID{1}, recovering
		p.become(lead, actionLead, log, 0)
	}
	if !slices.Equal(events.uncleanAt, []int64{5}) {
		t.Errorf("elected uncleanly at %v", events.uncleanAt)
	}
	events = &told{}
	p = newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &TopicConfig{}, events)
	lead := registration(1, 4, 1, 2)
	lead.LeaderRecovery = recovering
	p.become(lead, actionLead, log, 0)
	if len(events.uncleanAt) > 0 {
		t.Errorf("after a start, elected uncleanly at %v", events.uncleanAt)
	}
}

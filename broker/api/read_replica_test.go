package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// racks registers broker 1 in rack a, 2 and 3 in b, 4 in c but out of the clients'
// reach, 5 nowhere.
func (w *dataWorld) racks() {
	w.t.Helper()
	for id, rack := range map[int32]string{1: "a", 2: "b", 3: "b", 4: "c", 5: ""} {
		r := &record.RegisterBroker{
			BrokerID: protocol.NodeID(id), BrokerEpoch: protocol.BrokerEpoch(10 + id),
			Endpoints: []record.Endpoint{{Name: "PLAINTEXT", Host: "host", Port: uint16(9000 + id)}},
		}
		if rack != "" {
			r.Rack = &rack
		}
		if id == 4 {
			r.Endpoints[0].Name = "INTERNAL"
		}
		w.apply(r)
	}
}

// TestNearest: the choice is that of Kafka's RackAwareReplicaSelector.
func TestNearest(t *testing.T) {
	w := newDataWorld(t)
	w.racks()
	now := time.Unix(1000, 0)
	follower := func(id protocol.NodeID, leo int64, ago time.Duration) replica.ReadReplica {
		return replica.ReadReplica{ID: id, LEO: leo, CaughtUp: now.Add(-ago)}
	}
	for _, tc := range []struct {
		name      string
		rack      string
		leader    protocol.NodeID
		followers []replica.ReadReplica
		want      protocol.NodeID
	}{
		{"the leader is near", "a", 1, []replica.ReadReplica{follower(2, 9, 0)}, -1},
		{"the leader is as near as others", "b", 3, []replica.ReadReplica{follower(2, 9, 0)}, -1},
		{"nobody is near", "z", 1, []replica.ReadReplica{follower(2, 9, 0)}, -1},
		{"who is near is out of reach", "c", 1, []replica.ReadReplica{follower(4, 9, 0), follower(5, 9, 0)}, -1},
		{"one is near", "b", 1, []replica.ReadReplica{follower(5, 10, 0), follower(2, 9, 0), follower(4, 11, 0)}, 2},
		{"the one that has more", "b", 1, []replica.ReadReplica{follower(2, 9, time.Hour), follower(3, 8, 0)}, 2},
		{"the one that was there sooner", "b", 1, []replica.ReadReplica{follower(2, 9, time.Second), follower(3, 9, time.Minute)}, 2},
		{"the one with the larger id", "b", 1, []replica.ReadReplica{follower(2, 9, 0), follower(3, 9, 0)}, 3},
	} {
		if got, _ := nearest(w.Image(), "PLAINTEXT", tc.rack, tc.leader, tc.followers); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestPreferredReadReplica: a consumer that tells its rack is sent to a follower at
// once, without records, where the selector is on and its version knows of followers.
func TestPreferredReadReplica(t *testing.T) {
	w := newDataWorld(t)
	w.racks()
	w.topic("t", 1, 1, 1, 2)
	w.mustProduce("t", 3)
	w.ask(replicaFetch("t", 3)) // 2 has everything
	for _, tc := range []struct {
		name    string
		off     bool // the selector
		version int16
		change  func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)
		want    string
		replica int32
	}{
		{name: "in its rack", version: 11, want: "NONE [] hw=3 lso=3 start=0", replica: 2},
		{name: "in its rack, by id", version: 18, want: "NONE [] hw=3 lso=3 start=0", replica: 2},
		{name: "without a selector", off: true, version: 18, want: "NONE [0] hw=3 lso=3 start=0", replica: -1},
		{name: "before followers answered", version: 10, want: "NONE [0] hw=3 lso=3 start=0", replica: -1},
		{
			name: "in the leader's rack", version: 18, want: "NONE [0] hw=3 lso=3 start=0", replica: -1,
			change: func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.Rack = "a" },
		},
		{
			name: "at the end", version: 18, want: "NONE [] hw=3 lso=3 start=0", replica: 2,
			change: func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 3 },
		},
		{
			name: "beyond the end", version: 18, want: "OFFSET_OUT_OF_RANGE [] hw=-1 lso=-1 start=-1", replica: -1,
			change: func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 4 },
		},
		{
			name: "under a wrong epoch", version: 18, want: "UNKNOWN_LEADER_EPOCH [] hw=-1 lso=-1 start=-1", replica: -1,
			change: func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 9 },
		},
	} {
		w.fetch.cfg.RackAware = !tc.off
		req := fetchRequest(tc.version, "t", 0)
		req.Rack, req.MaxWaitMillis, req.MinBytes = "b", 60_000, 1
		if tc.change != nil {
			tc.change(req, &req.Topics[0].Partitions[0])
		}
		p := w.fetchedPartition(req)
		if got := describeFetched(p); got != tc.want || p.PreferredReadReplica != tc.replica {
			t.Errorf("%s: %s at %d, want %s at %d", tc.name, got, p.PreferredReadReplica, tc.want, tc.replica)
		}
	}
}

// TestPreferredReadReplicaOfSession: an incremental answer names it too, although
// nothing else is new.
func TestPreferredReadReplicaOfSession(t *testing.T) {
	w := newDataWorld(t)
	w.fetch.cfg.RackAware = true
	w.racks()
	w.topic("t", 1, 1, 1, 2)
	w.mustProduce("t", 3)
	w.ask(replicaFetch("t", 3))
	req := fetchRequest(13, "t", 3)
	req.SessionEpoch, req.Rack = 0, "b"
	session := w.ask(req).(*kmsg.FetchResponse).SessionID
	again := kmsg.NewPtrFetchRequest()
	again.Version, again.SessionID, again.SessionEpoch, again.Rack = 13, session, 1, "b"
	if p := w.fetchedPartition(again); p.PreferredReadReplica != 2 {
		t.Errorf("the second answer names %d", p.PreferredReadReplica)
	}
}

// TestFetchAtFollower: consumers from v11 on are served by a follower, whatever the
// selector; those before are not (B032 of package integration/faults).
func TestFetchAtFollower(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1, 1, 2)
	id := worldTopicID("t", 1)
	w.mustProduce("t", 3)
	w.ask(replicaFetch("t", 3))
	w.lead(id, 2)
	for _, selector := range []bool{false, true} {
		w.fetch.cfg.RackAware = selector
		for version := int16(5); version <= 18; version++ {
			want := "NONE [0] hw=3 lso=3 start=0"
			if version < 11 {
				want = "NOT_LEADER_FOR_PARTITION [] hw=-1 lso=-1 start=-1"
			}
			req := fetchRequest(version, "t", 0)
			req.Rack = "b"
			p := w.fetchedPartition(req)
			if got := describeFetched(p); got != want {
				t.Errorf("version %d: %s, want %s", version, got, want)
			}
		}
	}
	old := fetchRequest(10, "t", 0)
	old.ReplicaID = -2
	if got := describeFetched(w.fetchedPartition(old)); got != "NONE [0] hw=3 lso=3 start=0" {
		t.Errorf("a debugger gets %s", got)
	}
}

// replicaFetch is a fetch of broker 2, which says that it has all below the offset.
func replicaFetch(topic string, offset int64) *kmsg.FetchRequest {
	req := fetchRequest(12, topic, offset)
	req.ReplicaID = 2
	req.Topics[0].Partitions[0].LogStartOffset = 0
	return req
}

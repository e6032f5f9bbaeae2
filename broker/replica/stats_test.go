package replica

import (
	"errors"
	"fmt"
	"testing"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// What is counted of partitions, and when a topic's traffic is not shown any more (B201).
func TestStats(t *testing.T) {
	n := newNode(t)
	summary := func() string {
		s := n.manager.Stats()
		return fmt.Sprintf("%d replicas, %d offline, %d lead, %d under-replicated, %d under min, %d at min, %d reassigned, lag %d of %d",
			s.Partitions, s.Offline, s.Leaders, len(s.UnderReplicated), len(s.UnderMinISR), s.AtMinISR, s.Reassigning, s.MaxLag, len(s.Lags))
	}
	want := func(what, want string) {
		t.Helper()
		if got := summary(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	shown := func() (out string) {
		s := n.manager.Stats()
		for _, topic := range s.Topics {
			in, inOK := topic.Of(BytesIn)
			read, readOK := topic.Of(BytesOut)
			out += fmt.Sprintf("%s in %d %t out %d %t ", topic.Topic, in, inOK, read, readOK)
		}
		return out
	}
	change := func(partition int32, leader protocol.NodeID, isr ...protocol.NodeID) *record.PartitionChange {
		return &record.PartitionChange{TopicID: protocol.UUID{1}, PartitionID: partition, Leader: leader, ISR: isr, LeaderRecovery: record.RecoveryUnchanged}
	}

	n.apply(topicRecords("t", 1, 1, 1, 2, protocol.NoNode)...)
	want("at first", "4 replicas, 0 offline, 2 lead, 2 under-replicated, 0 under min, 2 at min, 0 reassigned, lag 0 of 1")
	n.apply(change(0, record.LeaderUnchanged, 1, 2))
	want("one caught up", "4 replicas, 0 offline, 2 lead, 1 under-replicated, 0 under min, 1 at min, 0 reassigned, lag 0 of 1")
	value := "2"
	n.apply(&record.Config{ResourceType: 2, ResourceName: "t", Name: "min.insync.replicas", Value: &value})
	want("two are wanted", "4 replicas, 0 offline, 2 lead, 1 under-replicated, 1 under min, 1 at min, 0 reassigned, lag 0 of 1")

	// Replicas that are being added are not missed.
	moved := change(0, record.LeaderUnchanged)
	moved.Replicas, moved.AddingReplicas = []protocol.NodeID{1, 2, 3}, []protocol.NodeID{3}
	n.apply(moved)
	want("one is added", "4 replicas, 0 offline, 2 lead, 1 under-replicated, 1 under min, 1 at min, 1 reassigned, lag 0 of 1")
	p, _ := n.manager.Partition(protocol.UUID{1}, 0)
	p.CountReplicated(2, 10)
	p.CountReplicated(3, 5)
	if all := n.manager.Traffic(); all.Of(ReplicatedOut) != 15 || all.Of(ReassignedOut) != 5 {
		t.Errorf("%d bytes were replicated, %d of them to new replicas", all.Of(ReplicatedOut), all.Of(ReassignedOut))
	}

	follower, _ := n.manager.Partition(protocol.UUID{1}, 2)
	at, _ := follower.Position()
	if err := follower.AppendAsFollower(at, nil, 7, 0); err != nil {
		t.Fatal(err)
	}
	want("the leader has more", "4 replicas, 0 offline, 2 lead, 1 under-replicated, 1 under min, 1 at min, 1 reassigned, lag 7 of 1")
	follower.fail(errors.New("broken"))
	want("one is broken", "4 replicas, 1 offline, 2 lead, 1 under-replicated, 1 under min, 1 at min, 1 reassigned, lag 0 of 0")

	p.Traffic().Add(BytesIn, 100)
	p.Traffic().Add(BytesOut, 30)
	if got := shown(); got != "t in 100 true out 30 true " {
		t.Error(got)
	}
	n.apply(change(0, 2), change(1, 2))
	if got := shown(); got != "t in 100 false out 30 true " {
		t.Errorf("led elsewhere: %s", got)
	}
	n.apply(&record.RemoveTopic{TopicID: protocol.UUID{1}})
	want("deleted", "0 replicas, 0 offline, 0 lead, 0 under-replicated, 0 under min, 0 at min, 0 reassigned, lag 0 of 0")
	if got := shown(); got != "" || len(n.manager.topics) != 0 || n.manager.Traffic().Of(BytesIn) != 100 {
		t.Errorf("deleted: %s, %d topics, %d bytes in all", got, len(n.manager.topics), n.manager.Traffic().Of(BytesIn))
	}
}

func TestISRCounts(t *testing.T) {
	var c isrCounts
	ids := func(ids ...protocol.NodeID) []protocol.NodeID { return ids }
	c.took(proposal{before: ids(1, 2, 3), isr: ids(1, 2)}, protocol.None)
	c.took(proposal{before: ids(1, 2), isr: ids(1, 2, 3)}, protocol.None)
	c.took(proposal{before: ids(1, 2), isr: ids(1, 3)}, protocol.None)
	c.took(proposal{before: ids(1), isr: ids(1)}, protocol.None)
	c.took(proposal{before: ids(1, 2), isr: ids(1)}, protocol.ErrIneligibleReplica)
	if shrinks, expands, failed := c.shrinks.Load(), c.expands.Load(), c.failed.Load(); shrinks != 2 || expands != 2 || failed != 1 {
		t.Errorf("%d shrinks, %d expands, %d failed", shrinks, expands, failed)
	}
}

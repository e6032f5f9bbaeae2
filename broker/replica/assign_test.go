package replica

import (
	"context"
	"maps"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// clerk answers AssignReplicasToDirs with a code for the request, or for each
// partition.
type clerk struct {
	asked     []*kmsg.AssignReplicasToDirsRequest
	code      protocol.Error
	partition map[int32]protocol.Error
}

func (c *clerk) Do(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	r := req.(*kmsg.AssignReplicasToDirsRequest)
	c.asked = append(c.asked, r)
	resp := kmsg.NewPtrAssignReplicasToDirsResponse()
	resp.ErrorCode = int16(c.code)
	for _, d := range r.Directories {
		dir := kmsg.NewAssignReplicasToDirsResponseDirectory()
		dir.ID = d.ID
		for _, t := range d.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, int16(c.partition[p.Partition])
				topic.Partitions = append(topic.Partitions, partition)
			}
			dir.Topics = append(dir.Topics, topic)
		}
		resp.Directories = append(resp.Directories, dir)
	}
	return resp, nil
}

// The controller is told again of what it did not take note of, and of nothing else.
func TestAssign(t *testing.T) {
	topic, dir, other := protocol.NewUUID(), protocol.NewUUID(), protocol.NewUUID()
	wanted := map[partitionKey]protocol.UUID{{topic, 0}: dir, {topic, 1}: dir, {topic, 2}: other}
	for _, test := range []struct {
		clerk clerk
		again []int32
	}{
		{clerk{}, nil},
		{clerk{code: protocol.ErrStaleBrokerEpoch}, []int32{0, 1, 2}},
		{clerk{partition: map[int32]protocol.Error{1: protocol.ErrUnknownServerError}}, []int32{1}},
		{clerk{partition: map[int32]protocol.Error{0: protocol.ErrUnknownTopicID, 2: protocol.ErrNotLeaderForPartition}}, nil},
	} {
		m := NewManager(Config{Node: 1, ISR: ISRConfig{Controller: &test.clerk, Epoch: func() protocol.BrokerEpoch { return 7 }}}, zerolog.Nop())
		retry := m.assign(t.Context(), maps.Clone(wanted))
		if len(retry) != len(test.again) {
			t.Errorf("%+v: told again of %v", test.clerk.partition, retry)
		}
		for _, partition := range test.again {
			if retry[partitionKey{topic, partition}] != wanted[partitionKey{topic, partition}] {
				t.Errorf("not told again of %d: %v", partition, retry)
			}
		}
		if r := test.clerk.asked[0]; r.BrokerID != 1 || r.BrokerEpoch != 7 || len(r.Directories) != 2 {
			t.Errorf("asked %+v", r)
		}
	}
}

// What has been added while a request was under way is not undone by what it did not
// get done.
func TestNewAssignmentIsKept(t *testing.T) {
	a := assignments{wake: make(chan struct{}, 1), wanted: map[partitionKey]protocol.UUID{}}
	key, other := partitionKey{protocol.NewUUID(), 0}, partitionKey{protocol.NewUUID(), 0}
	old, dir := protocol.NewUUID(), protocol.NewUUID()
	a.add(map[partitionKey]protocol.UUID{key: old, other: old})
	failed := a.take()
	a.add(map[partitionKey]protocol.UUID{key: dir})
	a.again(failed)
	if got := a.take(); got[key] != dir || got[other] != old {
		t.Errorf("%v, want %v at its new place %v", got, key, dir)
	}
}

// However many there are, each goes once, so many at a time.
func TestAssignmentsAreBounded(t *testing.T) {
	a := assignments{wake: make(chan struct{}, 1), wanted: map[partitionKey]protocol.UUID{}}
	topic, dir := protocol.NewUUID(), protocol.NewUUID()
	all := map[partitionKey]protocol.UUID{}
	for i := range int32(mostAssignments + 10) {
		all[partitionKey{topic, i}] = dir
	}
	a.add(all)
	seen := map[partitionKey]protocol.UUID{}
	for _, want := range []int{mostAssignments, 10} {
		select {
		case <-a.wake:
		default:
			t.Fatal("nobody is woken")
		}
		a.add(map[partitionKey]protocol.UUID{{topic, 0}: dir}) // a token beside the one that was taken
		got := a.take()
		if len(got) < want {
			t.Errorf("%d are taken, want %d", len(got), want)
		}
		maps.Copy(seen, got)
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d went", len(seen), len(all))
	}
}

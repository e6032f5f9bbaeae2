package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is printed of moves: from where to where, and what each new replica has.
func TestReassignStatusPrint(t *testing.T) {
	list := kmsg.NewPtrListPartitionReassignmentsResponse()
	for _, p := range []struct {
		topic                      string
		partition                  int32
		replicas, adding, removing string
	}{
		{"t", 1, "3,4,1,2", "3,4", "1,2"},
		{"t", 0, "5,1,2", "5", "2"},
		{"a", 0, "1,2,3,4", "3,4", "2,4"}, // of 4 an earlier target knew
		{"b", 0, "2,1", "-", "1"},
	} {
		one := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		one.Partition, one.Replicas, one.AddingReplicas, one.RemovingReplicas = p.partition, ids(t, p.replicas), ids(t, p.adding), ids(t, p.removing)
		topic := kmsg.NewListPartitionReassignmentsResponseTopic()
		topic.Topic, topic.Partitions = p.topic, append(topic.Partitions, one)
		list.Topics = append(list.Topics, topic)
	}
	s := &reassignStatus{Partitions: partitionsMoving(list)}
	for i := range s.Partitions {
		s.Partitions[i].Leader = 1
	}
	s.Partitions[1].Leader = -1
	s.Partitions[0].Copies[0] = newCopy{Broker: 3, Bytes: 999, Of: 1000}
	s.Partitions[2].Copies[0] = newCopy{Broker: 5, Bytes: -1, Of: 1000, Away: true}
	s.Partitions[3].Copies[0] = newCopy{Broker: 3, Bytes: 510, Of: 500, InSync: true}
	s.Partitions[3].Copies[1] = newCopy{Broker: 4, Bytes: 510, Of: 500}
	s.Throttles = []throttle{{Broker: 1, Leader: 5, Follower: -1}, {Broker: 3, Leader: -1, Follower: 0}}
	s.Problems = []string{"broker 2 does not answer: why"}
	var out strings.Builder
	if err := s.print(&out, false); err != nil {
		t.Fatal(err)
	}
	const want = `4 partitions move, 1999 of 3000 bytes have been copied

TOPIC  PARTITION  FROM  TO   LEADER  BROKER  BYTES  OF    STATE
a      0          1,2   1,3  1       3       999    1000  99 %
b      0          2,1   2    none    -       -      -     -
t      0          1,2   5,1  1       5       ?      1000  away
t      1          1,2   3,4  1       3       510    500   in sync
t      1          1,2   3,4  1       4       510    500   99 %

broker 1 sends throttled replicas 5 bytes a second
broker 3 fetches 0 bytes a second for throttled replicas
broker 2 does not answer: why
`
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

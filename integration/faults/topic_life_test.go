//go:build integration

package faults

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// TestB012TopicsOfARestartedBroker: a broker that had just been restarted said
// that topics did not exist; idempotent producers began anew, and their records
// were taken for repeated ones. The first connection that is accepted knows
// every topic.
func TestB012TopicsOfARestartedBroker(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	producer := initProducer(c)
	for i := range int32(restarts()) {
		if p := produce(c, topic, numbered(producer, 2*i, 2)); p.ErrorCode != 0 || p.BaseOffset != int64(2*i) {
			t.Fatalf("restart %d: offset %d, code %d", i, p.BaseOffset, p.ErrorCode)
		}
		restart(n, syscall.SIGKILL)
		c = dial(t, n.Address)
		found := metadata(c, topic)
		wantCode(t, "metadata after a restart", found.ErrorCode, protocol.None)
		if len(found.Partitions) != 1 {
			t.Fatalf("restart %d: %d partitions", i, len(found.Partitions))
		}
		eventually(t, topic+" is led", func() bool { return listOffset(c, topic, latest).ErrorCode == 0 })
	}
	wantOffsets(c, topic, 0, 2*int64(restarts()))
}

// restarts is how often a node is started again where once shows little.
func restarts() int {
	if onKafka {
		return 3
	}
	return 20
}

// TestB107FilesOfADeletedTopic: the data of deleted topics stayed on disk. It
// goes after the delay, also where the node is killed in between.
func TestB107FilesOfADeletedTopic(t *testing.T) {
	t.Parallel()
	n := ownNode(t, "log.segment.delete.delay.ms=300", "log.initial.task.delay.ms=300")
	var topics []string
	for range 5 {
		c := dial(t, n.Address)
		topic := createTopic(c)
		topics = append(topics, topic)
		mustProduce(c, topic, ten...)
		deleteTopic(c, topic)
		if onKafka {
			// Kafka answers before the broker has heard of it.
			eventually(t, "the broker has heard of it", func() bool { return len(entries(t, n, topic+"-0")) == 0 || len(entries(t, n, "-delete")) > 0 })
		}
		restart(n, syscall.SIGKILL)
	}
	for _, topic := range topics {
		eventually(t, "nothing is left of "+topic, func() bool { return len(entries(t, n, topic)) == 0 })
	}
}

// entries are the names in the data directory that have a text in them.
func entries(t *testing.T, n *harness.Node, text string) []string {
	t.Helper()
	all, err := os.ReadDir(n.Data())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range all {
		if strings.Contains(e.Name(), text) {
			found = append(found, e.Name())
		}
	}
	return found
}

// TestB150SizeRetention: retention by size deleted too much. A segment goes as
// long as what stays is not below the limit; so only with the limit 0 does the
// active one go.
func TestB150SizeRetention(t *testing.T) {
	t.Parallel()
	n := ownNode(t, "log.retention.check.interval.ms=100", "log.initial.task.delay.ms=100")
	c := dial(t, n.Address)
	// Two batches fill a segment: 0 and 1, 2 and 3, and 4 in the active one.
	value := strings.Repeat("v", 900_000)
	size := len(records(batch.Options{}, value))
	fill := func() string {
		topic := createTopic(c, "segment.bytes", "2000000")
		mustProduce(c, topic, value, value, value, value, value)
		return topic
	}
	limit := func(topic string, bytes int) {
		t.Helper()
		text := fmt.Sprint(bytes)
		wantCode(t, "retention.bytes", alterTopic(c, topic, op{"retention.bytes", set, &text}), protocol.None)
	}
	first := func(topic string, want int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s begins at %d", topic, want), func() bool { return listOffset(c, topic, earliest).Offset == want })
	}
	above, exact, none := fill(), fill(), fill()
	limit(above, 3*size+1)
	limit(exact, 3*size)
	first(exact, 2)
	limit(none, 0)
	first(none, 5)
	limit(exact, size) // a second round over all of them
	first(exact, 4)
	wantOffsets(c, above, 0, 5)
	wantOffsets(c, exact, 4, 5)
}

// TestB110DeletedGroup: a group that had been deleted came back with a restart.
func TestB110DeletedGroup(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic, group, other := createTopic(c), unique(t, "group"), unique(t, "other")
	for _, g := range []string{group, other} {
		awaitCoordinator(c, g)
		wantCode(t, "commit", commit(c, g, topic, 5, -1, -1, ""), protocol.None)
	}
	remove := func() int16 {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group}
		return ask[*kmsg.DeleteGroupsResponse](c, 2, req).Groups[0].ErrorCode
	}
	wantCode(t, "DeleteGroups", remove(), protocol.None)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		restart(n, signal)
		c = dial(t, n.Address)
		awaitCoordinator(c, group)
		awaitCoordinator(c, other)
		described := describeGroup(c, group)
		wantCode(t, "DescribeGroups", described.ErrorCode, protocol.None)
		if described.State != "Dead" {
			t.Errorf("the deleted group is %s", described.State)
		}
		wantCommitted(c, group, topic, -1, -1)
		wantCommitted(c, other, topic, 5, -1)
		listed := map[string]bool{}
		for _, g := range ask[*kmsg.ListGroupsResponse](c, 4, kmsg.NewPtrListGroupsRequest()).Groups {
			listed[g.Group] = true
		}
		if listed[group] || !listed[other] {
			t.Errorf("listed are %v", listed)
		}
		wantCode(t, "DeleteGroups again", remove(), protocol.ErrGroupIDNotFound)
	}
}

//go:build integration

package mixed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// A cluster of Apache Kafka's becomes klamm's as docs/migration.md says, under load:
// broker by broker on the directories that they have, one of which goes back first and
// one of which was killed, then the controllers at once.
func TestMigration(t *testing.T) {
	w := startKafka(t, *kafkaControllers)
	w.CreateOn("t", []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2})
	w.AwaitISR("t", 1, 2, 3)
	compacted := w.compacted("compacted", []int32{3, 1})
	w.commit("group", "compacted", 2)
	was := w.config("compacted")
	l := w.load("t")
	g := w.member("t", "readers")
	l.goOn()

	drain := func(id int32) {
		t.Helper()
		w.AwaitCanStop(id)
		w.Node(id).Stop()
		l.goOn()
	}
	become := func(n *harness.Node, kind harness.Kind) {
		t.Helper()
		n.Become(kind)
		n.Restart()
		w.AwaitISR("t", 1, 2, 3)
		w.lead("t")
		l.goOn()
	}
	drain(1)
	become(w.Node(1), harness.Klamm)
	drain(1)
	become(w.Node(1), harness.Kafka)
	drain(1)
	become(w.Node(1), harness.Klamm)
	drain(2)
	become(w.Node(2), harness.Klamm)
	w.move("compacted", []int32{3, 2}) // it comes from Apache Kafka's log
	w.Node(3).Kill()
	become(w.Node(3), harness.Klamm)

	for _, n := range w.Controllers {
		n.Stop()
	}
	l.goOn() // records need no controller
	w.takeOver()
	w.CreateOn("after", []int32{1, 2, 3})
	w.AwaitISR("after", 1, 2, 3)
	w.Node(2).Kill()
	w.AwaitISR("t", 1, 3)
	w.Node(2).Restart()
	w.AwaitISR("t", 1, 2, 3)
	l.goOn()

	if is := w.config("compacted"); !slices.Equal(is, was) {
		t.Errorf("the configs of a topic were %v and are %v", was, is)
	}
	if got := w.committed("group", "compacted"); got != 2 {
		t.Errorf("a group has committed offset 2, and finds %d", got)
	}
	for _, replicas := range [][]int32{{3, 2}, {2, 3}, {1, 2}} {
		w.move("compacted", replicas)
		w.lead("compacted")
		if got := w.records("compacted"); !slices.Equal(got, compacted) {
			t.Errorf("broker %d has of a compacted topic %q, and there was %q", replicas[0], got, compacted)
		}
	}
	l.end()
	g.end()
	w.verify("t", "after", "compacted")
	w.SameLogs("t", "after")
}

// takeOver has klamm's controllers go on where Apache Kafka's have stopped. Of several,
// whose votes are not known, one is made the only voter, and the others join it anew.
func (w *world) takeOver() {
	w.T.Helper()
	for _, n := range w.Controllers {
		n.Become(harness.Klamm)
	}
	if len(w.Controllers) == 1 {
		w.Controllers[0].Restart()
		return
	}
	var dirs []string
	for _, n := range w.Controllers {
		dirs = append(dirs, n.Data())
	}
	out := harness.MustRun(w.T, append([]string{"metadata", "recover", "--yes"}, dirs...)...)
	first := slices.IndexFunc(w.Controllers, func(n *harness.Node) bool {
		return strings.Contains(out, "controller.quorum.bootstrap.servers="+n.Controller+",")
	})
	if first < 0 {
		w.T.Fatalf("no voter in:\n%s", out)
	}
	w.Controllers[first].Restart()
	for i, n := range w.Controllers {
		if i == first {
			continue
		}
		n.WipeDynamic()
		n.Restart()
		harness.MustRun(w.T, "quorum", "add", strconv.Itoa(i+101), "--bootstrap-server", w.Nodes[0].Address)
	}
}

// compacted creates a topic in whose log there are gaps already, and gives its records.
func (w *world) compacted(topic string, replicas []int32) []string {
	w.T.Helper()
	w.CreateOn(topic, replicas)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for name, value := range map[string]string{"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01", "min.insync.replicas": "1"} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	if answer := harness.Ask[*kmsg.IncrementalAlterConfigsResponse](w.World, req).Resources[0]; answer.ErrorCode != 0 {
		w.T.Fatalf("configs of %s: %d %v", topic, answer.ErrorCode, answer.ErrorMessage)
	}
	// Each round is a segment, and the last is the active one.
	begin := time.Now().Add(-time.Hour)
	for round := range 4 {
		for key := range 10 {
			err := w.Client.ProduceSync(w.Within(), &kgo.Record{
				Topic: topic, Key: fmt.Append(nil, key), Value: fmt.Appendf(nil, "%d of round %d", key, round), Timestamp: begin.Add(time.Duration(round) * 10 * time.Minute),
			}).FirstErr()
			if err != nil {
				w.T.Fatal(err)
			}
		}
	}
	var records []string
	w.Await("a compaction", func() bool {
		records = w.records(topic)
		return len(records) == 20
	})
	return records
}

// records are those of a topic's only partition, with their offsets.
func (w *world) records(topic string) (records []string) {
	w.T.Helper()
	client := w.NewClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	end, last := w.Ends(topic)[0], int64(-1)
	for last < end-1 {
		fetches := client.PollFetches(w.Within())
		if err := fetches.Err(); err != nil {
			w.T.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, fmt.Sprintf("%d %s", r.Offset, r.Value))
			last = r.Offset
		})
	}
	return records
}

// config are the configs of a topic that are set for it.
func (w *world) config(topic string) (set []string) {
	w.T.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	req.Resources = append(req.Resources, r)
	resource := harness.Ask[*kmsg.DescribeConfigsResponse](w.World, req).Resources[0]
	if resource.ErrorCode != 0 {
		w.T.Fatalf("configs of %s: %d", topic, resource.ErrorCode)
	}
	for _, c := range resource.Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			set = append(set, fmt.Sprintf("%s=%s", c.Name, *c.Value))
		}
	}
	slices.Sort(set)
	return set
}

// commit has a group of no members commit an offset of a topic's only partition.
func (w *world) commit(group, topic string, offset int64) {
	w.T.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, w.topicID(topic)
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	w.Await("the offset to be committed", func() bool {
		return harness.Ask[*kmsg.OffsetCommitResponse](w.World, req).Topics[0].Partitions[0].ErrorCode == 0
	})
}

// committed is that offset.
func (w *world) committed(group, topic string) (offset int64) {
	w.T.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = topic, w.topicID(topic), []int32{0}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	w.Await("the offset of a group", func() bool {
		found := harness.Ask[*kmsg.OffsetFetchResponse](w.World, req).Groups[0]
		if found.ErrorCode != 0 || found.Topics[0].Partitions[0].ErrorCode != 0 {
			return false
		}
		offset = found.Topics[0].Partitions[0].Offset
		return true
	})
	return offset
}

func (w *world) topicID(topic string) [16]byte {
	w.T.Helper()
	return harness.Ask[*kmsg.MetadataResponse](w.World, harness.MetadataRequest(topic)).Topics[0].TopicID
}

// member is a member of a group.
type member struct {
	w      *world
	topic  string
	group  string
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}
}

// member has a group read a topic, whose only member it is.
func (w *world) member(topic, group string) *member {
	w.T.Helper()
	ctx, stop := context.WithCancel(context.Background())
	m := &member{w: w, topic: topic, group: group, stop: stop, done: make(chan struct{})}
	m.client = w.NewClient(kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	w.T.Cleanup(func() {
		stop()
		<-m.done
	})
	go func() {
		defer close(m.done)
		for {
			fetches := m.client.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			fetches.EachError(func(topic string, partition int32, err error) {
				if _, ok := errors.AsType[*kgo.ErrGroupSession](err); ok {
					return // it says that it joins again, as it does
				}
				w.T.Errorf("member: %s/%d: %v", topic, partition, err)
			})
		}
	}()
	return m
}

// end waits until the group has committed all of the topic.
func (m *member) end() {
	m.w.T.Helper()
	ends := m.w.Ends(m.topic)
	var failed error // while it joins again
	defer func() {
		if m.w.T.Failed() && failed != nil {
			m.w.T.Log(failed)
		}
	}()
	m.w.Await("the group to have read everything", func() bool {
		if failed = m.client.CommitUncommittedOffsets(m.w.Within()); failed != nil {
			return false
		}
		done := m.client.CommittedOffsets()[m.topic]
		for partition, end := range ends {
			if end > 0 && done[int32(partition)].Offset < end {
				return false
			}
		}
		return true
	})
	m.stop()
	<-m.done
}

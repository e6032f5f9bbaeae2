package metadata

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Why something was written is no part of what it made.
func TestCauseIsNoState(t *testing.T) {
	digests := map[string]bool{}
	for _, cause := range []string{"", "CreateAcls by User:a", "AlterUserScramCredentials by User:b"} {
		delta := NewDelta(Empty())
		for _, rec := range []record.Record{
			&record.Topic{Name: "a", TopicID: uuid(1)},
			&record.AccessControlEntry{ACLID: uuid(2), ResourceName: "a"},
			&record.UserScramCredential{Name: "u", Mechanism: 1, Iterations: 4096},
			&record.ClientQuota{Entity: []record.QuotaEntity{{Type: "user"}}, Key: "k", Value: 1},
		} {
			record.SetCause(rec, cause)
			if err := delta.Replay(rec); err != nil {
				t.Fatal(err)
			}
		}
		digests[delta.Apply(3, 1, 1).Digest()] = true
	}
	if len(digests) != 1 {
		t.Errorf("the cause changes the digest: %v", digests)
	}
}

func uuid(n byte) protocol.UUID { return protocol.UUID{0: n, 15: 200} }

func replayAll(t *testing.T, img *Image, recs ...record.Record) *Image {
	t.Helper()
	d := NewDelta(img)
	for _, r := range recs {
		if err := d.Replay(r); err != nil {
			t.Fatalf("replay %T: %v", r, err)
		}
	}
	return d.Apply(img.Offset()+int64(len(recs)), 1, 1000)
}

func partition(topic protocol.UUID, id int32, replicas ...protocol.NodeID) *record.Partition {
	return &record.Partition{
		TopicID: topic, PartitionID: id, Replicas: replicas, ISR: replicas,
		Leader: replicas[0], Directories: make([]protocol.UUID, len(replicas)),
	}
}

func TestCount(t *testing.T) {
	headless, moved := partition(uuid(1), 1, 2, 1), partition(uuid(2), 0, 1, 2)
	headless.Leader, headless.ISR, moved.Leader = protocol.NoNode, nil, 2
	img := replayAll(t, Empty(), &record.Topic{Name: "a", TopicID: uuid(1)}, partition(uuid(1), 0, 1, 2), headless,
		&record.Topic{Name: "b", TopicID: uuid(2)}, moved,
		&record.RegisterBroker{BrokerID: 1}, &record.RegisterBroker{BrokerID: 2, Fenced: true}, &record.RegisterBroker{BrokerID: 3})
	if got, want := img.Count(), (Counts{Active: 2, Fenced: 1, Topics: 2, Partitions: 3, Offline: 1, Imbalanced: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEpochsFollowTheRecords(t *testing.T) {
	img := replayAll(t, Empty(), &record.Topic{Name: "a", TopicID: uuid(1)}, partition(uuid(1), 0, 1, 2))

	shrink := record.NewPartitionChange(uuid(1), 0)
	shrink.ISR = []protocol.NodeID{1}
	sameLeader := record.NewPartitionChange(uuid(1), 0)
	sameLeader.Leader = 1
	img2 := replayAll(t, img, shrink, sameLeader)

	before, _ := img.Partition(protocol.TopicPartition{Topic: "a"})
	after, _ := img2.Partition(protocol.TopicPartition{Topic: "a"})
	if before.PartitionEpoch != 0 || before.LeaderEpoch != 0 || len(before.ISR) != 2 {
		t.Errorf("the published image changed: %+v", before)
	}
	if after.PartitionEpoch != 2 || after.LeaderEpoch != 1 || !slices.Equal(after.ISR, []protocol.NodeID{1}) {
		t.Errorf("after an ISR change and a recorded leader: %+v", after)
	}
}

// A broker under Apache Kafka's controllers names the partition epoch when it asks
// for another ISR, so what a record does to it must be what Kafka does.
func TestClearedELRIsAChange(t *testing.T) {
	eligible, known := record.NewPartitionChange(uuid(1), 0), record.NewPartitionChange(uuid(1), 1)
	eligible.ISR, eligible.ELR = []protocol.NodeID{1}, []protocol.NodeID{2}
	known.ISR, known.LastKnownELR, known.Leader = []protocol.NodeID{}, []protocol.NodeID{2}, protocol.NoNode
	img := replayAll(t, Empty(), &record.Topic{Name: "a", TopicID: uuid(1)},
		partition(uuid(1), 0, 1, 2), partition(uuid(1), 1, 1, 2), partition(uuid(1), 2, 1, 2), eligible, known)
	for _, name := range []string{"a", ""} {
		after := replayAll(t, img, &record.ClearELR{TopicName: name})
		for id, want := range []protocol.PartitionEpoch{2, 2, 0} {
			topic, _ := after.Topic("a")
			p, _ := topic.Partition(int32(id))
			if p.PartitionEpoch != want || len(p.ELR)+len(p.LastKnownELR) > 0 {
				t.Errorf("topic %q, partition %d: %+v, want epoch %d and nobody eligible", name, id, p, want)
			}
		}
	}
}

func TestDeletedTopicTakesItsConfigs(t *testing.T) {
	value := "1000"
	img := replayAll(
		t, Empty(),
		&record.Topic{Name: "a", TopicID: uuid(1)}, partition(uuid(1), 0, 7),
		&record.Config{ResourceType: ResourceTopic, ResourceName: "a", Name: "retention.ms", Value: &value},
		&record.RemoveTopic{TopicID: uuid(1)},
		&record.Topic{Name: "a", TopicID: uuid(2)}, partition(uuid(2), 0, 7),
	)
	if v, ok := img.Config(Resource{ResourceTopic, "a"}, "retention.ms"); ok {
		t.Errorf("the re-created topic has retention.ms=%s of the old one", v)
	}
	for topic := range img.PartitionsOn(7) {
		if topic.ID != uuid(2) {
			t.Errorf("broker 7 still holds topic id %s", topic.ID)
		}
	}
}

func TestReplayNamesWhatDoesNotFit(t *testing.T) {
	img := replayAll(
		t, Empty(),
		&record.Topic{Name: "a", TopicID: uuid(1)}, partition(uuid(1), 0, 1),
		&record.RegisterBroker{BrokerID: 1, BrokerEpoch: 5},
	)
	for _, c := range []struct {
		rec  record.Record
		want string
	}{
		{&record.Topic{Name: "a", TopicID: uuid(9)}, `topic "a" exists already`},
		{&record.Topic{Name: "b", TopicID: uuid(1)}, `belongs to topic "a"`},
		{&record.RemoveTopic{TopicID: uuid(9)}, "is unknown"},
		{partition(uuid(9), 0, 1), "is unknown"},
		{partition(uuid(1), 2, 1), "has 1 partitions, the record is of partition 2"},
		{record.NewPartitionChange(uuid(1), 1), "has no partition 1"},
		{&record.BrokerRegistrationChange{BrokerID: 2, BrokerEpoch: 5}, "broker 2 is not registered"},
		{&record.BrokerRegistrationChange{BrokerID: 1, BrokerEpoch: 4}, "registered with epoch 5, the record has 4"},
		{&record.UnregisterBroker{BrokerID: 1, BrokerEpoch: 4}, "registered with epoch 5"},
		{&record.ClearELR{TopicName: "zz"}, `topic "zz" is unknown`},
		{&record.RemoveAccessControlEntry{ACLID: uuid(9)}, "is unknown"},
	} {
		err := NewDelta(img).Replay(c.rec)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("replay of %T: error %v, want one with %q", c.rec, err, c.want)
		}
	}
}

func TestChangedPartitionsAcrossChunks(t *testing.T) {
	recs := []record.Record{&record.Topic{Name: "a", TopicID: uuid(1)}}
	for i := range int32(3*chunkSize + 5) {
		recs = append(recs, partition(uuid(1), i, 1))
	}
	img := replayAll(t, Empty(), recs...)

	d := NewDelta(img)
	touched := []int32{1, chunkSize, 3 * chunkSize}
	for _, id := range touched {
		if err := d.Replay(record.NewPartitionChange(uuid(1), id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Replay(partition(uuid(1), 3*chunkSize+5, 1)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for change := range d.ChangedTopics() {
		for before, after := range change.Partitions() {
			got = append(got, fmt.Sprintf("%d new=%t", after.ID, before == nil))
		}
	}
	want := []string{"1 new=false", "64 new=false", "192 new=false", "197 new=true"}
	if !slices.Equal(got, want) {
		t.Errorf("changed partitions %v, want %v", got, want)
	}
}

// TestRebuiltImageIsEqual replays random records and checks at every step that
// the image before is what it was, that Records rebuilds the image after
// (invariant 8), and that the table of placements agrees with the topics.
func TestRebuiltImageIsEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		img := Empty()
		nextTopic := byte(1)
		for range rapid.IntRange(1, 25).Draw(t, "batches") {
			before := img.Digest()
			d := NewDelta(img)
			n := rapid.IntRange(1, 6).Draw(t, "records")
			for range n {
				rec := drawRecord(t, d, &nextTopic)
				if err := d.Replay(rec); err != nil {
					t.Fatalf("replay %T: %v", rec, err)
				}
			}
			next := d.Apply(img.Offset()+int64(n), 1, 0)
			if got := img.Digest(); got != before {
				t.Fatalf("the published image changed: %s, then %s", before, got)
			}
			img = next

			rebuilt := NewDelta(Empty())
			for rec := range img.Records() {
				if err := rebuilt.Replay(rec); err != nil {
					t.Fatalf("rebuild %T: %v", rec, err)
				}
			}
			if got := rebuilt.Apply(img.Offset(), 1, 0); got.Digest() != img.Digest() {
				t.Fatalf("the rebuilt image differs")
			}
			checkPlacements(t, img)
		}
	})
}

func drawRecord(t *rapid.T, d *Delta, nextTopic *byte) record.Record {
	now := d.Apply(0, 0, 0)
	var topics []*Topic
	for topic := range now.Topics() {
		topics = append(topics, topic)
	}
	replicas := rapid.SliceOfNDistinct(rapid.Int32Range(1, 5), 1, 3, rapid.ID[int32])
	nodes := func(label string) (out []protocol.NodeID) {
		for _, r := range replicas.Draw(t, label) {
			out = append(out, protocol.NodeID(r))
		}
		return out
	}
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if len(topics) == 0 && kind < 4 {
		kind = 4
	}
	switch kind {
	case 0:
		topic := rapid.SampledFrom(topics).Draw(t, "topic")
		return partition(topic.ID, int32(topic.NumPartitions()), nodes("replicas")...)
	case 1, 2:
		topic := rapid.SampledFrom(topics).Draw(t, "topic")
		if topic.NumPartitions() == 0 {
			return partition(topic.ID, 0, nodes("replicas")...)
		}
		change := record.NewPartitionChange(topic.ID, rapid.Int32Range(0, int32(topic.NumPartitions()-1)).Draw(t, "partition"))
		change.Replicas = nodes("replicas")
		change.Directories = make([]protocol.UUID, len(change.Replicas))
		change.ISR = change.Replicas[:1]
		change.Leader = change.Replicas[0]
		return change
	case 3:
		return &record.RemoveTopic{TopicID: rapid.SampledFrom(topics).Draw(t, "topic").ID}
	case 4:
		id := *nextTopic
		*nextTopic++
		return &record.Topic{Name: fmt.Sprint("t", id), TopicID: uuid(id)}
	case 5:
		rec := &record.Config{ResourceType: ResourceBroker, Name: fmt.Sprint("k", rapid.IntRange(0, 3).Draw(t, "key"))}
		if rapid.Bool().Draw(t, "set") {
			value := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "value"))
			rec.Value = &value
		}
		return rec
	case 6:
		return drawQuota(t)
	case 7:
		return drawCredential(t)
	case 8:
		return drawACL(t, now)
	default:
		return &record.FeatureLevel{Name: fmt.Sprint("f", rapid.IntRange(0, 2).Draw(t, "feature")), Level: int16(rapid.IntRange(0, 2).Draw(t, "level"))}
	}
}

func drawQuota(t *rapid.T) record.Record {
	q := &record.ClientQuota{Key: fmt.Sprint("q", rapid.IntRange(0, 2).Draw(t, "key"))}
	for _, kind := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"user", "client-id"}), 1, 2, rapid.ID).Draw(t, "types") {
		part := record.QuotaEntity{Type: kind}
		if rapid.Bool().Draw(t, "named") {
			name := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name")
			part.Name = &name
		}
		q.Entity = append(q.Entity, part)
	}
	if q.Remove = rapid.Bool().Draw(t, "remove"); !q.Remove {
		q.Value = float64(rapid.IntRange(1, 5).Draw(t, "value"))
	}
	return q
}

func drawCredential(t *rapid.T) record.Record {
	name := rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user")
	mechanism := rapid.Int8Range(1, 2).Draw(t, "mechanism")
	return rapid.SampledFrom([]record.Record{
		&record.UserScramCredential{Name: name, Mechanism: mechanism, Salt: []byte{1}, Iterations: rapid.Int32Range(4096, 4099).Draw(t, "iterations")},
		&record.RemoveUserScramCredential{Name: name, Mechanism: mechanism},
		&record.DelegationToken{TokenID: name, Owner: "User:" + name, MaxTimestampMs: int64(mechanism)},
		&record.RemoveDelegationToken{TokenID: name},
		&record.ZKMigrationState{State: mechanism},
	}).Draw(t, "record")
}

func drawACL(t *rapid.T, now *Image) record.Record {
	id := uuid(rapid.ByteRange(1, 5).Draw(t, "acl"))
	if _, ok := now.ACL(id); ok && rapid.Bool().Draw(t, "remove") {
		return &record.RemoveAccessControlEntry{ACLID: id}
	}
	return &record.AccessControlEntry{ACLID: id, ResourceName: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "resource")}
}

func checkPlacements(t *rapid.T, img *Image) {
	for broker := protocol.NodeID(1); broker <= 5; broker++ {
		want := map[string]bool{}
		for topic := range img.Topics() {
			for p := range topic.Partitions() {
				if slices.Contains(p.Replicas, broker) {
					want[fmt.Sprint(topic.Name, p.ID)] = true
				}
			}
		}
		n := 0
		for topic, p := range img.PartitionsOn(broker) {
			n++
			if !want[fmt.Sprint(topic.Name, p.ID)] {
				t.Fatalf("broker %d is said to hold %s-%d", broker, topic.Name, p.ID)
			}
		}
		if n != len(want) {
			t.Fatalf("broker %d holds %d partitions, the table says %d", broker, len(want), n)
		}
	}
}

// TestDeltasOfOneImageRunSideBySide is for the race detector: the controller
// and the replay goroutine both derive from the image that others read.
func TestDeltasOfOneImageRunSideBySide(t *testing.T) {
	img := replayAll(t, Empty(), &record.Topic{Name: "a", TopicID: uuid(1)}, partition(uuid(1), 0, 1))
	var wg sync.WaitGroup
	for i := range byte(4) {
		wg.Go(func() {
			d := NewDelta(img)
			for range 50 {
				if err := d.Replay(record.NewPartitionChange(uuid(1), 0)); err != nil {
					t.Error(err)
				}
				_ = d.Apply(10, 1, 0)
			}
			if err := d.Replay(&record.Topic{Name: fmt.Sprint(i), TopicID: uuid(i + 2)}); err != nil {
				t.Error(err)
			}
			img.Digest()
		})
	}
	wg.Wait()
	if img.NumTopics() != 1 {
		t.Errorf("the shared image has %d topics", img.NumTopics())
	}
}

// Whole says what a replay of the image's records says.
func TestWhole(t *testing.T) {
	img := replayAll(t, Empty(),
		&record.FeatureLevel{Name: "metadata.version", Level: 20},
		&record.RegisterBroker{BrokerID: 1}, &record.RegisterBroker{BrokerID: 2},
		&record.Topic{Name: "b", TopicID: uuid(1)}, partition(uuid(1), 0, 1, 2), partition(uuid(1), 1, 2),
		&record.Topic{Name: "a", TopicID: uuid(2)}, partition(uuid(2), 0, 2),
		&record.Config{ResourceType: ResourceTopic, ResourceName: "a", Name: "k", Value: new(string)},
	)
	replayed := NewDelta(Empty())
	for rec := range img.Records() {
		if err := replayed.Replay(rec); err != nil {
			t.Fatal(err)
		}
	}
	if whole, want := describeDelta(Whole(img)), describeDelta(replayed); whole != want {
		t.Errorf("%s\nwant\n%s", whole, want)
	}
	if whole := describeDelta(Whole(Empty())); whole != describeDelta(NewDelta(Empty())) {
		t.Errorf("of nothing: %s", whole)
	}
}

func describeDelta(d *Delta) string {
	var out strings.Builder
	for topic := range d.ChangedTopics() {
		fmt.Fprintln(&out, topic.Name, topic.ID, topic.Old == nil)
		for before, after := range topic.Partitions() {
			fmt.Fprintln(&out, before, *after)
		}
	}
	for before, after := range d.ChangedBrokers() {
		fmt.Fprintln(&out, before, *after)
	}
	for res := range d.ChangedConfigs() {
		fmt.Fprintln(&out, res)
	}
	fmt.Fprintln(&out, d.FeaturesChanged(), d.Apply(9, 1, 1).Digest())
	return out.String()
}

// A change costs a path of each table, not the tables: fifty times the partitions
// are a level more at most.
func TestChangesDoNotGrow(t *testing.T) {
	cost := func(topics int) float64 {
		var recs []record.Record
		id := func(i int) protocol.UUID {
			return protocol.UUID{1, byte(i * 163 >> 8), byte(i * 163), byte(i >> 8), byte(i)}
		}
		for i := range topics {
			recs = append(recs, &record.Topic{Name: fmt.Sprint("topic-", i), TopicID: id(i)})
			for p := range int32(10) {
				recs = append(recs, partition(id(i), p, 1, 2, 3))
			}
		}
		img := replayAll(t, Empty(), recs...)
		n := 0
		return testing.AllocsPerRun(200, func() {
			n++
			at := id(n * 7 % topics)
			change := record.NewPartitionChange(at, int32(n%10))
			change.ISR = []protocol.NodeID{1}
			replayAll(t, img, change, &record.Topic{Name: "new", TopicID: uuid(3)}, partition(uuid(3), 0, 1, 2, 3),
				&record.Config{ResourceType: ResourceTopic, ResourceName: "new", Name: "k", Value: new(string)},
				&record.RemoveTopic{TopicID: at})
		})
	}
	small, large := cost(100), cost(5000)
	if large > 1.5*small {
		t.Errorf("changes take %.0f allocations with 1,000 partitions and %.0f with 50,000", small, large)
	}
}

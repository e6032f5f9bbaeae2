package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// step returns a few records that fit the image.
func step(rng *rand.Rand, img *metadata.Image) []record.Record {
	n := rng.IntN(6)
	name := fmt.Sprintf("topic-%d", n)
	topic, exists := img.Topic(name)
	broker, registered := img.Broker(protocol.NodeID(n))
	value := fmt.Sprint(rng.IntN(3))
	switch pick := rng.IntN(13); {
	case pick == 0:
		return []record.Record{&record.FeatureLevel{Name: name, Level: int16(rng.IntN(3))}}
	case pick == 1:
		return []record.Record{&record.RegisterBroker{BrokerID: protocol.NodeID(n), BrokerEpoch: protocol.BrokerEpoch(rng.Int64N(9))}}
	case pick == 2 && registered:
		return []record.Record{&record.UnregisterBroker{BrokerID: broker.ID, BrokerEpoch: broker.Epoch}}
	case pick == 3:
		return []record.Record{&record.RegisterController{ControllerID: protocol.NodeID(n)}}
	case pick == 4 && exists:
		return []record.Record{&record.RemoveTopic{TopicID: topic.ID}}
	case pick == 5 && exists:
		return []record.Record{&record.Partition{TopicID: topic.ID, PartitionID: int32(topic.NumPartitions()), Replicas: []protocol.NodeID{1}}}
	case pick == 6 && exists && topic.NumPartitions() > 0:
		change := record.NewPartitionChange(topic.ID, int32(rng.IntN(topic.NumPartitions())))
		change.Leader = protocol.NodeID(n)
		return []record.Record{change}
	case pick == 7:
		c := &record.Config{ResourceType: metadata.ResourceTopic, ResourceName: name, Name: "key-" + value}
		if rng.IntN(3) > 0 {
			c.Value = &value
		}
		return []record.Record{c}
	case pick == 8:
		return []record.Record{&record.ProducerIDs{NextProducerID: img.NextProducerID() + 1000}}
	case pick == 9:
		return []record.Record{&record.ClientQuota{
			Entity: []record.QuotaEntity{{Type: "user", Name: &name}}, Key: value, Value: float64(n), Remove: n == 0,
		}}
	case pick == 10:
		id := protocol.UUID{15: byte(n)}
		if _, ok := img.ACL(id); ok {
			return []record.Record{&record.RemoveAccessControlEntry{ACLID: id}}
		}
		return []record.Record{&record.AccessControlEntry{ACLID: id, ResourceName: value}}
	case pick == 11 && n < 3:
		return []record.Record{&record.RemoveUserScramCredential{Name: value, Mechanism: 1}, &record.RemoveDelegationToken{TokenID: value}}
	case pick == 11:
		return []record.Record{
			&record.UserScramCredential{Name: value, Mechanism: 1, Iterations: int32(n)},
			&record.DelegationToken{TokenID: value, Owner: name},
		}
	case !exists:
		return []record.Record{
			&record.Topic{Name: name, TopicID: protocol.UUID{0: byte(rng.IntN(255)), 1: byte(rng.IntN(255)), 15: byte(n)}},
		}
	}
	return []record.Record{&record.NoOp{}}
}

func walk(t *testing.T, rng *rand.Rand, img *metadata.Image, steps int) *metadata.Image {
	t.Helper()
	for range steps {
		delta := metadata.NewDelta(img)
		for _, rec := range step(rng, img) {
			if err := delta.Replay(rec); err != nil {
				t.Fatal(err)
			}
		}
		img = delta.Apply(img.Offset()+1, 1, 0)
	}
	return img
}

// The difference between an image and a later one, or one of another history,
// leads from the one to what the other holds.
func TestDifferenceLeadsToTheTarget(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		from := walk(t, rng, metadata.Empty(), rng.IntN(60))
		to := walk(t, rng, from, rng.IntN(60))
		if seed%5 == 0 {
			to = walk(t, rng, metadata.Empty(), rng.IntN(60))
		}
		delta, err := difference(from, to)
		if err != nil {
			// Partitions never go but with their topic, producer ids never at all.
			if seed%5 == 0 {
				continue
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := delta.Apply(to.Offset(), to.Epoch(), to.TimestampMs())
		if seed%5 == 0 && (to.NextProducerID() == 0) {
			continue
		}
		if got.Digest() != to.Digest() {
			t.Fatalf("seed %d: from\n%s\nto\n%s\ngot\n%s", seed, printImage(from), printImage(to), printImage(got))
		}
		again, err := difference(got, to)
		if err != nil {
			t.Fatal(err)
		}
		if topics := slices.Collect(again.ChangedTopics()); len(topics) != 0 || again.FeaturesChanged() {
			t.Fatalf("seed %d: equal images differ in %v", seed, topics)
		}
	}
}

// Snapshots are written, and subscribers come, while entries are applied. For
// the race detector.
func TestSnapshotWhileApplying(t *testing.T) {
	w := newWorld(t)
	w.apply([]raftlog.Entry{w.entry([]string{"topic orders 1", "partition 1 0 replicas=1,2 leader=1"}, 1)})
	var running sync.WaitGroup
	for i := range 20 {
		state, err := w.r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		index := uint64(len(w.entries))
		running.Go(func() {
			defer state.Release()
			sink, err := w.store.Create(raftlog.SnapshotMeta{Index: index, Term: 1})
			if err == nil {
				_, err = state.WriteTo(sink)
				err = errors.Join(err, sink.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
		if i%5 == 0 {
			running.Go(func() { w.r.Subscribe(&counter{}) })
		}
		for range 5 {
			w.apply([]raftlog.Entry{w.entry([]string{fmt.Sprintf("change 1 0 leader=%d", 1+i%2)}, 1)})
		}
	}
	running.Wait()
	if got, want := w.r.Image().Offset(), int64(101); got != want {
		t.Errorf("image at offset %d, want %d", got, want)
	}
}

// counter checks the order of what it is told.
type counter struct{ last *metadata.Image }

func (c *counter) Publish(delta *metadata.Delta, img *metadata.Image) {
	if c.last != nil && (delta.Base() != c.last || img.Offset() <= c.last.Offset()) {
		panic(fmt.Sprintf("told of offset %d after %d", img.Offset(), c.last.Offset()))
	}
	c.last = img
}

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/klamm/klamm/protocol"
)

// errUnanswered says that a request may have been carried out or not.
var errUnanswered = errors.New("no answer")

// keeper does one thing after the other to something that is its own, and so
// knows what the node must say of it.
type keeper interface {
	// step does one thing.
	step(ctx context.Context) error
	// check compares what the node says with what was acknowledged, and with
	// what was asked for without an answer. It takes over what it finds.
	check(ctx context.Context) error
}

// promise is a state that the node has acknowledged, or a change of it that was
// not answered.
type promise[S comparable] struct {
	acked, asked S
	open         bool // asked was not answered
}

func (p *promise[S]) ask(s S) { p.asked, p.open = s, true }
func (p *promise[S]) ack()    { p.acked, p.open = p.asked, false }

// saw compares what is there now.
func (p *promise[S]) saw(s S) error {
	if s != p.acked && (!p.open || s != p.asked) {
		if p.open {
			return fmt.Errorf("is %+v; acknowledged is %+v, %+v was asked for and not answered", s, p.acked, p.asked)
		}
		return fmt.Errorf("is %+v; acknowledged is %+v", s, p.acked)
	}
	p.acked, p.open = s, false
	return nil
}

// keepers run keepers beside each other.
type keepers struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	t      *testing.T
	steps  []*atomic.Int64
}

func startKeepers(t *testing.T, address string, seed uint64, writers []*writer) *keepers {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keepers{cancel: cancel, t: t}
	t.Cleanup(k.stop)
	run := func(i uint64, make func(keeping) keeper) {
		rnd := rand.New(rand.NewPCG(seed, i))
		k.run(ctx, make(keeping{newAsker(t, address), rnd, i}))
	}
	createTopic(t, address, "committed", 3)
	for i := range uint64(6) {
		run(i, func(k keeping) keeper { return newOffsetsKeeper(k, "committed") })
	}
	for i := range uint64(2) {
		run(100+i, func(k keeping) keeper { return &topicKeeper{keeping: k, name: fmt.Sprintf("churn-%d", i)} })
	}
	createTopic(t, address, "trimmed", 2, "segment.ms", "100")
	for i := range uint64(2) {
		run(200+i, func(k keeping) keeper { return &trimKeeper{keeping: k, topic: "trimmed", partition: int32(i)} })
	}
	run(300, func(k keeping) keeper { return &producerKeeper{keeping: k, topic: "killed", writers: writers} })
	return k
}

// run has a keeper step until it is stopped, and check after every step that
// was not answered.
func (k *keepers) run(ctx context.Context, who keeper) {
	steps := new(atomic.Int64)
	k.steps = append(k.steps, steps)
	k.done.Go(func() {
		err := errUnanswered // so that it begins with a check
		for since := time.Now(); ctx.Err() == nil; {
			if err == nil {
				if err = who.step(ctx); err == nil {
					steps.Add(1)
					since = time.Now()
				}
			}
			if errors.Is(err, errUnanswered) && ctx.Err() == nil {
				time.Sleep(2 * time.Millisecond)
				if err = who.check(ctx); errors.Is(err, errUnanswered) && time.Since(since) < patience {
					continue
				}
			}
			if err != nil && ctx.Err() == nil {
				k.t.Errorf("%T: %v", who, err)
				return
			}
		}
	})
}

// waitForMore waits until every keeper has made some steps.
func (k *keepers) waitForMore(steps int64) {
	k.t.Helper()
	var before []int64
	for _, s := range k.steps {
		before = append(before, s.Load())
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(k.steps, func(s *atomic.Int64) bool { return s.Load() < before[slices.Index(k.steps, s)]+steps }) {
			return
		}
		if k.t.Failed() {
			k.t.FailNow()
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("a keeper does not get on")
		}
	}
}

func (k *keepers) total() (n int64) {
	for _, s := range k.steps {
		n += s.Load()
	}
	return n
}

func (k *keepers) stop() {
	k.cancel()
	k.done.Wait()
}

// asker sends requests to a node that may be killed, each once.
type asker struct{ c *kgo.Client }

func newAsker(t *testing.T, address string) asker {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9) // later ones name topics by id
	versions.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 9)
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 12)
	return asker{client(t, address, kgo.MaxVersions(versions), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))}
}

func ask[R kmsg.Response](ctx context.Context, a asker, req kmsg.Request) (R, error) {
	resp, err := a.c.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		var none R
		return none, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return resp.(R), nil
}

// settled tells of a code that answers the question. Those of a node that
// starts or stops do not.
func settled(what string, code int16, allowed ...protocol.Error) error {
	switch err := protocol.Error(code); {
	case code == 0 || slices.Contains(allowed, err):
		return nil
	case err == protocol.ErrCoordinatorLoadInProgress, err == protocol.ErrCoordinatorNotAvailable, err == protocol.ErrNotCoordinator,
		err == protocol.ErrLeaderNotAvailable, err == protocol.ErrNotLeaderForPartition, err == protocol.ErrNotController,
		err == protocol.ErrRequestTimedOut, err == protocol.ErrInvalidReplicationFactor: // the last: a broker that stops is given nothing
		return fmt.Errorf("%s: %w: %w", what, errUnanswered, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// keeping is what keepers have in common.
type keeping struct {
	asker
	rnd *rand.Rand
	id  uint64
}

// offsetsKeeper commits and deletes the offsets of a group without members.
type offsetsKeeper struct {
	keeping
	group, topic string
	next         int64
	committed    promise[[3]int64] // per partition; −1: none
}

func newOffsetsKeeper(k keeping, topic string) *offsetsKeeper {
	o := &offsetsKeeper{keeping: k, group: fmt.Sprintf("offsets-%d", k.id), topic: topic}
	o.committed.acked = [3]int64{-1, -1, -1}
	return o
}

func (k *offsetsKeeper) step(ctx context.Context) error {
	wanted := k.committed.acked
	switch k.rnd.IntN(20) {
	case 0:
		if wanted == [3]int64{-1, -1, -1} {
			return nil
		}
		k.committed.ask([3]int64{-1, -1, -1})
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{k.group}
		resp, err := ask[*kmsg.DeleteGroupsResponse](ctx, k.asker, req)
		if err == nil {
			err = settled("deletion of "+k.group, resp.Groups[0].ErrorCode)
		}
		return k.done(err)
	case 1:
		p := k.rnd.IntN(3)
		if wanted == [3]int64{-1, -1, -1} {
			return nil
		}
		wanted[p] = -1
		k.committed.ask(wanted)
		partition := kmsg.NewOffsetDeleteRequestTopicPartition()
		partition.Partition = int32(p)
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic, topic.Partitions = k.topic, append(topic.Partitions, partition)
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group, req.Topics = k.group, append(req.Topics, topic)
		resp, err := ask[*kmsg.OffsetDeleteResponse](ctx, k.asker, req)
		if err == nil {
			err = settled("deletion of an offset", resp.ErrorCode)
		}
		if err == nil {
			err = settled("deletion of an offset", resp.Topics[0].Partitions[0].ErrorCode)
		}
		return k.done(err)
	default:
		return k.commit(ctx)
	}
}

// commit commits offsets of some partitions, which come together or not at all.
func (k *offsetsKeeper) commit(ctx context.Context) error {
	wanted := k.committed.acked
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = k.topic
	for p := range wanted {
		if k.rnd.IntN(2) == 0 {
			continue
		}
		k.next++
		wanted[p] = k.next
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = int32(p), k.next
		topic.Partitions = append(topic.Partitions, partition)
	}
	if len(topic.Partitions) == 0 {
		return nil
	}
	k.committed.ask(wanted)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Topics = k.group, -1, append(req.Topics, topic)
	resp, err := ask[*kmsg.OffsetCommitResponse](ctx, k.asker, req)
	if err == nil {
		for _, p := range resp.Topics[0].Partitions {
			if err == nil {
				err = settled("commit of "+k.group, p.ErrorCode)
			}
		}
	}
	return k.done(err)
}

func (k *offsetsKeeper) done(err error) error {
	if err == nil {
		k.committed.ack()
	}
	return err
}

func (k *offsetsKeeper) check(ctx context.Context) error {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = k.group
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.Partitions = k.topic, []int32{0, 1, 2}
	g.Topics = append(g.Topics, topic)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	resp, err := ask[*kmsg.OffsetFetchResponse](ctx, k.asker, req)
	if err == nil {
		err = settled("offsets of "+k.group, resp.Groups[0].ErrorCode)
	}
	if err != nil {
		if find := kmsg.NewPtrFindCoordinatorRequest(); k.next == 0 { // makes the offsets topic
			find.CoordinatorKeys = []string{k.group}
			_, _ = ask[*kmsg.FindCoordinatorResponse](ctx, k.asker, find)
		}
		return err
	}
	var found [3]int64
	for _, p := range resp.Groups[0].Topics[0].Partitions {
		if err := settled("offset", p.ErrorCode); err != nil {
			return err
		}
		found[p.Partition] = p.Offset
	}
	if err := k.committed.saw(found); err != nil {
		return fmt.Errorf("%s %w", k.group, err)
	}
	return nil
}

// producerKeeper looks whether the leaders remember the producers of the
// writers, up to what was acknowledged.
type producerKeeper struct {
	keeping
	topic   string
	writers []*writer
}

func (k *producerKeeper) step(ctx context.Context) error {
	p := int32(k.rnd.IntN(len(k.writers)))
	producer, last := k.writers[p].progress(p)
	if producer < 0 {
		return nil
	}
	found, err := lastSequence(ctx, k.asker, k.topic, p, producer)
	if err == nil && found < last {
		err = fmt.Errorf("partition %d remembers producer %d up to sequence %d; %d is acknowledged", p, producer, found, last)
	}
	return err
}

func (k *producerKeeper) check(ctx context.Context) error { return k.step(ctx) }

// lastSequence is the last sequence that a leader remembers of a producer, −1
// where it knows none.
func lastSequence(ctx context.Context, a asker, topic string, partition int32, producer int64) (int, error) {
	asked := kmsg.NewDescribeProducersRequestTopic()
	asked.Topic, asked.Partitions = topic, []int32{partition}
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = append(req.Topics, asked)
	resp, err := ask[*kmsg.DescribeProducersResponse](ctx, a, req)
	if err != nil {
		return -1, err
	}
	p := resp.Topics[0].Partitions[0]
	if err := settled("DescribeProducers", p.ErrorCode); err != nil {
		return -1, err
	}
	for _, active := range p.ActiveProducers {
		if active.ProducerID == producer {
			return int(active.LastSequence), nil
		}
	}
	return -1, nil
}

// checkProducer wants a leader to remember a producer that has stopped up to
// what is in the log.
func checkProducer(t *testing.T, address, topic string, partition int32, w *writer) {
	t.Helper()
	producer, last := w.progress(partition)
	found, err := lastSequence(within(t, patience), newAsker(t, address), topic, partition, producer)
	if err != nil || found < last {
		t.Errorf("%s-%d remembers producer %d up to sequence %d (%v); %d is acknowledged", topic, partition, producer, found, err, last)
	}
}

package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

func TestNextISR(t *testing.T) {
	now := time.Unix(100, 0)
	ago := func(s int) time.Time { return now.Add(time.Duration(-s) * time.Second) }
	epochs := map[protocol.NodeID]protocol.BrokerEpoch{1: 11, 2: 12, 3: 13}
	base := isrInput{
		local: 1, highWatermark: 50, epochStart: 40, leo: 60, now: now, maxLag: 30 * time.Second,
		lives: func(id protocol.NodeID) (protocol.BrokerEpoch, bool) { e, ok := epochs[id]; return e, ok },
	}
	two := func(leo int64, epoch protocol.BrokerEpoch, caughtUp time.Time) follower {
		return follower{id: 2, leo: leo, epoch: epoch, caughtUp: caughtUp}
	}
	for _, tc := range []struct {
		name      string
		committed []protocol.NodeID
		follower  follower
		change    func(*isrInput)
		want      []protocol.NodeID
	}{
		{"stays", []protocol.NodeID{1, 2}, two(55, 12, ago(10)), nil, []protocol.NodeID{1, 2}},
		{"lags", []protocol.NodeID{1, 2}, two(55, 12, ago(31)), nil, []protocol.NodeID{1}},
		{"idle at the end", []protocol.NodeID{1, 2}, two(60, 12, ago(99)), nil, []protocol.NodeID{1, 2}},
		{"comes in", []protocol.NodeID{1}, two(50, 12, ago(0)), nil, []protocol.NodeID{1, 2}},
		{"below the high watermark", []protocol.NodeID{1}, two(49, 12, ago(0)), nil, []protocol.NodeID{1}},
		{"below the start of the epoch", []protocol.NodeID{1}, two(50, 12, ago(0)), func(in *isrInput) { in.epochStart = 51 }, []protocol.NodeID{1}},
		// B051: it asked before it lost its disk.
		{"an earlier life of its broker", []protocol.NodeID{1}, two(60, 9, ago(0)), nil, []protocol.NodeID{1}},
		{"a broker that tells no epoch", []protocol.NodeID{1}, two(60, -1, ago(0)), nil, []protocol.NodeID{1, 2}},
		{"fenced", []protocol.NodeID{1}, follower{id: 4, leo: 60, epoch: 14}, nil, []protocol.NodeID{1}},
		{"nothing heard of", []protocol.NodeID{1}, two(unknownLEO, -1, time.Time{}), func(in *isrInput) { in.highWatermark, in.epochStart = 0, 0 }, []protocol.NodeID{1}},
		{"comes in before the others", []protocol.NodeID{1, 3}, two(50, 12, ago(0)), func(in *isrInput) { in.local = 3 }, []protocol.NodeID{2, 3}},
		{"as it was assigned", []protocol.NodeID{2, 1}, two(60, 12, ago(0)), nil, []protocol.NodeID{2, 1}},
		{"not a replica any more", []protocol.NodeID{1, 3}, two(55, 12, ago(0)), nil, []protocol.NodeID{1, 2}},
	} {
		in := base
		in.committed, in.followers = tc.committed, []follower{tc.follower}
		if tc.change != nil {
			tc.change(&in)
		}
		if got := nextISR(in); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// decider is a controller that answers as it is told.
type decider struct {
	answer func(*kmsg.AlterPartitionRequest) (kmsg.Response, error)
	asked  chan *kmsg.AlterPartitionRequest
}

func (d *decider) Do(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	alter := req.(*kmsg.AlterPartitionRequest)
	d.asked <- alter
	return d.answer(alter)
}

// agree makes an answer of one partition.
func agree(req *kmsg.AlterPartitionRequest, code protocol.Error, partitionEpoch int32) *kmsg.AlterPartitionResponse {
	resp := kmsg.NewPtrAlterPartitionResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewAlterPartitionResponseTopic()
		topic.TopidID = t.TopicID
		for _, p := range t.Partitions {
			answer := kmsg.NewAlterPartitionResponseTopicPartition()
			answer.Partition, answer.ErrorCode, answer.PartitionEpoch = p.Partition, int16(code), partitionEpoch
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// proposing runs a manager of one partition that broker 1 leads, with 2 following.
func proposing(t *testing.T, d *decider, do func(m *Manager, p *Partition, log *fakeLog)) {
	synctest.Test(t, func(t *testing.T) {
		d.asked = make(chan *kmsg.AlterPartitionRequest, 10)
		m := NewManager(Config{Node: 1, ISR: ISRConfig{
			Controller: d, Epoch: func() protocol.BrokerEpoch { return 11 }, MaxLag: 10 * time.Second,
		}}, zerolog.Nop())
		delta := metadata.NewDelta(metadata.Empty())
		for id := range protocol.NodeID(2) {
			if err := delta.Replay(&record.RegisterBroker{BrokerID: id + 1, BrokerEpoch: protocol.BrokerEpoch(id + 11)}); err != nil {
				t.Fatal(err)
			}
		}
		m.image.Store(delta.Apply(20, 1, 0))
		log := &fakeLog{}
		p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &TopicConfig{MinInSyncReplicas: 1}, m)
		p.become(registration(1, 0, 1, 2), actionLead, log, 0)
		m.partitions[partitionKey{p.topicID, 0}] = p
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		do(m, p, log)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func fetchFrom2(t *testing.T, p *Partition, offset int64) {
	t.Helper()
	if _, err := p.Fetch(FetchRequest{Offset: offset, Replica: 2, ReplicaEpoch: 12, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}); err != nil {
		t.Fatal(err)
	}
}

// TestMoreThanOneRequestCarries: what is wanted beyond one request goes into the
// next, also when more comes between the token and the request.
func TestMoreThanOneRequestCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProposer(ISRConfig{Controller: &decider{}}, zerolog.Nop())
		for range mostProposals + 1 {
			p.add(new(Partition))
		}
		<-p.wake
		p.add(new(Partition))
		if n := len(p.take()); n != mostProposals {
			t.Errorf("a request carries %d", n)
		}
		<-p.wake
		if n := len(p.take()); n != 2 {
			t.Errorf("%d were left, not 2", n)
		}
	})
}

// TestISRShrinksAndGrows: a follower that is silent leaves the ISR, which lets the
// high watermark go on once an image shows it; when it is back it comes in.
func TestISRShrinksAndGrows(t *testing.T) {
	d := &decider{answer: func(req *kmsg.AlterPartitionRequest) (kmsg.Response, error) {
		return agree(req, protocol.None, req.Topics[0].Partitions[0].PartitionEpoch+1), nil
	}}
	proposing(t, d, func(_ *Manager, p *Partition, log *fakeLog) {
		mustAppend(t, p, 3)
		req := <-d.asked
		if got := req.Topics[0].Partitions[0]; len(got.NewEpochISR) != 1 || got.NewEpochISR[0].BrokerID != 1 || got.NewEpochISR[0].BrokerEpoch != 11 || req.BrokerEpoch != 11 {
			t.Fatalf("proposed %+v", req)
		}
		synctest.Wait()
		wantHighWatermark(t, p, log, 0) // agreed, but no image has shown it
		after := registration(1, 0, 1, 2)
		after.ISR, after.PartitionEpoch = []protocol.NodeID{1}, 1
		p.become(after, actionUpdate, log, 0)
		wantHighWatermark(t, p, log, 3)

		fetchFrom2(t, p, 2) // not yet
		synctest.Wait()
		if len(d.asked) > 0 {
			t.Fatal("a follower below the high watermark is proposed")
		}
		fetchFrom2(t, p, 3)
		req = <-d.asked
		if got := req.Topics[0].Partitions[0]; len(got.NewEpochISR) != 2 || got.NewEpochISR[1].BrokerEpoch != 12 || got.PartitionEpoch != 1 {
			t.Fatalf("proposed %+v", got)
		}
		synctest.Wait()
		mustAppend(t, p, 1)
		wantHighWatermark(t, p, log, 3) // whoever is proposed counts already
		fetchFrom2(t, p, 4)
		wantHighWatermark(t, p, log, 4)
	})
}

// TestUnknownOutcome: without an answer the same proposal is made again, and
// counts meanwhile; an answer that refuses it for good ends that.
func TestUnknownOutcome(t *testing.T) {
	answers := []func(*kmsg.AlterPartitionRequest) (kmsg.Response, error){
		func(*kmsg.AlterPartitionRequest) (kmsg.Response, error) { return nil, errors.New("timed out") },
		func(*kmsg.AlterPartitionRequest) (kmsg.Response, error) {
			resp := kmsg.NewPtrAlterPartitionResponse()
			resp.ErrorCode = int16(protocol.ErrNotController)
			return resp, nil
		},
		func(req *kmsg.AlterPartitionRequest) (kmsg.Response, error) {
			return agree(req, protocol.ErrIneligibleReplica, 0), nil
		},
	}
	d := &decider{}
	d.answer = func(req *kmsg.AlterPartitionRequest) (kmsg.Response, error) {
		next := answers[0]
		answers = answers[1:]
		return next(req)
	}
	proposing(t, d, func(_ *Manager, p *Partition, log *fakeLog) {
		after := registration(1, 0, 1, 2)
		after.ISR, after.PartitionEpoch = []protocol.NodeID{1}, 1
		p.become(after, actionUpdate, log, 0)
		fetchFrom2(t, p, 0)
		for round := range 3 {
			if req := <-d.asked; len(req.Topics[0].Partitions[0].NewEpochISR) != 2 {
				t.Fatalf("proposed %+v", req)
			}
			if round < 2 { // the third answer may be here already
				mustAppend(t, p, 1)
				wantHighWatermark(t, p, log, 0)
			}
		}
		synctest.Wait()
		wantHighWatermark(t, p, log, log.leo) // refused: the leader is alone again
	})
}

// TestProposalForUnknownTopic: a controller that does not know the topic, because it is
// deleted or because it is none any more, has not refused what another may have taken up:
// it counts until an image shows what became of it.
func TestProposalForUnknownTopic(t *testing.T) {
	for _, code := range []protocol.Error{protocol.ErrUnknownTopicID, protocol.ErrUnknownTopicOrPartition} {
		d := &decider{}
		d.answer = func(req *kmsg.AlterPartitionRequest) (kmsg.Response, error) { return agree(req, code, 0), nil }
		proposing(t, d, func(_ *Manager, p *Partition, log *fakeLog) {
			after := registration(1, 0, 1, 2)
			after.ISR, after.PartitionEpoch = []protocol.NodeID{1}, 1
			p.become(after, actionUpdate, log, 0)
			fetchFrom2(t, p, 0)
			<-d.asked
			synctest.Wait()
			mustAppend(t, p, 1)
			wantHighWatermark(t, p, log, 0)
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := len(d.asked); n != 0 {
				t.Errorf("%v: asked %d times more", code, n)
			}
		})
	}
}

// TestAnswerLost: a proposal was taken up, the answer got lost, and the same one is
// refused for its partition epoch. It is not made for ever (B050 of package
// integration/faults): the image that shows it brings the epoch for the next.
func TestAnswerLost(t *testing.T) {
	d := &decider{}
	lost := false
	d.answer = func(req *kmsg.AlterPartitionRequest) (kmsg.Response, error) {
		p := req.Topics[0].Partitions[0]
		switch {
		case !lost:
			lost = true
			return nil, errors.New("connection reset")
		case p.PartitionEpoch == 0:
			return agree(req, protocol.ErrInvalidUpdateVersion, 0), nil
		}
		return agree(req, protocol.None, p.PartitionEpoch+1), nil
	}
	proposing(t, d, func(_ *Manager, p *Partition, log *fakeLog) {
		mustAppend(t, p, 3)
		for range 2 {
			if got := (<-d.asked).Topics[0].Partitions[0]; len(got.NewEpochISR) != 1 || got.PartitionEpoch != 0 {
				t.Fatalf("proposed %+v", got)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(d.asked); n != 0 {
			t.Errorf("the refused proposal was made %d times more", n)
		}
		after := registration(1, 0, 1, 2)
		after.ISR, after.PartitionEpoch = []protocol.NodeID{1}, 1
		p.become(after, actionUpdate, log, 0)
		fetchFrom2(t, p, 3)
		if got := (<-d.asked).Topics[0].Partitions[0]; len(got.NewEpochISR) != 2 || got.PartitionEpoch != 1 {
			t.Fatalf("proposed %+v", got)
		}
	})
}

package replica

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// Controller is the road to the active controller; *controllerclient.Client is
// one. Do tries until there is an answer or ctx ends.
type Controller interface {
	Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// proposer asks the controller for the ISRs that the leaders here want: one
// request at a time, with all that has come together meanwhile (KIP-497).
type proposer struct {
	cfg ISRConfig
	log zerolog.Logger
	// wake has size 1: a token says that wanted is not empty.
	wake chan struct{}

	mu     sync.Mutex // a leaf
	wanted map[*Partition]struct{}
}

// ISRConfig is what the in-sync sets go by.
type ISRConfig struct {
	// Controller decides. Nil: nobody does, and every ISR stays.
	Controller Controller
	// Epoch is this broker's own.
	Epoch func() protocol.BrokerEpoch
	// MaxLag is replica.lag.time.max.ms: a follower that has not been caught up
	// for so long leaves the ISR.
	MaxLag time.Duration
}

const (
	// proposalTimeout bounds one AlterPartition. When it is over, whether it was
	// decided is unknown, and it is asked again.
	proposalTimeout = 10 * time.Second
	// proposalRetry is waited after a proposal that was not taken up.
	proposalRetry = 50 * time.Millisecond
	// mostProposals bounds one request.
	mostProposals = 5000
)

func newProposer(cfg ISRConfig, log zerolog.Logger) *proposer {
	return &proposer{cfg: cfg, log: log, wake: make(chan struct{}, 1), wanted: make(map[*Partition]struct{})}
}

// add has a partition's ISR looked at soon. The caller may hold its mu.
func (p *proposer) add(partition *Partition) {
	if p.cfg.Controller == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted[partition] = struct{}{}
	p.wakeLocked()
}

func (p *proposer) wakeLocked() {
	select {
	case p.wake <- struct{}{}:
	default: // whoever added meanwhile has left a token
	}
}

// take gives what one request may carry, and a token if there is more.
func (p *proposer) take() []*Partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*Partition
	for partition := range p.wanted {
		if len(out) == mostProposals {
			p.wakeLocked()
			break
		}
		out = append(out, partition)
		delete(p.wanted, partition)
	}
	return out
}

// Run looks for followers that lag and carries proposals to the controller until
// ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	if m.proposer.cfg.Controller == nil {
		<-ctx.Done()
		return nil
	}
	lagging := time.NewTicker(max(m.proposer.cfg.MaxLag/2, time.Millisecond))
	defer lagging.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-lagging.C:
			m.addLagging(now)
		case <-m.proposer.wake:
			select {
			case now := <-lagging.C:
				m.addLagging(now) // it goes with the same request
			default:
			}
			if retry := m.propose(ctx); len(retry) > 0 {
				// Before anything else: what follows depends on it.
				select {
				case <-time.After(proposalRetry):
				case <-ctx.Done():
					return nil
				}
				for _, p := range retry {
					m.proposer.add(p)
				}
			}
		}
	}
}

// addLagging has the ISRs looked at that a member lags behind in.
func (m *Manager) addLagging(now time.Time) {
	for p := range m.Partitions() {
		if p.lags(now, m.proposer.cfg.MaxLag) {
			m.proposer.add(p)
		}
	}
}

// proposal is what one leader wants.
type proposal struct {
	partition      *Partition
	isr, before    []protocol.NodeID
	epochs         []protocol.BrokerEpoch // of the members
	leaderEpoch    protocol.LeaderEpoch
	partitionEpoch protocol.PartitionEpoch
	loss           protocol.Loss // of those who come in
}

// propose carries what is wanted to the controller, and returns what has to be
// asked again.
func (m *Manager) propose(ctx context.Context) (retry []*Partition) {
	img := m.image.Load()
	lives := func(id protocol.NodeID) (protocol.BrokerEpoch, bool) {
		b, ok := img.Broker(id)
		if !ok || b.Fenced || b.InControlledShutdown {
			return 0, false
		}
		return b.Epoch, true
	}
	now := time.Now()
	var proposals []proposal
	for _, p := range m.proposer.take() {
		if want, ok := p.wantISR(now, m.proposer.cfg.MaxLag, lives); ok {
			proposals = append(proposals, want)
		}
	}
	if len(proposals) == 0 {
		return nil
	}
	req := alterPartition(m.cfg.Node, m.proposer.cfg.Epoch(), proposals)
	ctx, cancel := context.WithTimeout(ctx, proposalTimeout)
	defer cancel()
	answer, err := m.proposer.cfg.Controller.Do(ctx, req)
	resp, ok := answer.(*kmsg.AlterPartitionResponse)
	if err != nil || !ok || resp.ErrorCode != 0 {
		if err == nil && ok {
			err = protocol.Error(resp.ErrorCode)
		}
		m.log.Warn().Err(err).Int("partitions", len(proposals)).Msg("the controller did not take up changes of ISRs")
		for _, want := range proposals {
			retry = append(retry, want.partition)
			m.isrs.failed.Add(1)
		}
		return retry
	}
	answers := make(map[partitionKey]*kmsg.AlterPartitionResponseTopicPartition)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			answers[partitionKey{t.TopidID, t.Partitions[j].Partition}] = &t.Partitions[j]
		}
	}
	for _, want := range proposals {
		p := want.partition
		answer, ok := answers[partitionKey{p.topicID, p.tp.Partition}]
		if !ok {
			retry = append(retry, p)
			continue
		}
		code := protocol.Error(answer.ErrorCode)
		m.isrs.took(want, code)
		if p.proposalAnswered(want, code, protocol.PartitionEpoch(answer.PartitionEpoch)) {
			retry = append(retry, p)
		}
		m.log.Info().Str("topic", p.tp.Topic).Int32("partition", p.tp.Partition).
			Ints32("isr", protocol.Int32s(want.isr)).Str("answer", code.Error()).Msg("asked for another ISR")
	}
	return retry
}

// alterPartition is the request. A broker epoch goes with each member, so that a
// later life of it does not come in on the strength of an earlier one (KIP-903).
func alterPartition(node protocol.NodeID, epoch protocol.BrokerEpoch, proposals []proposal) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.BrokerID, req.BrokerEpoch = int32(node), int64(epoch)
	slices.SortFunc(proposals, func(a, b proposal) int {
		return cmp.Or(bytes.Compare(a.partition.topicID[:], b.partition.topicID[:]),
			cmp.Compare(a.partition.tp.Partition, b.partition.tp.Partition))
	})
	for _, want := range proposals {
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = want.partition.tp.Partition, int32(want.leaderEpoch), int32(want.partitionEpoch)
		for i, id := range want.isr {
			member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			member.BrokerID, member.BrokerEpoch = int32(id), int64(want.epochs[i])
			p.NewEpochISR = append(p.NewEpochISR, member)
		}
		p.NewISR = protocol.Int32s(want.isr)
		want.loss.Tag(&p.UnknownTags)
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != want.partition.topicID {
			t := kmsg.NewAlterPartitionRequestTopic()
			t.TopicID = want.partition.topicID
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// lags tells whether a member of the ISR has not been caught up for too long.
func (p *Partition) lags(now time.Time, maxLag time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != roleLeader || p.inSync.proposed != nil {
		return false
	}
	in := isrInput{leo: p.log.LEO(), now: now, maxLag: maxLag}
	return slices.ContainsFunc(p.followers, func(f follower) bool {
		return slices.Contains(p.inSync.committed, f.id) && in.lags(f)
	})
}

// wantISR returns the proposal that the leader has to make, if any, and counts
// its ISR from now on. One that was made and not answered is made again.
func (p *Partition) wantISR(now time.Time, maxLag time.Duration, lives func(protocol.NodeID) (protocol.BrokerEpoch, bool)) (proposal, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != roleLeader {
		return proposal{}, false
	}
	if p.inSync.proposed == nil {
		isr := nextISR(isrInput{
			local: p.local, committed: p.inSync.committed, followers: p.followers,
			highWatermark: p.highWatermark, epochStart: p.epochStart, leo: p.log.LEO(),
			now: now, maxLag: maxLag, lives: lives,
		})
		if slices.Equal(isr, p.inSync.committed) {
			return proposal{}, false
		}
		p.inSync.proposed, p.inSync.epochs = isr, make([]protocol.BrokerEpoch, len(isr))
		for i, id := range isr {
			p.inSync.epochs[i] = -1
			if epoch, ok := lives(id); ok {
				p.inSync.epochs[i] = epoch
			}
		}
	}
	return proposal{
		partition: p, isr: p.inSync.proposed, before: p.inSync.committed, epochs: p.inSync.epochs,
		leaderEpoch: p.leaderEpoch, partitionEpoch: p.partitionEpoch, loss: p.lossLocked(p.inSync.proposed),
	}, true
}

// proposalAnswered takes over what the controller said, and returns whether it
// is to be asked again. What it agreed to counts when an image shows it.
func (p *Partition) proposalAnswered(want proposal, code protocol.Error, partitionEpoch protocol.PartitionEpoch) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != roleLeader || p.leaderEpoch != want.leaderEpoch || p.partitionEpoch != want.partitionEpoch {
		return false // an image has been here since
	}
	switch code {
	case protocol.None:
		if partitionEpoch <= p.partitionEpoch { // it is so already, no image will tell
			p.inSync.proposed = nil
		}
		return false
	case protocol.ErrIneligibleReplica, protocol.ErrInvalidRequest:
		// It was not done, and will not be: what was proposed counts no more. As in
		// Kafka nothing keeps a copy from being taken up that was given up before this
		// one was sent, and comes after it.
		p.inSync.proposed = nil
		p.advanceLocked()
		return false // the follower's next fetch has it looked at again
	case protocol.ErrFencedLeaderEpoch, protocol.ErrInvalidUpdateVersion, protocol.ErrNewLeaderElected,
		protocol.ErrUnknownTopicID, protocol.ErrUnknownTopicOrPartition:
		// The image that says more is on its way. A controller that does not know the
		// topic may be behind one that has taken up the proposal.
		return false
	}
	return true
}

package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// Where a log lies, the store decides where the metadata leave it open, and where
// they name a directory that this broker has no more, since its disk was replaced.
// The controller has to know: it elects nobody whose replica is in a directory that
// the broker does not have (KIP-858).

const (
	// mostAssignments bounds one request.
	mostAssignments = 2000
	// assignmentRetry is waited after a request that was not taken up.
	assignmentRetry = 500 * time.Millisecond
)

// assignments are the replicas of which the controller has to be told where they are.
type assignments struct {
	// wake has size 1: a token says that wanted is not empty.
	wake chan struct{}

	mu     sync.Mutex // a leaf
	wanted map[partitionKey]protocol.UUID
}

// add takes what differs between the metadata and the directories here.
func (a *assignments) add(wanted map[partitionKey]protocol.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.Copy(a.wanted, wanted)
	a.wakeLocked()
}

// again takes back what was not taken up; what has been added since is newer.
func (a *assignments) again(retry map[partitionKey]protocol.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, dir := range retry {
		if _, ok := a.wanted[key]; !ok {
			a.wanted[key] = dir
		}
	}
	a.wakeLocked()
}

func (a *assignments) wakeLocked() {
	if len(a.wanted) == 0 {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default: // whoever added meanwhile has left a token
	}
}

// take gives what one request may carry, and a token if there is more.
func (a *assignments) take() map[partitionKey]protocol.UUID {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[partitionKey]protocol.UUID)
	for key, dir := range a.wanted {
		if len(out) == mostAssignments {
			a.wakeLocked()
			break
		}
		out[key] = dir
		delete(a.wanted, key)
	}
	return out
}

// compareDirectories finds the replicas of a plan that are not where the metadata
// say.
func (m *Manager) compareDirectories(plan plan, img *metadata.Image) {
	if !img.Level().HasDirectories() {
		return
	}
	wanted := make(map[partitionKey]protocol.UUID)
	for _, s := range plan.changed {
		at := slices.Index(s.after.Replicas, m.cfg.Node)
		dir, ok := s.partition.directory()
		if !ok || at < 0 || at < len(s.after.Directories) && s.after.Directories[at] == dir {
			continue
		}
		wanted[partitionKey{s.partition.topicID, s.partition.tp.Partition}] = dir
	}
	m.assignments.add(wanted)
}

// RunAssignments tells the controller where replicas are, until ctx ends.
func (m *Manager) RunAssignments(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.assignments.wake:
		}
		retry := m.assign(ctx, m.assignments.take())
		if len(retry) == 0 {
			continue
		}
		select {
		case <-time.After(assignmentRetry):
		case <-ctx.Done():
			return nil
		}
		m.assignments.again(retry)
	}
}

// assign carries one request, and returns what has to be told again.
func (m *Manager) assign(ctx context.Context, wanted map[partitionKey]protocol.UUID) (retry map[partitionKey]protocol.UUID) {
	if len(wanted) == 0 || m.proposer.cfg.Controller == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proposalTimeout)
	defer cancel()
	answer, err := m.proposer.cfg.Controller.Do(ctx, assignReplicas(m.cfg.Node, m.proposer.cfg.Epoch(), wanted))
	resp, ok := answer.(*kmsg.AssignReplicasToDirsResponse)
	if err == nil && ok && resp.ErrorCode != 0 {
		err = protocol.Error(resp.ErrorCode)
	}
	if err != nil || !ok {
		m.log.Warn().Err(err).Int("partitions", len(wanted)).Msg("the controller did not take note of directories")
		return wanted
	}
	retry = make(map[partitionKey]protocol.UUID)
	for _, d := range resp.Directories {
		for _, t := range d.Topics {
			for _, p := range t.Partitions {
				switch protocol.Error(p.ErrorCode) {
				case protocol.None, protocol.ErrUnknownTopicID, protocol.ErrUnknownTopicOrPartition, protocol.ErrNotLeaderForPartition:
					// It is so, or there is no such replica any more.
				default:
					key := partitionKey{t.TopicID, p.Partition}
					if dir, asked := wanted[key]; asked {
						retry[key] = dir
					}
				}
			}
		}
	}
	m.log.Info().Int("partitions", len(wanted)-len(retry)).Msg("told the controller which directories replicas are in")
	return retry
}

func assignReplicas(node protocol.NodeID, epoch protocol.BrokerEpoch, wanted map[partitionKey]protocol.UUID) *kmsg.AssignReplicasToDirsRequest {
	byTopic := make(map[protocol.UUID]map[protocol.UUID][]int32) // by directory
	for key, dir := range wanted {
		if byTopic[dir] == nil {
			byTopic[dir] = make(map[protocol.UUID][]int32)
		}
		byTopic[dir][key.topic] = append(byTopic[dir][key.topic], key.partition)
	}
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = int32(node), int64(epoch)
	for dir, topics := range byTopic {
		d := kmsg.NewAssignReplicasToDirsRequestDirectory()
		d.ID = dir
		for id, partitions := range topics {
			t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			t.TopicID = id
			slices.Sort(partitions)
			for _, partition := range partitions {
				p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
				p.Partition = partition
				t.Partitions = append(t.Partitions, p)
			}
			d.Topics = append(d.Topics, t)
		}
		req.Directories = append(req.Directories, d)
	}
	return req
}

package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// Log is what a partition asks of its log on disk; *storage.Log is one.
type Log interface {
	AppendAsLeader(batches []byte, epoch protocol.LeaderEpoch, opts storage.AppendOptions) (storage.AppendResult, error)
	AppendAsFollower(batches []byte) (storage.AppendResult, error)
	TruncateTo(offset int64) error
	TruncateFullyAndStartAt(offset int64) error
	LatestEpoch() (protocol.LeaderEpoch, bool)
	Read(offset int64, maxBytes int, limit int64, minOneBatch bool) (*storage.Slice, error)
	LEO() int64
	LogStartOffset() int64
	LastStableOffset(highWatermark int64) int64
	EndOffsetFor(epoch protocol.LeaderEpoch) (protocol.LeaderEpoch, int64)
	EpochFor(offset int64) protocol.LeaderEpoch
	AssignEpoch(epoch protocol.LeaderEpoch, start int64)
	OffsetForTimestamp(timestampMs int64) (storage.TimestampOffset, bool, error)
	OffsetOfMaxTimestamp() (storage.TimestampOffset, bool, error)
	Flush(upTo int64) error
	FlushedTo() int64
	AdvanceLogStart(offset int64) error
	SaveLogStart() error
	ActiveProducers() []storage.ActiveProducer
	// Dir is the log directory that it lies in; nil in tests.
	Dir() *storage.Dir
}

// role is what this broker does for a partition.
type role int8

const (
	// roleNone: nothing yet, or its log could not be opened.
	roleNone role = iota
	roleLeader
	roleFollower
	// roleGone: the replica was deleted. The partition comes back as another
	// Partition, if at all.
	roleGone
)

// Partition is the replica of one partition on this broker. Its methods may be
// called by anybody.
type Partition struct {
	tp      protocol.TopicPartition
	topicID protocol.UUID
	local   protocol.NodeID
	events  events
	traffic *Traffic // of the topic, never nil

	// mu guards everything below. An append holds it, so that no append is under
	// way when the role changes; reads of records take a look under it and then
	// read without it. Lock order: Manager.mu → Partition.mu → storage.Log.mu.
	mu      sync.Mutex
	role    role
	err     error // why there is no log, while role is roleNone
	log     Log
	config  *TopicConfig
	waiters waiterList

	leader         protocol.NodeID
	leaderEpoch    protocol.LeaderEpoch
	partitionEpoch protocol.PartitionEpoch
	// leadingSince is the leader epoch since which this broker leads without a
	// break. What was appended before it may have been truncated since.
	leadingSince protocol.LeaderEpoch
	// epochStart is the LEO at which the leader epoch began.
	epochStart    int64
	highWatermark int64
	// unflushedFrom is the first offset that must be synced before this replica
	// counts as having it, Never where there is none; unflushedTo is the end of
	// the last append that said so (flush.messages).
	unflushedFrom, unflushedTo int64
	replicas                   int // their number, the local one included
	inSync                     inSyncState
	recovery                   int8
	followers                  []follower // the other replicas, while leading
	// adding are replicas that a reassignment brings; reassigning is set while one is
	// under way.
	adding      []protocol.NodeID
	reassigning bool
	// leaderHighWatermark is what the leader said last to this follower.
	leaderHighWatermark int64
}

func newPartition(tp protocol.TopicPartition, topicID protocol.UUID, local protocol.NodeID, config *TopicConfig, events events) *Partition {
	p := &Partition{
		tp: tp, topicID: topicID, local: local, config: config, events: events, traffic: new(Traffic),
		leader: protocol.NoNode, leaderEpoch: -1, partitionEpoch: -1, leadingSince: -1, unflushedFrom: Never,
	}
	p.waiters.init()
	return p
}

// TopicPartition returns the partition's name.
func (p *Partition) TopicPartition() protocol.TopicPartition { return p.tp }

// TopicID returns the id of the partition's topic.
func (p *Partition) TopicID() protocol.UUID { return p.topicID }

// Config returns what applies to the partition's topic now. It is never modified.
func (p *Partition) Config() *TopicConfig {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config
}

// HighWatermark returns the first offset that is not committed as far as this
// replica knows, for the checkpoint; ok is false where there is no log.
func (p *Partition) HighWatermark() (offset int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.highWatermark, p.role == roleLeader || p.role == roleFollower
}

// checkRoleLocked tells whether this replica may be asked as the leader, by
// somebody who believes in the given leader epoch; −1 is no belief.
func (p *Partition) checkRoleLocked(believed protocol.LeaderEpoch) error {
	switch {
	case p.role == roleNone && p.err != nil:
		return fmt.Errorf("%s is offline here: %w", p.tp, protocol.ErrKafkaStorageError)
	case believed >= 0 && believed < p.leaderEpoch:
		return protocol.ErrFencedLeaderEpoch
	case believed >= 0 && believed > p.leaderEpoch:
		return protocol.ErrUnknownLeaderEpoch
	case p.role != roleLeader:
		return protocol.ErrNotLeaderForPartition
	}
	return nil
}

// checkReaderLocked is checkRoleLocked for somebody who may read from a follower, if
// the caller says so.
func (p *Partition) checkReaderLocked(believed protocol.LeaderEpoch, followerToo bool) error {
	err := p.checkRoleLocked(believed)
	if followerToo && p.role == roleFollower && errors.Is(err, protocol.ErrNotLeaderForPartition) {
		return nil
	}
	return err
}

// known is what the next image is compared with.
func (p *Partition) known() known {
	p.mu.Lock()
	defer p.mu.Unlock()
	return known{hosted: true, leaderEpoch: p.leaderEpoch, partitionEpoch: p.partitionEpoch}
}

// openLog returns the partition's log, opening it the first time.
func (p *Partition) openLog(store Store, node protocol.NodeID, after *metadata.Partition) (Log, int64, error) {
	p.mu.Lock()
	log, config := p.log, p.config
	p.mu.Unlock()
	if log != nil {
		return log, 0, nil
	}
	dir := protocol.UnassignedDir
	if i := slices.Index(after.Replicas, node); i >= 0 && i < len(after.Directories) {
		dir = after.Directories[i]
	}
	return store.Open(p.tp, p.topicID, dir, config)
}

// become takes over what the image says of the partition, and the leadership
// where the image gives it to this broker. Log is the partition's log;
// checkpointed is the high watermark that was known when it was opened.
func (p *Partition) become(after *metadata.Partition, act action, log Log, checkpointed int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil {
		p.log, p.err = log, nil
		// A checkpoint may be older than the log start, or newer than what a
		// crash left of the log.
		p.highWatermark = min(max(checkpointed, log.LogStartOffset()), log.LEO())
	}
	wasLeader := p.role == roleLeader
	unclean := p.uncleanLocked(after)
	p.leader, p.leaderEpoch, p.partitionEpoch = after.Leader, after.LeaderEpoch, after.PartitionEpoch
	p.setReplicasLocked(after)
	if err := dirErr(p.log); err != nil {
		p.failLocked(err) // whatever the metadata says, until it says that it moves
		return
	}
	switch act {
	case actionLead:
		p.epochStart = p.log.LEO()
		p.log.AssignEpoch(p.leaderEpoch, p.epochStart)
		if unclean {
			p.events.unclean(p.tp, p.leaderEpoch, p.epochStart)
		}
		if !wasLeader {
			p.leadingSince = p.leaderEpoch
		}
		p.beginLeadingLocked()
		p.beginFollowersLocked(time.Now())
		p.role = roleLeader
		// Whoever waited for a follower's role, or under the old epoch, looks again.
		p.waiters.wakeAll()
	case actionFollow:
		if broken == brokenTruncate {
			_ = p.log.TruncateTo(p.highWatermark)
		}
		p.role = roleFollower
		p.followers = nil
		// What it appended may be truncated now, so no sync will reach its end.
		p.unflushedFrom, p.unflushedTo = Never, 0
		p.waiters.wakeAll()
	case actionUpdate:
		p.waiters.wakeWatches() // the ISR may be another
	default:
		panic(fmt.Sprintf("replica: %s cannot %s", p.tp, act))
	}
	if p.role == roleLeader {
		p.advanceLocked()
	}
}

// beginFollowersLocked starts a leader epoch, in which nothing is known of the
// followers yet. Those in the ISR get the time that they may lag to be heard of.
func (p *Partition) beginFollowersLocked(now time.Time) {
	for i := range p.followers {
		f := &p.followers[i]
		*f = follower{id: f.id, leo: unknownLEO, epoch: -1}
		if slices.Contains(p.inSync.committed, f.id) {
			f.caughtUp = now
		}
	}
}

// setReplicasLocked takes over assignment and ISR. What is known of a follower
// that stays is kept.
func (p *Partition) setReplicasLocked(after *metadata.Partition) {
	known := p.followers
	p.followers = make([]follower, 0, max(0, len(after.Replicas)-1))
	for _, id := range after.Replicas {
		if id == p.local {
			continue
		}
		next := follower{id: id, leo: unknownLEO, epoch: -1}
		for _, f := range known {
			if f.id == id {
				next = f
			}
		}
		if slices.Contains(after.ISR, id) {
			next.loss = protocol.Loss{} // it has been told
		}
		p.followers = append(p.followers, next)
	}
	p.replicas = len(after.Replicas)
	p.inSync = inSyncState{committed: after.ISR}
	p.recovery = after.LeaderRecovery
	p.adding = after.AddingReplicas
	p.reassigning = len(after.AddingReplicas)+len(after.RemovingReplicas) > 0
}

// advanceLocked moves the high watermark as far as it may go and wakes those
// who waited for it, or for the log end.
func (p *Partition) advanceLocked() {
	leo := p.log.LEO()
	p.highWatermark = nextHighWatermark(watermarkInput{
		current:   p.highWatermark,
		leaderLEO: min(leo, p.unflushedFrom),
		inSync:    p.inSync,
		followers: p.followers,
		minInSync: effectiveMinInSync(p.config.MinInSyncReplicas, p.replicas),
	})
	if !p.waiters.empty() {
		p.waiters.wake(p.highWatermark, leo)
	}
}

// setConfig takes over a new configuration of the topic.
func (p *Partition) setConfig(config *TopicConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = config
	if p.role == roleLeader {
		p.advanceLocked() // min.insync.replicas may be lower now
	}
}

// fail takes the partition offline: its log cannot be used.
func (p *Partition) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failLocked(err)
}

func (p *Partition) failLocked(err error) {
	p.role, p.err = roleNone, err
	p.waiters.wakeAll()
}

// stop ends the partition's life here and answers those who wait.
func (p *Partition) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.role = roleGone
	p.waiters.wakeAll()
}

// park puts a place into the list, or signals at once.
func (p *Partition) park(at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !(p.role == roleLeader || p.role == roleFollower && at.cond.FollowerToo) || p.leaderEpoch != at.cond.LeaderEpoch ||
		p.highWatermark >= at.cond.HighWatermark || p.log.LEO() >= at.cond.LEO ||
		at.cond.LowWatermark > 0 && p.lowWatermarkLocked() >= at.cond.LowWatermark {
		at.waiter.signal()
		return
	}
	p.waiters.add(at)
}

// unpark takes a place out of the list, if it is still in it.
func (p *Partition) unpark(at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters.remove(at)
}

// LogStartOffset returns the first offset that is there, −1 without a log.
func (p *Partition) LogStartOffset() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil {
		return -1
	}
	return p.log.LogStartOffset()
}

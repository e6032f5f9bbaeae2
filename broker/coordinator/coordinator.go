package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// Partition is what a shard asks of its partition; *replica.Partition is one.
type Partition interface {
	AppendAsLeader(batch []byte, inSync bool, opts storage.AppendOptions) (replica.Appended, error)
	Committed(a replica.Appended) (bool, error)
	ParkForCommit(w *replica.Waiter, a replica.Appended)
	Flush(a replica.Appended) error
	Fetch(req replica.FetchRequest) (replica.Fetched, error)
	ListOffset(req replica.ListOffsetRequest) (replica.FoundOffset, error)
	Config() *replica.TopicConfig
}

// Config is what a Coordinator is made from.
type Config struct {
	// Topic holds the state, and Node is this broker.
	Topic string
	Node  protocol.NodeID
	// NewMachine makes the empty state of a partition.
	NewMachine func(partition int32) Machine
	// Partition finds the replica on this broker.
	Partition func(topicID protocol.UUID, partition int32) (Partition, bool)
	// CommitTimeout is how long a decision may take to be committed before its
	// caller is told to try again (offsets.commit.timeout.ms). Default 5 s.
	CommitTimeout time.Duration
	// QueueLength bounds the calls of one partition that are not decided yet.
	// More mean more memory and longer waits when a partition is overrun.
	// Default 10,000.
	QueueLength int
	// LoadBytes is how much of the partition is read at a time at takeover
	// (offsets.load.buffer.size). Default 5 MiB.
	LoadBytes int
}

func (c *Config) setDefaults() {
	if c.CommitTimeout == 0 {
		c.CommitTimeout = 5 * time.Second
	}
	if c.QueueLength == 0 {
		c.QueueLength = 10_000
	}
	if c.LoadBytes == 0 {
		c.LoadBytes = 5 << 20
	}
}

// Coordinator has the shards of one topic on this broker.
type Coordinator struct {
	cfg  Config
	log  zerolog.Logger
	wake chan struct{} // size 1: there are shards to start; more adds nothing

	// mu guards the rest. It is a leaf.
	mu      sync.Mutex
	shards  map[int32]*shard
	start   []*shard // made by Apply, not yet running
	stopped bool
}

// New returns a coordinator of nothing; Apply gives it partitions.
func New(cfg Config, log zerolog.Logger) *Coordinator {
	cfg.setDefaults()
	return &Coordinator{
		cfg: cfg, log: log.With().Str("component", "coordinator").Str("topic", cfg.Topic).Logger(),
		wake: make(chan struct{}, 1), shards: make(map[int32]*shard),
	}
}

// Run runs the shards' loops until ctx ends, and returns when all have ended.
// Calls that are still owed an answer are told NOT_COORDINATOR.
func (c *Coordinator) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	defer c.stop()
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil
		}
		c.mu.Lock()
		start := c.start
		c.start = nil
		c.mu.Unlock()
		for _, s := range start {
			loops.Go(func() { s.run(ctx) })
		}
	}
}

// stop ends all shards, also those that never ran.
func (c *Coordinator) stop() {
	c.mu.Lock()
	shards := c.shards
	c.shards, c.start, c.stopped = nil, nil, true
	c.mu.Unlock()
	for _, s := range shards {
		s.close()
	}
}

// Apply follows the leaderships of the topic's partitions. It is called in
// order, after the replicas have followed, and does not block.
func (c *Coordinator) Apply(delta *metadata.Delta, _ *metadata.Image) {
	for topic := range delta.ChangedTopics() {
		if topic.Name != c.cfg.Topic {
			continue
		}
		for before, after := range topic.Partitions() {
			if after == nil || topic.New == nil {
				c.resign(topic.ID, before.ID)
				continue
			}
			c.follow(topic.ID, after)
		}
	}
}

// follow makes, keeps or ends the shard of a partition. A new leader epoch makes
// a new shard, even under the same leader: what happened in between is unknown.
func (c *Coordinator) follow(topicID protocol.UUID, p *metadata.Partition) {
	c.mu.Lock()
	old := c.shards[p.ID]
	leads := p.Leader == c.cfg.Node && !c.stopped
	if old != nil && leads && old.topicID == topicID && old.epoch == p.LeaderEpoch {
		c.mu.Unlock()
		return
	}
	delete(c.shards, p.ID)
	if leads {
		s := newShard(c, topicID, p.ID, p.LeaderEpoch)
		c.shards[p.ID] = s
		c.start = append(c.start, s)
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	c.mu.Unlock()
	if old != nil {
		old.close()
	}
}

// resign ends the shard of a partition that is no more.
func (c *Coordinator) resign(topicID protocol.UUID, partition int32) {
	c.mu.Lock()
	s := c.shards[partition]
	if s != nil && s.topicID == topicID {
		delete(c.shards, partition)
	} else {
		s = nil
	}
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// Submit hands an event to the shard of a partition. It does not block; the
// event is handled after all that were submitted before it. What it holds must
// not be changed any more.
func (c *Coordinator) Submit(partition int32, event any) *Call {
	c.mu.Lock()
	s := c.shards[partition]
	c.mu.Unlock()
	if s == nil {
		return refused(protocol.ErrNotCoordinator)
	}
	return s.submit(event)
}

// SubmitAll hands an event to every shard.
func (c *Coordinator) SubmitAll(event any) []*Call {
	var calls []*Call
	for _, s := range c.all() {
		calls = append(calls, s.submit(event))
	}
	return calls
}

// Tell hands an event that nobody waits for to every shard, also to those that
// are loading: they handle it next. It does not block.
func (c *Coordinator) Tell(event any) {
	for _, s := range c.all() {
		s.tell(event)
	}
}

func (c *Coordinator) all() []*shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	shards := make([]*shard, 0, len(c.shards))
	for _, s := range c.shards {
		shards = append(shards, s)
	}
	return shards
}

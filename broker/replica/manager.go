package replica

import (
	"iter"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// Store is what the manager asks of the logs in this broker's directories.
type Store interface {
	// Open returns the partition's log, creating it if there is none, and the
	// high watermark of the last checkpoint, 0 without one. Dir is the directory
	// that the metadata assigns; one of the reserved ids leaves the choice to
	// the store.
	Open(tp protocol.TopicPartition, topicID, dir protocol.UUID, config *TopicConfig) (Log, int64, error)
	// Configure applies a new configuration to the partition's log.
	Configure(tp protocol.TopicPartition, config *TopicConfig)
	// Delete takes logs out of the store at once and removes them from disk later.
	Delete(tps ...protocol.TopicPartition) error
	// SetAside renames the directories of logs that keep says no to, so that
	// their names are free again and nothing is lost.
	SetAside(keep func(tp protocol.TopicPartition, topicID protocol.UUID) bool) error
}

// Puller fetches for the partitions that follow, from their leaders.
type Puller interface {
	// Update is told after a change of roles who follows whom now, also where the
	// leader is the same one under another epoch, and who leads, follows nobody,
	// or is gone.
	Update(follow []Following, leave []*Partition)
}

// Following is a partition and whom it follows.
type Following struct {
	*Partition
	Leader protocol.NodeID
}

// noPuller is that of a broker without peers.
type noPuller struct{}

func (noPuller) Update([]Following, []*Partition) {}

// Config is what a Manager is made from.
type Config struct {
	// Node is this broker.
	Node protocol.NodeID
	// Store has the logs.
	Store Store
	// TopicConfig resolves the configuration of a topic as an image has it.
	TopicConfig func(img *metadata.Image, topic string) TopicConfig
	// Parallel is how many partitions change their role at a time. Opening a log
	// waits for the disk, so more than one per processor is of use. Default:
	// four per processor.
	Parallel int
	// Puller is told who follows whom. Default: nobody is fetched from.
	Puller Puller
	// ISR is what the in-sync sets go by.
	ISR ISRConfig
}

// partitionKey names a partition for its whole life: a topic that is created
// anew under the same name has another id.
type partitionKey struct {
	topic     protocol.UUID
	partition int32
}

// Manager has the partitions of this broker and follows the metadata with them.
type Manager struct {
	cfg      Config
	log      zerolog.Logger
	proposer *proposer
	image    atomic.Pointer[metadata.Image] // the newest that Apply was given
	arrivals arrivals
	// assignments is what the controller has to know of directories.
	assignments assignments

	// mu guards partitions and topics, those that partitions are of. Lock order: Manager.mu → Partition.mu → storage.Log.mu.
	mu         sync.RWMutex
	partitions map[partitionKey]*Partition
	topics     map[protocol.UUID]*Traffic

	traffic Traffic // of all topics
	isrs    isrCounts

	started bool // an image was applied; of Apply's goroutine
}

// NewManager returns a manager of no partitions; Apply makes them.
func NewManager(cfg Config, log zerolog.Logger) *Manager {
	if cfg.Parallel <= 0 {
		cfg.Parallel = 4 * runtime.GOMAXPROCS(0)
	}
	if cfg.Puller == nil {
		cfg.Puller = noPuller{}
	}
	log = log.With().Str("component", "replica").Logger()
	m := &Manager{cfg: cfg, log: log, proposer: newProposer(cfg.ISR, log), partitions: make(map[partitionKey]*Partition), topics: make(map[protocol.UUID]*Traffic)}
	m.assignments = assignments{wake: make(chan struct{}, 1), wanted: make(map[partitionKey]protocol.UUID)}
	m.image.Store(metadata.Empty())
	return m
}

// Partition returns the replica of a partition that this broker holds.
func (m *Manager) Partition(topicID protocol.UUID, partition int32) (*Partition, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.partitions[partitionKey{topicID, partition}]
	return p, ok
}

// Partitions yields all replicas of this broker, in no order, as they were when
// the iteration began.
func (m *Manager) Partitions() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		m.mu.RLock()
		all := make([]*Partition, 0, len(m.partitions))
		for _, p := range m.partitions {
			all = append(all, p)
		}
		m.mu.RUnlock()
		for _, p := range all {
			if !yield(p) {
				return
			}
		}
	}
}

// HighWatermarks yields the high watermarks to checkpoint.
func (m *Manager) HighWatermarks() iter.Seq2[protocol.TopicPartition, int64] {
	return func(yield func(protocol.TopicPartition, int64) bool) {
		for p := range m.Partitions() {
			if offset, ok := p.HighWatermark(); ok && !yield(p.tp, offset) {
				return
			}
		}
	}
}

// Apply follows a change of the metadata: what LeaderAndIsr and StopReplica
// requests once said. It is called in order, by one goroutine, and returns when
// every partition that is concerned has its new role. The first call brings all
// there is: logs that no image knows are set aside then.
func (m *Manager) Apply(delta *metadata.Delta, img *metadata.Image) {
	m.image.Store(img)
	plan := m.plan(delta, img)
	m.reconfigure(delta, img)
	m.delete(plan.deleted)
	if !m.started {
		m.started = true
		m.setAside(img)
	}
	led, left := plan.arriving()
	m.arrivals.forget(left)
	m.arrivals.expect(led)
	m.each(plan.changed, m.change)
	m.arrivals.ring(led)
	m.pull(plan)
	m.compareDirectories(plan, img)
	if n := len(plan.deleted) + len(plan.changed); n > 0 {
		m.log.Info().Int("leading", plan.count(actionLead)).Int("following", plan.count(actionFollow)).
			Int("deleted", len(plan.deleted)).Int64("offset", img.Offset()).Msg("partitions follow the metadata")
	}
}

// step is what is to be done about one partition.
type step struct {
	act       action
	partition *Partition
	after     *metadata.Partition // nil where it is deleted
}

// plan is what a delta means for this broker. What is deleted goes first, since
// a new topic may take the name of an old one.
type plan struct {
	deleted, changed []step
}

func (p plan) count(act action) int {
	n := 0
	for _, s := range p.changed {
		if s.act == act {
			n++
		}
	}
	return n
}

// plan decides about every partition that changed, and puts the new ones into
// the table: who asks for them is told to come again until they have a role.
func (m *Manager) plan(delta *metadata.Delta, img *metadata.Image) plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out plan
	for topic := range delta.ChangedTopics() {
		var config *TopicConfig // of the topic, once it is needed
		for before, after := range topic.Partitions() {
			id := after
			if id == nil {
				id = before
			}
			key := partitionKey{topic.ID, id.ID}
			p, hosted := m.partitions[key]
			now := known{hosted: hosted}
			if hosted {
				now = p.known()
			}
			act := transition(m.cfg.Node, now, after)
			switch act {
			case actionNone:
				continue
			case actionDelete:
				delete(m.partitions, key)
				m.leaveTopicLocked(topic.ID)
				out.deleted = append(out.deleted, step{act: act, partition: p})
				continue
			}
			if !hosted {
				if config == nil {
					resolved := m.cfg.TopicConfig(img, topic.Name)
					config = &resolved
				}
				p = newPartition(protocol.TopicPartition{Topic: topic.Name, Partition: id.ID}, topic.ID, m.cfg.Node, config, m)
				p.traffic = m.joinTopicLocked(topic.ID)
				m.partitions[key] = p
			}
			out.changed = append(out.changed, step{act: act, partition: p, after: after})
		}
	}
	return out
}

// each does steps of a plan, several at a time, and waits for all.
func (m *Manager) each(steps []step, do func(step)) {
	workers := min(m.cfg.Parallel, len(steps))
	if workers <= 1 {
		for _, s := range steps {
			do(s)
		}
		return
	}
	next := make(chan step)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for s := range next {
				do(s)
			}
		})
	}
	for _, s := range steps {
		next <- s
	}
	close(next)
	wg.Wait()
}

// pull tells the puller what has become of a plan. Until then a follower's earlier
// leader may be asked, whose answers are refused.
func (m *Manager) pull(plan plan) {
	var follow []Following
	var leave []*Partition
	for _, s := range plan.deleted {
		leave = append(leave, s.partition)
	}
	for _, s := range plan.changed {
		if at, ok := s.partition.Position(); ok && at.Leader != protocol.NoNode {
			follow = append(follow, Following{s.partition, at.Leader})
		} else {
			leave = append(leave, s.partition)
		}
	}
	m.cfg.Puller.Update(follow, leave)
}

// change gives a partition its new role.
func (m *Manager) change(s step) {
	p := s.partition
	log, checkpointed, err := p.openLog(m.cfg.Store, m.cfg.Node, s.after)
	if err != nil {
		p.fail(err)
		m.log.Error().Err(err).Str("topic", p.tp.Topic).Int32("partition", p.tp.Partition).Msg("partition is offline")
		return
	}
	p.become(s.after, s.act, log, checkpointed)
	if end, due := p.unflushed(); due && s.act == actionLead {
		if err := p.flush(end); err != nil {
			p.fail(err)
			m.log.Error().Err(err).Str("topic", p.tp.Topic).Int32("partition", p.tp.Partition).Msg("partition is offline")
			return
		}
	}
	if e := m.log.Debug(); e.Enabled() {
		e.Str("topic", p.tp.Topic).Int32("partition", p.tp.Partition).Stringer("role", s.act).
			Int32("leader", int32(s.after.Leader)).Int32("leader_epoch", int32(s.after.LeaderEpoch)).Msg("partition has a role")
	}
}

// delete ends partitions and their logs.
func (m *Manager) delete(steps []step) {
	tps := make([]protocol.TopicPartition, 0, len(steps))
	for _, s := range steps {
		s.partition.stop()
		tps = append(tps, s.partition.tp)
	}
	if len(tps) == 0 {
		return
	}
	if err := m.cfg.Store.Delete(tps...); err != nil {
		// They are set aside at the next start.
		m.log.Error().Err(err).Msg("logs were not deleted")
	}
}

// setAside renames the logs of partitions that are not, or no longer, assigned
// to this broker: it was down when they were deleted. They are told by topic id.
func (m *Manager) setAside(img *metadata.Image) {
	err := m.cfg.Store.SetAside(func(tp protocol.TopicPartition, topicID protocol.UUID) bool {
		_, ok := m.Partition(topicID, tp.Partition)
		t, named := img.Topic(tp.Topic)
		return ok && named && t.ID == topicID
	})
	if err != nil {
		m.log.Error().Err(err).Msg("stray logs were not set aside")
	}
}

// reconfigure passes changed configurations on to the partitions that were here
// before this delta.
func (m *Manager) reconfigure(delta *metadata.Delta, img *metadata.Image) {
	all := false
	topics := make(map[string]*TopicConfig)
	for res := range delta.ChangedConfigs() {
		switch res.Type {
		case metadata.ResourceTopic:
			topics[res.Name] = nil
		case metadata.ResourceBroker:
			all = true // defaults of topic configs may be among them
		}
	}
	if !m.started || len(topics) == 0 && !all {
		return
	}
	for p := range m.Partitions() {
		config, ok := topics[p.tp.Topic]
		if !ok && !all {
			continue
		}
		if config == nil {
			resolved := m.cfg.TopicConfig(img, p.tp.Topic)
			config = &resolved
			topics[p.tp.Topic] = config
		}
		p.setConfig(config)
		m.cfg.Store.Configure(p.tp, config)
	}
}

// events is what a partition tells of itself. It is called with Partition.mu
// held.
type events interface {
	// inSyncChanges: its leader may want another ISR.
	inSyncChanges(p *Partition)
	// came: a follower fetches for the first time under a leader epoch.
	came(p *Partition, follower protocol.NodeID, epoch protocol.LeaderEpoch)
	// truncated: what its leader does not have is gone, from offset to the end
	// that was.
	truncated(tp protocol.TopicPartition, offset, end int64)
	// lost: what is gone had been committed, up to end.
	lost(tp protocol.TopicPartition, offset, end int64)
	// unclean: this broker leads without having been in sync, from offset on.
	unclean(tp protocol.TopicPartition, epoch protocol.LeaderEpoch, offset int64)
	// gaveUp: a follower has cut off what its leader should have had.
	gaveUp(tp protocol.TopicPartition, follower protocol.NodeID, loss protocol.Loss)
}

func (m *Manager) inSyncChanges(p *Partition) { m.proposer.add(p) }

func (m *Manager) came(p *Partition, follower protocol.NodeID, epoch protocol.LeaderEpoch) {
	m.arrivals.came(follower, p, epoch)
}

func (m *Manager) truncated(tp protocol.TopicPartition, offset, end int64) {
	m.log.Info().Str("topic", tp.Topic).Int32("partition", tp.Partition).
		Int64("offset", offset).Int64("end", end).Msg("replica cut back to what its leader has")
}

func (m *Manager) lost(tp protocol.TopicPartition, offset, end int64) {
	m.log.Error().Str("topic", tp.Topic).Int32("partition", tp.Partition).
		Int64("from", offset).Int64("to", end).Msg("committed records are cut off: the leader was elected without them")
}

func (m *Manager) unclean(tp protocol.TopicPartition, epoch protocol.LeaderEpoch, offset int64) {
	m.log.Error().Str("topic", tp.Topic).Int32("partition", tp.Partition).Int32("leader_epoch", int32(epoch)).
		Int64("offset", offset).Msg("elected without having been in sync: what others had from this offset on is lost")
}

func (m *Manager) gaveUp(tp protocol.TopicPartition, follower protocol.NodeID, loss protocol.Loss) {
	m.log.Error().Str("topic", tp.Topic).Int32("partition", tp.Partition).Int32("replica", int32(follower)).
		Int64("from", loss.From).Int64("to", loss.To).Int64("committed", loss.Committed).
		Msg("records are lost: a replica had them, and its leader was elected without it")
}

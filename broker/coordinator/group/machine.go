package group

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// Config is what groups are subject to.
type Config struct {
	// InitialRebalanceDelay is how long the first member of a group waits for
	// more: longer means fewer rebalances at the start of a fleet, and a later
	// start (group.initial.rebalance.delay.ms, 3 s).
	InitialRebalanceDelay time.Duration
	// MinSessionTimeout and MaxSessionTimeout bound what a member may ask for
	// (group.min.session.timeout.ms, group.max.session.timeout.ms; 6 s and 30 min).
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// MaxSize bounds the members of a group (group.max.size, none).
	MaxSize int
	// MaxMetadataBytes bounds the text that goes with an offset, in characters
	// as Java counts them (offset.metadata.max.bytes, 4096).
	MaxMetadataBytes int
	// Retention is how long offsets are kept after their group has become empty,
	// or after the commit where there never was a member
	// (offsets.retention.minutes, 7 days).
	Retention time.Duration
	// RetentionCheck is how often what has expired is removed
	// (offsets.retention.check.interval.ms, 10 min).
	RetentionCheck time.Duration
}

// newMemberTimeout is how long a new member may wait for its first assignment
// before it counts as gone. Its session timeout may be shorter than the
// rebalance that it waits for (GroupCoordinatorConfig.java).
const newMemberTimeout = 5 * time.Minute

// Machine is the groups of one partition. It implements coordinator.Machine.
type Machine struct {
	cfg    Config
	log    zerolog.Logger
	groups map[string]*group

	// What replay came across, until Loaded has said so.
	unknown map[int16]int // records by key type that this version does not keep
	loaded  bool
}

// NewMachine returns a machine of no groups.
func NewMachine(cfg Config, log zerolog.Logger) *Machine {
	return &Machine{cfg: cfg, log: log, groups: make(map[string]*group), unknown: make(map[int16]int)}
}

// turn is the handling of one event.
type turn struct {
	*Machine
	now time.Time
	out coordinator.Outcome
}

// Loaded implements coordinator.Machine: it gives every member that was loaded
// a full session.
func (m *Machine) Loaded(now time.Time) coordinator.Outcome {
	for kind, records := range m.unknown {
		m.log.Info().Int16("key_type", kind).Int("records", records).Msg("records of another kind of group were left out")
	}
	m.unknown, m.loaded = nil, true
	t := &turn{Machine: m, now: now}
	t.timer("retention", m.cfg.RetentionCheck, retentionCheck{})
	for _, g := range m.groups {
		for _, member := range g.members {
			t.session(g, member)
		}
		if len(g.members) > 0 {
			m.log.Info().Str("group", g.name).Int("members", len(g.members)).Int32("generation", g.generation).Msg("group loaded")
		}
		if len(g.members) > m.cfg.MaxSize {
			t.prepareRebalance(g) // the limit was lowered
		}
	}
	return t.out
}

// Handle implements coordinator.Machine.
func (m *Machine) Handle(now time.Time, to coordinator.Token, event any) coordinator.Outcome {
	t := &turn{Machine: m, now: now}
	switch e := event.(type) {
	case Join:
		t.join(to, e)
	case Sync:
		t.sync(to, e.Request)
	case Heartbeat:
		t.heartbeat(to, e.Request)
	case Leave:
		t.leave(to, e.Request)
	case Commit:
		t.commit(to, e)
	case Fetch:
		t.fetch(to, e)
	case DeleteOffsets:
		t.deleteOffsets(to, e)
	case Describe:
		t.describe(to, e.Group)
	case Count:
		t.count(to)
	case List:
		t.list(to, e)
	case Delete:
		t.deleteGroup(to, e.Group)
	case TopicsDeleted:
		t.topicsDeleted(e.Topics)
	case sessionExpired:
		t.sessionExpired(e)
	case joinExpired:
		if g := m.groups[e.group]; g != nil {
			t.completeJoin(g)
		}
	case initialDelay:
		t.initialDelayPassed(e)
	case syncExpired:
		t.syncExpired(e)
	case retentionCheck:
		t.expireOffsets()
	default:
		panic(fmt.Sprintf("group: unknown event %T", event))
	}
	return t.out
}

func (t *turn) reply(to coordinator.Token, answer any) {
	t.out.Replies = append(t.out.Replies, coordinator.Reply{To: to, Answer: answer})
}

func (t *turn) refuse(to coordinator.Token, err error) {
	t.out.Replies = append(t.out.Replies, coordinator.Reply{To: to, Err: err})
}

func (t *turn) timer(key string, after time.Duration, event any) {
	t.out.Timers = append(t.out.Timers, coordinator.Timer{Key: key, After: after, Event: event})
}

func (t *turn) cancel(key string) { t.timer(key, 0, nil) }

// write appends a group as it is now, with the given assignments. The machine
// has the state already.
func (t *turn) write(g *group, assignment func(*member) []byte) {
	t.out.Applied = true
	t.out.Records = append(t.out.Records, groupRecord(g, assignment))
}

// then is called once the records are in the log, or are not.
func (t *turn) then(do func(t *turn, err error)) {
	t.out.Then = func(err error) coordinator.Outcome {
		next := &turn{Machine: t.Machine, now: t.now}
		do(next, err)
		return next.out
	}
}

// Timer keys. A session's ends with the member, who may be called anything.
func sessionKey(group, member string) string {
	return fmt.Sprintf("session %d %s %s", len(group), group, member)
}
func joinKey(group string) string { return "join " + group }
func syncKey(group string) string { return "sync " + group }

func ms(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

// session restarts a member's session.
func (t *turn) session(g *group, m *member) {
	t.timer(sessionKey(g.name, m.id), ms(m.sessionTimeoutMs), sessionExpired{g.name, m.id})
}

func joinError(member string, code protocol.Error) *kmsg.JoinGroupResponse {
	return &kmsg.JoinGroupResponse{ErrorCode: int16(code), Generation: -1, MemberID: member}
}

func syncError(code protocol.Error) *kmsg.SyncGroupResponse {
	return &kmsg.SyncGroupResponse{ErrorCode: int16(code), MemberAssignment: []byte{}}
}

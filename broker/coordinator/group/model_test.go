package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// modelGroup is a naive second version of a group of dynamic members: no timers,
// no counters, no indexes. What is derived it derives each time; deadlines are
// looked for minute by minute.
type modelGroup struct {
	state      string
	first      bool // the rebalance is the first one after the group was empty
	generation int32
	kind       string // protocol type
	protocol   string
	leader     string
	members    []*modelMember
	pending    map[string]time.Time // ids that were given out → until when
	deadline   time.Time            // of the rebalance or, after it, of the syncs
	subscribed map[string]bool      // of this generation; nil: nobody has told
	since      int64
	offsets    map[string]modelOffset
}

type modelMember struct {
	id                 string
	session, rebalance time.Duration
	topic              string
	expires            time.Time
	isNew, synced      bool
	join, sync         coordinator.Token
	current            string // assignment
}

type modelOffset struct {
	value    int64
	commitMs int64
}

// model is what a coordinator of one group should do. durable is what another one
// would load.
type model struct {
	now       time.Time
	cfg       Config
	group     *modelGroup
	durable   *modelGroup
	nextCheck time.Time
	answers   map[coordinator.Token]string
}

func (m *model) answer(to coordinator.Token, format string, args ...any) {
	m.answers[to] = fmt.Sprintf(format, args...)
}

func (g *modelGroup) member(id string) *modelMember {
	for _, m := range g.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

// save makes the group as it is now durable, but for its offsets, which are.
func (m *model) save() {
	saved := *m.group
	saved.members, saved.pending = nil, map[string]time.Time{}
	for _, member := range m.group.members {
		clone := *member
		saved.members = append(saved.members, &clone)
	}
	m.durable = &saved
}

// found makes a group that is not there.
func (m *model) found() {
	m.group = &modelGroup{state: "Empty", since: -1, pending: map[string]time.Time{}, offsets: map[string]modelOffset{}}
	m.save()
}

// load is what a new coordinator begins with.
func (m *model) load() {
	m.nextCheck = m.now.Add(m.cfg.RetentionCheck)
	m.group = nil
	if m.durable == nil {
		return
	}
	loaded := *m.durable
	loaded.members, loaded.state = nil, "Empty"
	loaded.pending = map[string]time.Time{}
	for _, member := range m.durable.members {
		clone := *member
		clone.expires, clone.isNew, clone.synced = m.now.Add(clone.session), false, true
		clone.join, clone.sync = coordinator.NoToken, coordinator.NoToken
		loaded.members = append(loaded.members, &clone)
		loaded.state = "Stable"
	}
	m.group = &loaded
	m.group.subscribed = m.group.topics()
	m.save()
}

func (g *modelGroup) topics() map[string]bool {
	if g.kind == "" {
		return nil
	}
	topics := map[string]bool{}
	for _, member := range g.members {
		topics[member.topic] = true
	}
	return topics
}

func (g *modelGroup) allJoined() bool {
	for _, member := range g.members {
		if member.join == coordinator.NoToken {
			return false
		}
	}
	return len(g.pending) == 0
}

func (g *modelGroup) patience() (longest time.Duration) {
	for _, member := range g.members {
		longest = max(longest, member.rebalance)
	}
	return longest
}

func (m *model) become(state string) { m.group.state, m.group.since = state, m.now.UnixMilli() }

// rebalance asks everybody to join, or goes on with that.
func (m *model) rebalance() {
	g := m.group
	if g.state == "PreparingRebalance" {
		if !g.first && g.allJoined() {
			m.complete()
		}
		return
	}
	if g.state == "CompletingRebalance" {
		for _, member := range g.members {
			member.current = ""
			m.answerSync(member, "sync REBALANCE_IN_PROGRESS %q", "")
		}
	}
	g.first = g.state == "Empty"
	m.become("PreparingRebalance")
	if g.first {
		g.deadline = m.now
	} else if g.deadline = m.now.Add(g.patience()); g.allJoined() {
		m.complete()
	}
}

func (m *model) answerSync(member *modelMember, format string, args ...any) {
	if member.sync != coordinator.NoToken {
		m.answer(member.sync, format, args...)
		member.sync = coordinator.NoToken
		member.expires = m.now.Add(member.session)
	}
}

// complete begins a generation of those who have joined.
func (m *model) complete() {
	g := m.group
	g.members = slices.DeleteFunc(g.members, func(member *modelMember) bool { return member.join == coordinator.NoToken })
	g.generation++
	g.deadline = time.Time{}
	if len(g.members) == 0 {
		m.become("Empty")
		g.leader, g.protocol, g.subscribed = "", "", g.topics()
		m.save()
		return
	}
	m.become("CompletingRebalance")
	if g.member(g.leader) == nil {
		g.leader = g.members[0].id
	}
	g.protocol, g.subscribed = "range", g.topics()
	for _, member := range g.members {
		m.answer(member.join, "%s", m.joined(member, member.id == g.leader))
		member.join, member.isNew, member.synced = coordinator.NoToken, false, false
		member.expires = m.now.Add(member.session)
	}
	g.deadline = m.now.Add(g.patience())
}

func (m *model) joined(member *modelMember, all bool) string {
	g := m.group
	text := fmt.Sprintf("join NONE member=%s generation=%d type=consumer protocol=range leader=%s", member.id, g.generation, g.leader)
	if all {
		for _, other := range g.members {
			text += fmt.Sprintf("\n   %s instance=null %q", other.id, consumerMetadata("topics:"+other.topic))
		}
	}
	return text
}

func (m *model) join(to coordinator.Token, id, fresh, topic string, session, rebalance time.Duration) {
	if m.group == nil {
		if id != "" {
			m.answer(to, "join UNKNOWN_MEMBER_ID member=%s", id)
			return
		}
		m.found()
	}
	g := m.group
	if id == "" {
		g.pending[fresh] = m.now.Add(session)
		m.answer(to, "join MEMBER_ID_REQUIRED member=%s", fresh)
		return
	}
	if _, ok := g.pending[id]; ok {
		delete(g.pending, id)
		if len(g.members) == 0 {
			g.kind = "consumer"
		}
		g.members = append(g.members, &modelMember{
			id: id, session: session, rebalance: rebalance, topic: topic, expires: m.now.Add(newMemberTimeout), isNew: true, join: to,
		})
		if g.leader == "" {
			g.leader = id
		}
		m.rebalance()
		return
	}
	member := g.member(id)
	switch {
	case member == nil:
		m.answer(to, "join UNKNOWN_MEMBER_ID member=%s", id)
		return
	case g.state == "CompletingRebalance" && member.topic == topic:
		m.answer(to, "%s", m.joined(member, id == g.leader))
		return
	case g.state == "Stable" && member.topic == topic && id != g.leader:
		m.answer(to, "%s", m.joined(member, false))
		return
	}
	if member.join != coordinator.NoToken {
		m.answer(member.join, "join REBALANCE_IN_PROGRESS member=%s", id)
	}
	member.topic, member.session, member.rebalance, member.join = topic, session, rebalance, to
	m.rebalance()
}

func (m *model) sync(to coordinator.Token, id string, generation int32, assignment map[string]string, appended bool) {
	g := m.group
	refuse := func(code protocol.Error) { m.answer(to, "sync %v %q", code, "") }
	if g == nil || g.state == "Empty" || g.member(id) == nil {
		refuse(protocol.ErrUnknownMemberID)
		return
	}
	member := g.member(id)
	switch {
	case generation != g.generation:
		refuse(protocol.ErrIllegalGeneration)
	case g.state == "PreparingRebalance":
		refuse(protocol.ErrRebalanceInProgress)
	case g.state == "Stable":
		member.synced = true
		m.answer(to, "sync NONE %q", member.current)
	default:
		if member.sync != coordinator.NoToken {
			m.answer(member.sync, "sync REBALANCE_IN_PROGRESS %q", "")
		}
		member.sync, member.synced = to, true
		if id != g.leader {
			return
		}
		if !appended {
			for _, other := range g.members {
				other.current = ""
				m.answerSync(other, "sync COORDINATOR_NOT_AVAILABLE %q", "")
			}
			m.rebalance()
			return
		}
		for _, other := range g.members {
			other.current = assignment[other.id]
		}
		m.save() // with the time at which the generation began
		m.become("Stable")
		for _, other := range g.members {
			m.answerSync(other, "sync NONE %q", other.current)
		}
	}
}

func (m *model) heartbeat(to coordinator.Token, id string, generation int32) {
	g := m.group
	code := protocol.None
	switch {
	case g == nil || g.member(id) == nil:
		code = protocol.ErrUnknownMemberID
	case generation != g.generation:
		code = protocol.ErrIllegalGeneration
	default:
		g.member(id).expires = m.now.Add(g.member(id).session)
		if g.state == "PreparingRebalance" {
			code = protocol.ErrRebalanceInProgress
		}
	}
	m.answer(to, "heartbeat %v", code)
}

// remove takes a member out and tells it so.
func (m *model) remove(id string) {
	g := m.group
	if member := g.member(id); member != nil {
		if member.join != coordinator.NoToken {
			m.answer(member.join, "join UNKNOWN_MEMBER_ID member=")
		}
		if member.sync != coordinator.NoToken {
			m.answer(member.sync, "sync UNKNOWN_MEMBER_ID %q", "")
		}
		g.members = slices.DeleteFunc(g.members, func(other *modelMember) bool { return other == member })
		if g.leader == id {
			g.leader = ""
			if len(g.members) > 0 {
				g.leader = g.members[0].id
			}
		}
	}
	delete(g.pending, id)
}

func (m *model) leave(to coordinator.Token, id string) {
	g := m.group
	known := false
	if g != nil {
		_, known = g.pending[id]
		known = known || g.member(id) != nil
	}
	if !known {
		m.answer(to, "leave NONE\n   %s instance=null UNKNOWN_MEMBER_ID", id)
		return
	}
	m.remove(id)
	m.answer(to, "leave NONE\n   %s instance=null NONE", id)
	if g.state != "Empty" {
		m.rebalance()
	}
}

func (m *model) commit(to coordinator.Token, id string, generation int32, topic string, value int64, appended bool) {
	g := m.group
	code := protocol.None
	switch {
	case g == nil && generation < 0, g != nil && generation < 0 && g.state == "Empty":
	case g == nil:
		code = protocol.ErrIllegalGeneration
	case g.member(id) == nil:
		code = protocol.ErrUnknownMemberID
	case generation != g.generation:
		code = protocol.ErrIllegalGeneration
	case g.state == "CompletingRebalance":
		code = protocol.ErrRebalanceInProgress
	}
	if code != protocol.None {
		m.answer(to, "%v", code)
		return
	}
	if g != nil && g.member(id) != nil {
		g.member(id).expires = m.now.Add(g.member(id).session)
	}
	if !appended {
		m.answer(to, "COORDINATOR_NOT_AVAILABLE")
		return
	}
	if g == nil {
		m.found()
	}
	m.group.offsets[topic] = modelOffset{value, m.now.UnixMilli()}
	m.answer(to, "%s-0 NONE", topic)
}

func (m *model) deleteGroup(to coordinator.Token) {
	switch {
	case m.group == nil:
		m.answer(to, "GROUP_ID_NOT_FOUND")
	case m.group.state != "Empty":
		m.answer(to, "NON_EMPTY_GROUP")
	default:
		m.group, m.durable = nil, nil
		m.answer(to, "done")
	}
}

// expired tells whether an offset is kept no longer (KIP-211).
func (m *model) expired(topic string, o modelOffset) bool {
	g := m.group
	from := o.commitMs
	switch {
	case g.kind == "": // never had a member
	case g.state == "Empty" && g.since >= 0:
		from = g.since
	case g.state == "Empty":
	case g.state != "Stable", g.subscribed[topic]:
		return false
	}
	return m.now.UnixMilli()-from >= m.cfg.Retention.Milliseconds()
}

func (m *model) check() {
	m.nextCheck = m.now.Add(m.cfg.RetentionCheck)
	g := m.group
	if g == nil {
		return
	}
	maps.DeleteFunc(g.offsets, m.expired)
	if len(g.offsets) == 0 && g.state == "Empty" && len(g.pending) == 0 {
		m.group, m.durable = nil, nil
	}
}

// advance lets time pass, one instant at a time at which something is due.
func (m *model) advance(by time.Duration) {
	end := m.now.Add(by)
	for {
		next, act := end.Add(1), func() {}
		due := func(at time.Time, do func()) {
			if at.Before(next) {
				next, act = at, do
			}
		}
		due(m.nextCheck, m.check)
		if g := m.group; g != nil {
			for id, at := range g.pending {
				due(at, func() {
					m.remove(id)
					if g.state == "PreparingRebalance" && g.allJoined() {
						m.complete()
					}
				})
			}
			for _, member := range g.members {
				if !member.isNew && (member.join != coordinator.NoToken || member.sync != coordinator.NoToken) {
					continue // it waits for us
				}
				due(member.expires, func() {
					m.remove(member.id)
					if g.state != "PreparingRebalance" || g.allJoined() {
						g.first = false
						m.rebalance()
					}
				})
			}
			switch {
			case g.deadline.IsZero():
			case g.state == "PreparingRebalance":
				due(g.deadline, m.complete)
			default:
				due(g.deadline, m.syncsAreOver)
			}
		}
		if next.After(end) {
			m.now = end
			return
		}
		m.now = next
		act()
	}
}

// syncsAreOver removes who never asked for an assignment.
func (m *model) syncsAreOver() {
	g := m.group
	g.deadline = time.Time{}
	before := len(g.members)
	for _, member := range slices.Clone(g.members) {
		if !member.synced {
			m.remove(member.id)
		}
	}
	if len(g.members) < before {
		m.rebalance()
	}
}

// String is the group as a new coordinator and its clients would see it.
func (g *modelGroup) String() string {
	if g == nil {
		return "no group"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s generation=%d type=%q leader=%s", g.state, g.generation, g.kind, g.leader)
	for _, member := range g.members {
		fmt.Fprintf(&b, "\n   %s %q session=%v rebalance=%v assignment=%q", member.id, consumerMetadata("topics:"+member.topic), member.session, member.rebalance, member.current)
	}
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		fmt.Fprintf(&b, "\n   %s %d at=%d", topic, g.offsets[topic].value, g.offsets[topic].commitMs)
	}
	return b.String()
}

// groupText is the same of the real one.
func groupText(g *group) string {
	if g == nil {
		return "no group"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s generation=%d type=%q leader=%s", g.state, g.generation, g.protocolType, g.leader)
	for _, m := range g.members {
		fmt.Fprintf(&b, "\n   %s %q session=%v rebalance=%v assignment=%q", m.id, m.metadata("range"), ms(m.sessionTimeoutMs), ms(m.rebalanceTimeoutMs), m.assignment)
	}
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		for _, partition := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			o := g.offsets[topic][partition]
			fmt.Fprintf(&b, "\n   %s %d at=%d", topic, o.offset, o.commitMs)
		}
	}
	return b.String()
}

// modelRun drives a machine and the model with the same events.
type modelRun struct {
	*rapid.T
	s     *script
	m     *model
	ids   []string // that were given out
	steps []string
}

// TestAgainstModel: in whatever order members come, go, are silent and commit,
// the answers are those of a naive second version, and what another coordinator
// would load from the log after each step is what that says.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newScript()
		s.cfg.InitialRebalanceDelay = 0
		s.load()
		r := &modelRun{T: rt, s: s, m: &model{now: s.now, cfg: s.cfg, answers: map[coordinator.Token]string{}}}
		r.m.load()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			r.step()
		}
	})
}

func (r *modelRun) step() {
	m, s := r.m, r.s
	// Each step has an instant of its own, so that no two things are due at once:
	// either might come first.
	s.advance(time.Millisecond)
	m.advance(time.Millisecond)
	s.answers = map[coordinator.Token]string{}
	m.answers = map[coordinator.Token]string{}
	to := s.token + 1
	// Mostly somebody who is there, in the generation that is.
	id, generation := "stranger", int32(0)
	if len(r.ids) > 0 {
		id = rapid.SampledFrom(r.ids).Draw(r.T, "member")
	}
	if m.group != nil {
		generation = m.group.generation
		if len(m.group.members) > 0 && rapid.IntRange(0, 3).Draw(r.T, "present") > 0 {
			id = m.group.members[rapid.IntRange(0, len(m.group.members)-1).Draw(r.T, "who")].id
		}
	}
	if rapid.IntRange(0, 9).Draw(r.T, "stale") == 0 {
		generation--
	}
	topic := rapid.SampledFrom([]string{"t", "u"}).Draw(r.T, "topic")
	appended := true
	what := rapid.SampledFrom([]string{
		"new", "new", "join", "join", "join", "sync", "sync", "sync", "lead", "lead", "heartbeat", "heartbeat", "leave",
		"commit", "commit", "simple", "delete", "advance", "advance", "advance", "reload", "settle", "settle",
	}).Draw(r.T, "what")
	r.steps = append(r.steps, fmt.Sprintf("%s %s %d %s", what, id, generation, topic))
	switch what {
	case "new", "join":
		if what == "new" {
			id = ""
		}
		session := time.Duration(rapid.SampledFrom([]int{10, 30}).Draw(r.T, "session")) * time.Second
		rebalance := time.Duration(rapid.SampledFrom([]int{5, 60}).Draw(r.T, "rebalance")) * time.Second
		fresh := fmt.Sprintf("c-%d", to)
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType = 9, "g", id, consumerType
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(rebalance.Milliseconds())
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "range", consumerMetadata("topics:"+topic)
		req.Protocols = append(req.Protocols, p)
		s.call(Join{Request: req, ClientID: "c", ClientHost: "/127.0.0.1", Fresh: fmt.Sprint(to)})
		m.join(to, id, fresh, topic, session, rebalance)
		if id == "" {
			r.ids = append(r.ids, fresh)
		}
	case "sync", "lead":
		if what == "lead" && m.group != nil && m.group.leader != "" {
			id = m.group.leader
		}
		if m.group != nil && m.group.state == "CompletingRebalance" && id == m.group.leader {
			appended = rapid.IntRange(0, 5).Draw(r.T, "append") > 0
		}
		r.sync(to, id, generation, appended)
	case "settle": // all members ask for their assignment, the leader last
		if m.group == nil || m.group.state != "CompletingRebalance" {
			break
		}
		leader := m.group.leader
		for _, member := range slices.Clone(m.group.members) {
			if member.id != leader {
				r.sync(s.token+1, member.id, m.group.generation, true)
			}
		}
		r.sync(s.token+1, leader, m.group.generation, true)
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = "g", id, generation
		s.call(Heartbeat{Request: req})
		m.heartbeat(to, id, generation)
	case "leave":
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = "g"
		who := kmsg.NewLeaveGroupRequestMember()
		who.MemberID = id
		req.Members = append(req.Members, who)
		s.call(Leave{Request: req})
		m.leave(to, id)
	case "commit", "simple":
		if what == "simple" {
			id, generation = "", -1
		}
		if rapid.IntRange(0, 5).Draw(r.T, "append") == 0 {
			s.fail, appended = protocol.ErrCoordinatorNotAvailable, false
		}
		value := int64(to)
		s.call(Commit{Group: "g", Member: id, Generation: generation, RetentionMs: -1, Offsets: []NewOffset{
			{TopicIDPartition: TopicIDPartition{Topic: topic}, Offset: value, LeaderEpoch: -1},
		}})
		s.fail = nil // where nothing was appended
		m.commit(to, id, generation, topic, value, appended)
	case "delete":
		s.call(Delete{Group: "g"})
		m.deleteGroup(to)
	case "advance":
		by := rapid.SampledFrom([]time.Duration{time.Second, 4 * time.Second, 9 * time.Second, time.Minute, 6 * time.Hour, 25 * time.Hour}).Draw(r.T, "by")
		by += time.Duration(to) * time.Microsecond
		s.advance(by)
		m.advance(by)
	case "reload":
		s.load()
		m.load()
	}
	s.advance(0)
	m.advance(0)
	r.compare()
}

func (r *modelRun) sync(to coordinator.Token, id string, generation int32, appended bool) {
	assignment := map[string]string{}
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = "g", id, generation
	for _, other := range r.ids {
		p := kmsg.NewSyncGroupRequestGroupAssignment()
		assignment[other] = fmt.Sprintf("%s of %d", other, to)
		p.MemberID, p.MemberAssignment = other, []byte(assignment[other])
		req.GroupAssignment = append(req.GroupAssignment, p)
	}
	if !appended {
		r.s.fail = protocol.ErrCoordinatorNotAvailable
	}
	r.s.call(Sync{Request: req})
	r.s.fail = nil // where nothing was appended
	r.m.sync(to, id, generation, assignment, appended)
}

func (r *modelRun) compare() {
	if got, want := answersText(r.s.answers), answersText(r.m.answers); got != want {
		r.Fatalf("%s\nanswers are\n%s\nthe model's\n%s", strings.Join(r.steps, "\n"), got, want)
	}
	if got, want := groupText(r.s.m.groups["g"]), r.m.group.String(); got != want {
		r.Fatalf("%s\nthe group is %s\nin the model %s", strings.Join(r.steps, "\n"), got, want)
	}
	// Another coordinator, of the log so far.
	other := &script{cfg: r.s.cfg, now: r.s.now, log: r.s.log}
	other.load()
	loaded := &model{now: r.m.now, cfg: r.m.cfg, durable: r.m.durable}
	loaded.load()
	if got, want := groupText(other.m.groups["g"]), loaded.group.String(); got != want {
		r.Fatalf("%s\nloaded is %s\nin the model %s", strings.Join(r.steps, "\n"), got, want)
	}
}

func answersText(answers map[coordinator.Token]string) string {
	var b strings.Builder
	for _, to := range slices.Sorted(maps.Keys(answers)) {
		fmt.Fprintf(&b, "#%d %s\n", to, answers[to])
	}
	return b.String()
}

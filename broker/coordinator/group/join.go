package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// join handles JoinGroup. Who is new to a group of several waits until all have
// joined again.
func (t *turn) join(to coordinator.Token, e Join) {
	req := e.Request
	session := ms(req.SessionTimeoutMillis)
	switch {
	case req.Group == "":
		t.reply(to, joinError(req.MemberID, protocol.ErrInvalidGroupID))
		return
	case session < t.cfg.MinSessionTimeout || session > t.cfg.MaxSessionTimeout:
		t.reply(to, joinError(req.MemberID, protocol.ErrInvalidSessionTimeout))
		return
	}
	if req.Version < 1 {
		req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	}
	g := t.groups[req.Group]
	isNew := g == nil
	if isNew {
		if req.MemberID != "" {
			t.reply(to, joinError(req.MemberID, protocol.ErrUnknownMemberID))
			return
		}
		g = newGroup(req.Group)
		g.sinceMs = nowMs(t.now)
		t.groups[req.Group] = g
	}
	switch {
	case !t.accepts(g, req.MemberID):
		g.remove(req.MemberID)
		t.reply(to, joinError("", protocol.ErrGroupMaxSizeReached))
	case req.MemberID == "":
		t.joinNew(to, e, g)
	default:
		t.joinKnown(to, req, e, g)
	}
	if isNew {
		t.found(g)
	}
}

// found writes that a group exists. Where that fails it does not.
func (t *turn) found(g *group) {
	t.out.Applied = true
	t.out.Records = append(t.out.Records, foundedRecord(g))
	t.then(func(t *turn, err error) {
		if err == nil {
			return
		}
		delete(t.groups, g.name)
		for _, m := range g.members {
			t.cancel(sessionKey(g.name, m.id))
			t.answerJoin(g, m, joinError("", protocol.CodeOf(err)))
		}
		for id := range g.pendingJoin {
			t.cancel(sessionKey(g.name, id))
		}
		t.cancel(joinKey(g.name))
	})
}

// accepts keeps a group within its size.
func (t *turn) accepts(g *group, id string) bool {
	m := g.byID[id]
	switch g.state {
	case empty:
		return true
	case preparing:
		return m != nil && m.awaitsJoin() || g.joining < t.cfg.MaxSize
	default:
		return m != nil || len(g.members) < t.cfg.MaxSize
	}
}

// joinNew lets somebody in who has no id yet.
func (t *turn) joinNew(to coordinator.Token, e Join, g *group) {
	req := e.Request
	if !g.supports(req.ProtocolType, req.Protocols) {
		t.reply(to, joinError("", protocol.ErrInconsistentGroupProtocol))
		return
	}
	if req.InstanceID != nil {
		id := *req.InstanceID + "-" + e.Fresh
		if old, ok := g.static[*req.InstanceID]; ok {
			t.replaceStatic(to, e, g, g.byID[old], id)
			return
		}
		t.addMember(to, e, g, id)
		return
	}
	id := e.ClientID + "-" + e.Fresh
	if req.Version >= 4 {
		// KIP-394: it proves that it got its id by joining with it, so that a
		// client that retries does not leave members behind.
		g.pendingJoin[id] = struct{}{}
		t.timer(sessionKey(g.name, id), ms(req.SessionTimeoutMillis), sessionExpired{g.name, id})
		t.reply(to, joinError(id, protocol.ErrMemberIDRequired))
		return
	}
	t.addMember(to, e, g, id)
}

// joinKnown lets somebody in who has an id.
func (t *turn) joinKnown(to coordinator.Token, req *kmsg.JoinGroupRequest, e Join, g *group) {
	if !g.supports(req.ProtocolType, req.Protocols) {
		t.reply(to, joinError(req.MemberID, protocol.ErrInconsistentGroupProtocol))
		return
	}
	if g.isPending(req.MemberID) {
		if req.InstanceID != nil {
			// Static members are not asked to join twice: Kafka trips over this one.
			t.reply(to, joinError(req.MemberID, protocol.ErrUnknownServerError))
			return
		}
		t.addMember(to, e, g, req.MemberID)
		return
	}
	if err := g.validate(req.MemberID, req.InstanceID); err != nil {
		t.reply(to, joinError(req.MemberID, protocol.CodeOf(err)))
		return
	}
	m := g.byID[req.MemberID]
	switch g.state {
	case completing:
		if !m.sameProtocols(req.Protocols) {
			break
		}
		// It missed the answer to its join.
		t.reply(to, t.joined(g, m, g.leader == m.id))
		return
	case stable:
		if g.leader == m.id || !m.sameProtocols(req.Protocols) {
			break
		}
		t.reply(to, t.joined(g, m, false))
		return
	case empty:
		t.reply(to, joinError(req.MemberID, protocol.ErrUnknownMemberID))
		return
	}
	t.update(g, m, req, to)
	t.maybeRebalance(g)
}

// update takes over what a member joins with.
func (t *turn) update(g *group, m *member, req *kmsg.JoinGroupRequest, to coordinator.Token) {
	g.count(m.protocols, -1)
	m.protocols = req.Protocols
	g.count(m.protocols, 1)
	m.rebalanceTimeoutMs, m.sessionTimeoutMs = req.RebalanceTimeoutMillis, req.SessionTimeoutMillis
	if m.awaitsJoin() {
		// It asks on another connection: the first one is most likely gone.
		t.answerJoin(g, m, joinError(m.id, protocol.ErrRebalanceInProgress))
	}
	m.join = to
	g.joining++
}

// addMember adds a member and rebalances.
func (t *turn) addMember(to coordinator.Token, e Join, g *group, id string) {
	req := e.Request
	m := &member{
		id: id, instance: req.InstanceID, clientID: e.ClientID, clientHost: e.ClientHost,
		rebalanceTimeoutMs: req.RebalanceTimeoutMillis, sessionTimeoutMs: req.SessionTimeoutMillis,
		protocols: req.Protocols, assignment: []byte{}, isNew: true, join: to,
	}
	if g.state == preparing && g.previous == empty {
		g.newcomers = true
	}
	g.add(m, req.ProtocolType)
	t.timer(sessionKey(g.name, id), newMemberTimeout, sessionExpired{g.name, id})
	t.log.Info().Str("group", g.name).Str("member", id).Str("client", e.ClientID).Msg("member joins group")
	t.maybeRebalance(g)
}

// replaceStatic gives a static member that has started anew a new id in the old
// one's place. Where the group is stable and would choose the same protocol,
// nobody else has to know.
func (t *turn) replaceStatic(to coordinator.Token, e Join, g *group, old *member, id string) {
	req := e.Request
	before := *old
	leader := g.leader
	t.answerJoin(g, old, joinError(old.id, protocol.ErrFencedInstanceID))
	t.answerSync(old, syncError(protocol.ErrFencedInstanceID))
	t.cancel(sessionKey(g.name, old.id))
	m := old
	g.rename(m, id)
	m.isNew = false
	t.update(g, m, req, to)
	t.session(g, m)
	t.log.Info().Str("group", g.name).Str("member", id).Str("replaced", before.id).Msg("static member starts anew")
	switch g.state {
	case stable:
		if g.selectProtocol() != g.protocolName() {
			t.maybeRebalance(g)
			return
		}
		t.write(g, func(m *member) []byte { return m.assignment })
		t.then(func(t *turn, err error) {
			if err != nil {
				t.restoreStatic(g, m, &before, leader, err)
				return
			}
			resp := t.joined(g, m, false)
			if req.Version >= 9 {
				// KIP-814: the leader is told all, and that there is nothing to assign.
				resp = t.joined(g, m, g.leader == id)
				resp.SkipAssignment = g.leader == id
			} else {
				// An old client that is told that it leads would assign, and
				// nobody would be asked for it.
				resp.LeaderID = leader
			}
			t.answerJoin(g, m, resp)
		})
	case completing:
		t.prepareRebalance(g)
	default:
		t.maybeCompleteJoin(g)
	}
}

// restoreStatic takes back a replacement that could not be written.
func (t *turn) restoreStatic(g *group, m, before *member, leader string, err error) {
	t.answerJoin(g, m, &kmsg.JoinGroupResponse{
		ErrorCode: int16(protocol.CodeOf(err)), Generation: g.generation, Protocol: g.protocol, ProtocolType: g.typeOrNil(), LeaderID: leader,
	})
	t.cancel(sessionKey(g.name, m.id))
	g.rename(m, before.id)
	g.count(m.protocols, -1)
	m.protocols = before.protocols
	g.count(m.protocols, 1)
	m.rebalanceTimeoutMs, m.sessionTimeoutMs = before.rebalanceTimeoutMs, before.sessionTimeoutMs
	t.session(g, m)
}

// rename gives a static member another id.
func (g *group) rename(m *member, id string) {
	delete(g.byID, m.id)
	delete(g.pendingSync, m.id)
	if g.leader == m.id {
		g.leader = id
	}
	m.id = id
	g.byID[id] = m
	g.static[*m.instance] = id
}

// joined is the answer to a join.
func (t *turn) joined(g *group, m *member, all bool) *kmsg.JoinGroupResponse {
	resp := &kmsg.JoinGroupResponse{
		Generation: g.generation, ProtocolType: g.typeOrNil(), Protocol: g.protocol, LeaderID: g.leader, MemberID: m.id,
	}
	if all {
		resp.Members = g.joinMembers()
	}
	return resp
}

// answerJoin answers a member that waits for its join, if it does.
func (t *turn) answerJoin(g *group, m *member, resp *kmsg.JoinGroupResponse) {
	if !m.awaitsJoin() {
		return
	}
	t.reply(m.join, resp)
	m.join = coordinator.NoToken
	g.joining--
}

// sessionExpired removes a member that was silent for too long.
func (t *turn) sessionExpired(e sessionExpired) {
	g := t.groups[e.group]
	if g == nil {
		return
	}
	if g.isPending(e.member) {
		g.remove(e.member)
		if g.state == preparing && g.allJoined() {
			t.completeJoin(g)
		}
		return
	}
	m := g.byID[e.member]
	if m == nil || !m.isNew && (m.awaitsJoin() || m.awaitsSync()) {
		return // who waits for us need not say that it lives
	}
	t.log.Info().Str("group", g.name).Str("member", m.id).Int32("session_timeout_ms", m.sessionTimeoutMs).Msg("member is silent: removed")
	t.answerJoin(g, m, joinError("", protocol.ErrUnknownMemberID))
	t.answerSync(m, syncError(protocol.ErrUnknownMemberID))
	g.remove(m.id)
	switch {
	case g.state == stable || g.state == completing:
		t.maybeRebalance(g)
	case g.state == preparing && g.allJoined():
		t.completeJoin(g)
	}
}

func nowMs(now time.Time) int64 { return now.UnixMilli() }

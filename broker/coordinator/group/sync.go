package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// sync handles SyncGroup: the leader brings the assignment, everybody takes
// their part of it.
func (t *turn) sync(to coordinator.Token, req *kmsg.SyncGroupRequest) {
	if req.Group == "" {
		t.reply(to, syncError(protocol.ErrInvalidGroupID))
		return
	}
	g := t.groups[req.Group]
	if g == nil || g.state == empty {
		t.reply(to, syncError(protocol.ErrUnknownMemberID))
		return
	}
	if err := g.validateSync(req); err != nil {
		t.reply(to, syncError(protocol.CodeOf(err)))
		return
	}
	m := g.byID[req.MemberID]
	switch g.state {
	case preparing:
		t.reply(to, syncError(protocol.ErrRebalanceInProgress))
	case stable:
		t.synced(g, m)
		t.reply(to, g.assigned(m))
	case completing:
		t.answerSync(m, syncError(protocol.ErrRebalanceInProgress)) // on another connection
		m.sync = to
		t.synced(g, m)
		if g.leader == m.id {
			t.assign(g, req.GroupAssignment)
		}
	}
}

func (g *group) validateSync(req *kmsg.SyncGroupRequest) error {
	if err := g.validate(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	differ := func(asked, have *string) bool { return asked != nil && have != nil && *asked != *have }
	switch {
	case req.Generation != g.generation:
		return protocol.ErrIllegalGeneration
	case differ(req.ProtocolType, g.typeOrNil()), differ(req.Protocol, g.protocol):
		return protocol.ErrInconsistentGroupProtocol
	}
	return nil
}

// synced notes that a member has asked for its assignment.
func (t *turn) synced(g *group, m *member) {
	delete(g.pendingSync, m.id)
	if len(g.pendingSync) == 0 {
		t.cancel(syncKey(g.name))
	}
}

// assign writes the assignment, and gives everybody theirs once it is in the log.
func (t *turn) assign(g *group, parts []kmsg.SyncGroupRequestGroupAssignment) {
	assignment := make(map[string][]byte, len(parts))
	for _, p := range parts {
		assignment[p.MemberID] = p.MemberAssignment
	}
	of := func(m *member) []byte {
		if p := assignment[m.id]; p != nil {
			return p
		}
		return []byte{}
	}
	t.write(g, of)
	t.then(func(t *turn, err error) {
		if err != nil {
			for _, m := range g.members {
				m.assignment = []byte{}
			}
			t.answerSyncs(g, protocol.CodeOf(err))
			t.maybeRebalance(g)
			return
		}
		for _, m := range g.members {
			m.assignment = of(m)
		}
		g.become(stable, nowMs(t.now))
		t.answerSyncs(g, protocol.None)
		t.log.Info().Str("group", g.name).Int32("generation", g.generation).Int("members", len(g.members)).Msg("group is stable")
	})
}

// assigned is the answer to a sync.
func (g *group) assigned(m *member) *kmsg.SyncGroupResponse {
	return &kmsg.SyncGroupResponse{ProtocolType: g.typeOrNil(), Protocol: g.protocol, MemberAssignment: m.assignment}
}

// answerSyncs answers all who wait for their assignment. Their sessions begin
// anew: nobody has heard of them while they waited.
func (t *turn) answerSyncs(g *group, code protocol.Error) {
	for _, m := range g.members {
		if !m.awaitsSync() {
			continue
		}
		resp := syncError(code)
		if code == protocol.None {
			resp = g.assigned(m)
		}
		t.answerSync(m, resp)
		t.session(g, m)
	}
}

func (t *turn) answerSync(m *member, resp *kmsg.SyncGroupResponse) {
	if !m.awaitsSync() {
		return
	}
	t.reply(m.sync, resp)
	m.sync = coordinator.NoToken
}

// heartbeat handles Heartbeat.
func (t *turn) heartbeat(to coordinator.Token, req *kmsg.HeartbeatRequest) {
	answer := func(code protocol.Error) { t.reply(to, &kmsg.HeartbeatResponse{ErrorCode: int16(code)}) }
	if req.Group == "" {
		answer(protocol.ErrInvalidGroupID)
		return
	}
	g := t.groups[req.Group]
	if g == nil {
		answer(protocol.ErrUnknownMemberID)
		return
	}
	if err := g.validate(req.MemberID, req.InstanceID); err != nil {
		answer(protocol.CodeOf(err))
		return
	}
	if req.Generation != g.generation {
		answer(protocol.ErrIllegalGeneration)
		return
	}
	t.session(g, g.byID[req.MemberID])
	if g.state == preparing {
		answer(protocol.ErrRebalanceInProgress)
		return
	}
	answer(protocol.None)
}

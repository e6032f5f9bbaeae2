package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// leave handles LeaveGroup: of one member, or of several whom an admin removes
// (KIP-345).
func (t *turn) leave(to coordinator.Token, req *kmsg.LeaveGroupRequest) {
	resp := &kmsg.LeaveGroupResponse{}
	if req.Group == "" {
		resp.ErrorCode = int16(protocol.ErrInvalidGroupID)
		t.reply(to, resp)
		return
	}
	g := t.groups[req.Group]
	left := false
	for _, who := range req.Members {
		r := kmsg.NewLeaveGroupResponseMember()
		r.MemberID, r.InstanceID = who.MemberID, who.InstanceID
		if err := t.leaveOne(g, who); err != nil {
			r.ErrorCode = int16(protocol.CodeOf(err))
		} else {
			left = true
		}
		resp.Members = append(resp.Members, r)
	}
	t.reply(to, resp)
	if left {
		switch g.state {
		case stable, completing:
			t.prepareRebalance(g)
		case preparing:
			t.maybeCompleteJoin(g)
		}
	}
}

func (t *turn) leaveOne(g *group, who kmsg.LeaveGroupRequestMember) error {
	if g == nil {
		return protocol.ErrUnknownMemberID
	}
	id := who.MemberID
	switch {
	case id == "":
		// By the instance id alone.
		if who.InstanceID == nil || g.static[*who.InstanceID] == "" {
			return protocol.ErrUnknownMemberID
		}
		id = g.static[*who.InstanceID]
	case g.isPending(id):
	default:
		if err := g.validate(id, who.InstanceID); err != nil {
			return err
		}
	}
	t.cancel(sessionKey(g.name, id))
	if m := g.byID[id]; m != nil {
		t.answerJoin(g, m, joinError("", protocol.ErrUnknownMemberID))
		t.answerSync(m, syncError(protocol.ErrUnknownMemberID))
	}
	g.remove(id)
	t.log.Info().Str("group", g.name).Str("member", id).Msg("member leaves group")
	return nil
}

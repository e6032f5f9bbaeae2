package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// Dead is the state that clients are told of a group which is not there, and
// Classic the type of all groups here.
const (
	Dead    = "Dead"
	Classic = "classic"
)

// describe handles one group of DescribeGroups.
func (t *turn) describe(to coordinator.Token, name string) {
	r := kmsg.NewDescribeGroupsResponseGroup()
	r.Group = name
	g := t.groups[name]
	if g == nil {
		r.State = Dead
		t.reply(to, &r)
		return
	}
	r.State, r.ProtocolType = string(g.state), g.protocolType
	if g.state == stable {
		r.Protocol = g.protocolName()
	}
	for _, m := range g.members {
		d := kmsg.NewDescribeGroupsResponseGroupMember()
		d.MemberID, d.InstanceID, d.ClientID, d.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		d.MemberAssignment, d.ProtocolMetadata = m.assignment, []byte{}
		if g.state == stable {
			d.ProtocolMetadata = m.metadata(g.protocolName())
		}
		r.Members = append(r.Members, d)
	}
	t.reply(to, &r)
}

// list handles ListGroups.
func (t *turn) list(to coordinator.Token, e List) {
	listed := []kmsg.ListGroupsResponseGroup{}
	passes := func(filter []string, value string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(s string) bool { return strings.EqualFold(s, value) })
	}
	if passes(e.Types, Classic) {
		for _, name := range slices.Sorted(maps.Keys(t.groups)) {
			g := t.groups[name]
			if !passes(e.States, string(g.state)) {
				continue
			}
			r := kmsg.NewListGroupsResponseGroup()
			r.Group, r.ProtocolType, r.GroupState, r.GroupType = name, g.protocolType, string(g.state), Classic
			listed = append(listed, r)
		}
	}
	t.reply(to, listed)
}

// deleteGroup handles one group of DeleteGroups.
func (t *turn) deleteGroup(to coordinator.Token, name string) {
	g := t.groups[name]
	switch {
	case g == nil:
		t.refuse(to, protocol.ErrGroupIDNotFound)
		return
	case g.state != empty:
		t.refuse(to, protocol.ErrNonEmptyGroup)
		return
	}
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		for _, partition := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			t.out.Records = append(t.out.Records, offsetTombstone(name, topic, partition))
		}
	}
	t.out.Records = append(t.out.Records, groupTombstone(name))
	t.log.Info().Str("group", name).Msg("group deleted")
	t.reply(to, nil)
}

package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// state is where a group is in its life. There is no Dead: that is a group which
// is not there.
type state string

// The states, by the names that clients see.
const (
	empty      state = "Empty"
	preparing  state = "PreparingRebalance"
	completing state = "CompletingRebalance"
	stable     state = "Stable"
)

// consumerType is the protocol type of consumers, whose metadata we can read.
const consumerType = "consumer"

// group is one group.
type group struct {
	name     string
	state    state
	previous state
	sinceMs  int64 // when the state began; −1: not known

	generation   int32
	protocolType string  // "": nobody ever joined
	protocol     *string // chosen for this generation
	leader       string  // "": none

	members []*member // in the order of joining
	byID    map[string]*member
	static  map[string]string // member ids by instance id (KIP-345)
	// pendingJoin were given an id and asked to join with it (KIP-394).
	pendingJoin map[string]struct{}
	// pendingSync have joined this generation and not asked for their assignment.
	pendingSync map[string]struct{}
	joining     int  // members that wait for their join's answer
	newcomers   bool // somebody joined during the initial delay
	// supported counts the members that know a protocol.
	supported map[string]int
	// subscribed are the topics that consumers subscribe to; nil: not known.
	subscribed map[string]struct{}

	offsets map[string]map[int32]offset // by topic
}

// member is one member of a group.
type member struct {
	id                   string
	instance             *string
	clientID, clientHost string
	rebalanceTimeoutMs   int32
	sessionTimeoutMs     int32
	protocols            []kmsg.JoinGroupRequestProtocol
	assignment           []byte
	isNew                bool // waits for its first assignment
	join, sync           coordinator.Token
}

func newGroup(name string) *group {
	return &group{
		name: name, state: empty, previous: empty, sinceMs: -1,
		byID: make(map[string]*member), static: make(map[string]string),
		pendingJoin: make(map[string]struct{}), pendingSync: make(map[string]struct{}),
		supported: make(map[string]int),
	}
}

func (m *member) awaitsJoin() bool { return m.join != coordinator.NoToken }
func (m *member) awaitsSync() bool { return m.sync != coordinator.NoToken }

// metadata is what the member sent for a protocol; empty where it does not know it.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return []byte{}
}

// sameProtocols tells whether a member joins with what it joined with before.
func (m *member) sameProtocols(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

func (g *group) has(id string) bool {
	_, ok := g.byID[id]
	return ok
}

func (g *group) isPending(id string) bool {
	_, ok := g.pendingJoin[id]
	return ok
}

func (g *group) become(s state, nowMs int64) {
	g.previous, g.state, g.sinceMs = g.state, s, nowMs
}

// allJoined tells whether nobody has to be waited for.
func (g *group) allJoined() bool { return len(g.members) == g.joining && len(g.pendingJoin) == 0 }

// rebalanceTimeoutMs is the longest that a member asked for.
func (g *group) rebalanceTimeoutMs() int32 {
	var longest int32
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeoutMs)
	}
	return longest
}

// protocolNames are distinct: a client may list one twice.
func protocolNames(protocols []kmsg.JoinGroupRequestProtocol) []string {
	var names []string
	for _, p := range protocols {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

func (g *group) count(protocols []kmsg.JoinGroupRequestProtocol, by int) {
	for _, name := range protocolNames(protocols) {
		if g.supported[name] += by; g.supported[name] == 0 {
			delete(g.supported, name)
		}
	}
}

// supports tells whether somebody with these protocols fits into the group.
func (g *group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if g.state == empty {
		return protocolType != "" && len(protocols) > 0
	}
	return g.protocolType == protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.supported[p.Name] == len(g.members)
	})
}

func (g *group) add(m *member, protocolType string) {
	if len(g.members) == 0 {
		g.protocolType = protocolType
	}
	if m.instance != nil {
		g.static[*m.instance] = m.id
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	g.count(m.protocols, 1)
	if m.awaitsJoin() {
		g.joining++
	}
	delete(g.pendingJoin, m.id)
}

// remove takes out a member, or an id that was given out. Its waits must have
// been answered.
func (g *group) remove(id string) {
	if m := g.byID[id]; m != nil {
		delete(g.byID, id)
		g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
		g.count(m.protocols, -1)
		if m.awaitsJoin() {
			g.joining--
		}
		if m.instance != nil {
			delete(g.static, *m.instance)
		}
		if g.leader == id {
			g.leader = ""
			if len(g.members) > 0 {
				g.leader = g.members[0].id
			}
		}
	}
	delete(g.pendingJoin, id)
	delete(g.pendingSync, id)
}

// electJoined makes sure that the leader is somebody who has joined. False:
// nobody has.
func (g *group) electJoined() bool {
	leader := g.byID[g.leader]
	if leader == nil {
		return false
	}
	if leader.awaitsJoin() {
		return true
	}
	for _, m := range g.members {
		if m.awaitsJoin() {
			g.leader = m.id
			return true
		}
	}
	return false
}

// selectProtocol is the protocol that all members know and most like best.
func (g *group) selectProtocol() string {
	votes := make(map[string]int)
	best := ""
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.supported[p.Name] == len(g.members) {
				votes[p.Name]++
				// Among equals it is the one whose votes were complete first.
				if best == "" || votes[p.Name] > votes[best] {
					best = p.Name
				}
				break
			}
		}
	}
	return best
}

// nextGeneration begins a generation of those who have joined.
func (g *group) nextGeneration(nowMs int64) {
	g.generation++
	if len(g.members) > 0 {
		chosen := g.selectProtocol()
		g.protocol = &chosen
		g.subscribed = g.subscriptions()
		g.become(completing, nowMs)
	} else {
		g.protocol = nil
		g.subscribed = g.subscriptions()
		g.become(empty, nowMs)
	}
	clear(g.pendingSync)
}

// joinMembers lists the members for the leader, who assigns.
func (g *group) joinMembers() []kmsg.JoinGroupResponseMember {
	members := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, m := range g.members {
		r := kmsg.NewJoinGroupResponseMember()
		r.MemberID, r.InstanceID, r.ProtocolMetadata = m.id, m.instance, m.metadata(g.protocolName())
		members = append(members, r)
	}
	return members
}

func (g *group) protocolName() string {
	if g.protocol == nil {
		return ""
	}
	return *g.protocol
}

// typeOrNil is the protocol type as answers have it.
func (g *group) typeOrNil() *string {
	if g.protocolType == "" {
		return nil
	}
	return &g.protocolType
}

// validate tells whether a member is who it says (KIP-345).
func (g *group) validate(id string, instance *string) error {
	if instance != nil {
		known, ok := g.static[*instance]
		if !ok {
			return protocol.ErrUnknownMemberID
		}
		if known != id {
			return protocol.ErrFencedInstanceID
		}
	}
	if !g.has(id) {
		return protocol.ErrUnknownMemberID
	}
	return nil
}

func (g *group) isSubscribed(topic string) bool {
	if g.subscribed == nil {
		return g.protocolType == consumerType
	}
	_, ok := g.subscribed[topic]
	return ok
}

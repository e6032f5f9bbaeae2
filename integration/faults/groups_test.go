//go:build integration

package faults

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// member is a member of a classic group, on a connection of its own, which does
// nothing by itself: no heartbeats, no joining again.
type member struct {
	*conn
	group, instance string
	topic           string // what it subscribes to
	session         time.Duration
	rebalance       time.Duration
	version         int16 // of JoinGroup

	id, leader string
	generation int32
}

// newMember waits for the group's coordinator and connects to it.
func newMember(t *testing.T, n *harness.Node, group string) *member {
	t.Helper()
	c := dial(t, n.Address)
	awaitCoordinator(c, group)
	return &member{conn: c, group: group, topic: "t", session: 30 * time.Second, rebalance: 30 * time.Second, version: 7}
}

// awaitCoordinator waits until the node answers for the group.
func awaitCoordinator(c *conn, group string) {
	c.t.Helper()
	eventually(c.t, group+" has a coordinator", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKeys = []string{group}
		if found := ask[*kmsg.FindCoordinatorResponse](c, 4, find).Coordinators[0]; found.ErrorCode != 0 {
			return false
		}
		return describeGroup(c, group).ErrorCode == 0
	})
}

func describeGroup(c *conn, group string) kmsg.DescribeGroupsResponseGroup {
	c.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	return ask[*kmsg.DescribeGroupsResponse](c, 5, req).Groups[0]
}

// awaitState waits for a state of the group.
func awaitState(c *conn, group, state string) {
	c.t.Helper()
	eventually(c.t, group+" is "+state, func() bool { return describeGroup(c, group).State == state })
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.group, m.id, "consumer"
	req.SessionTimeoutMillis = int32(m.session.Milliseconds())
	req.RebalanceTimeoutMillis = int32(m.rebalance.Milliseconds())
	if m.instance != "" {
		req.InstanceID = &m.instance
	}
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{m.topic}
	assignor := kmsg.NewJoinGroupRequestProtocol()
	assignor.Name, assignor.Metadata = "range", subscription.AppendTo(nil)
	req.Protocols = append(req.Protocols, assignor)
	return req
}

// sendJoin joins and does not wait for the answer. A dynamic member without an
// id is given one first.
func (m *member) sendJoin() {
	m.t.Helper()
	if m.id == "" && m.instance == "" && m.version >= 4 {
		resp := ask[*kmsg.JoinGroupResponse](m.conn, m.version, m.joinRequest())
		wantCode(m.t, "JoinGroup without an id", resp.ErrorCode, protocol.ErrMemberIDRequired)
		m.id = resp.MemberID
	}
	m.send(m.version, m.joinRequest())
}

// joined reads the answer to sendJoin.
func (m *member) joined() *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp := answer[*kmsg.JoinGroupResponse](m.conn)
	wantCode(m.t, "JoinGroup", resp.ErrorCode, protocol.None)
	m.id, m.generation, m.leader = resp.MemberID, resp.Generation, resp.LeaderID
	return resp
}

func (m *member) sendSync(assignments map[string]string) {
	m.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID = m.group, m.generation, m.id
	if m.instance != "" {
		req.InstanceID = &m.instance
	}
	for id, bytes := range assignments {
		assignment := kmsg.NewSyncGroupRequestGroupAssignment()
		assignment.MemberID, assignment.MemberAssignment = id, []byte(bytes)
		req.GroupAssignment = append(req.GroupAssignment, assignment)
	}
	m.send(3, req)
}

func (m *member) synced() *kmsg.SyncGroupResponse {
	m.t.Helper()
	resp := answer[*kmsg.SyncGroupResponse](m.conn)
	wantCode(m.t, "SyncGroup", resp.ErrorCode, protocol.None)
	return resp
}

// gather has members join one by one, those who are in join again, and leaves
// the group before SyncGroup.
func gather(members ...*member) {
	observer := dial(members[0].t, members[0].netConn.RemoteAddr().String())
	for i, m := range members {
		m.t.Helper()
		m.sendJoin()
		if i > 0 {
			awaitState(observer, m.group, "PreparingRebalance")
		}
		for _, other := range members[:i] {
			other.sendJoin()
		}
		for _, joined := range members[:i+1] {
			joined.joined()
		}
	}
}

// settle completes the rebalance: the leader gives every member its own id.
func settle(members ...*member) {
	assignments := map[string]string{}
	for _, m := range members {
		assignments[m.id] = m.id
	}
	for _, m := range members {
		m.t.Helper()
		if m.id == m.leader {
			m.sendSync(assignments)
		} else {
			m.sendSync(nil)
		}
	}
	for _, m := range members {
		m.synced()
	}
}

func (m *member) commit(topic string, offset int64) int16 {
	m.t.Helper()
	return commit(m.conn, m.group, topic, offset, -1, m.generation, m.id)
}

// commit commits an offset of partition 0. Without a member the generation is
// −1 and the member id empty.
func commit(c *conn, group, topic string, offset int64, leaderEpoch, generation int32, member string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = group, generation, member
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset, partition.LeaderEpoch = offset, leaderEpoch
	committed := kmsg.NewOffsetCommitRequestTopic()
	committed.Topic, committed.Partitions = topic, append(committed.Partitions, partition)
	req.Topics = append(req.Topics, committed)
	return ask[*kmsg.OffsetCommitResponse](c, 8, req).Topics[0].Partitions[0].ErrorCode
}

func offsetFetch(c *conn, group string, topics []kmsg.OffsetFetchRequestTopic) []kmsg.OffsetFetchResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = group, topics
	resp := ask[*kmsg.OffsetFetchResponse](c, 7, req)
	wantCode(c.t, "OffsetFetch", resp.ErrorCode, protocol.None)
	return resp.Topics
}

// fetchedOffset is what a group has committed on partition 0 of a topic.
func fetchedOffset(c *conn, group, topic string) kmsg.OffsetFetchResponseTopicPartition {
	c.t.Helper()
	named := kmsg.NewOffsetFetchRequestTopic()
	named.Topic, named.Partitions = topic, []int32{0}
	p := offsetFetch(c, group, []kmsg.OffsetFetchRequestTopic{named})[0].Partitions[0]
	wantCode(c.t, "OffsetFetch of "+topic, p.ErrorCode, protocol.None)
	return p
}

// wantCommitted compares what a group has committed on partition 0 of a topic,
// asked for by the topic's name and among all topics. −1 is nothing.
func wantCommitted(c *conn, group, topic string, offset int64, leaderEpoch int32) {
	c.t.Helper()
	if p := fetchedOffset(c, group, topic); p.Offset != offset || p.LeaderEpoch != leaderEpoch {
		c.t.Errorf("committed is offset %d of epoch %d, want %d of %d", p.Offset, p.LeaderEpoch, offset, leaderEpoch)
	}
	amongAll, epochAmongAll := int64(-1), int32(-1)
	for _, listed := range offsetFetch(c, group, nil) {
		if listed.Topic == topic {
			amongAll, epochAmongAll = listed.Partitions[0].Offset, listed.Partitions[0].LeaderEpoch
		}
	}
	if amongAll != offset || epochAmongAll != leaderEpoch {
		c.t.Errorf("among all topics offset %d of epoch %d is committed, want %d of %d", amongAll, epochAmongAll, offset, leaderEpoch)
	}
}

// TestB036CommittedLeaderEpoch: the leader epoch of a committed offset was lost
// for single topics and when the coordinator was loaded again.
func TestB036CommittedLeaderEpoch(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	with, without, group := createTopic(c), createTopic(c), unique(t, "group")
	awaitCoordinator(c, group)
	wantCode(t, "commit", commit(c, group, with, 5, 3, -1, ""), protocol.None)
	wantCode(t, "commit", commit(c, group, without, 6, -1, -1, ""), protocol.None)
	wantCommitted(c, group, with, 5, 3)
	wantCommitted(c, group, without, 6, -1)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		restart(n, signal)
		c = dial(t, n.Address)
		awaitCoordinator(c, group)
		wantCommitted(c, group, with, 5, 3)
		wantCommitted(c, group, without, 6, -1)
	}
}

// TestB108OffsetsOfADeletedTopic: offsets outlived the topic that they were
// committed on. A topic that is made anew under its name has none.
func TestB108OffsetsOfADeletedTopic(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic, group := createTopic(c), unique(t, "group")
	awaitCoordinator(c, group)
	wantCode(t, "commit", commit(c, group, topic, 5, -1, -1, ""), protocol.None)
	wantCommitted(c, group, topic, 5, -1)
	deleteTopic(c, topic)
	eventually(t, "the topic is gone", func() bool { return metadata(c, topic).ErrorCode != 0 })
	wantCode(t, "creation", tryCreateTopic(c, topic).ErrorCode, protocol.None)
	eventually(t, "the offset is gone", func() bool {
		return fetchedOffset(c, group, topic).Offset == -1
	})
	restart(n, syscall.SIGKILL)
	c = dial(t, n.Address)
	awaitCoordinator(c, group)
	wantCommitted(c, group, topic, -1, -1)
}

// TestB111DeletionOfOffsets: OffsetDelete took a topic for missing that had no
// offsets, and deleted the offsets of topics that a member subscribes to.
func TestB111DeletionOfOffsets(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	c := dial(t, n.Address)
	read, old, untouched := createTopic(c), createTopic(c), createTopic(c)
	m := newMember(t, n, unique(t, "group"))
	m.topic = read
	gather(m)
	settle(m)
	wantCode(t, "commit", m.commit(read, 1), protocol.None)
	wantCode(t, "commit", m.commit(old, 2), protocol.None)

	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = m.group
	topics := []string{read, old, untouched, "no.such.topic"}
	for _, topic := range topics {
		deleted := kmsg.NewOffsetDeleteRequestTopic()
		deleted.Topic, deleted.Partitions = topic, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
		req.Topics = append(req.Topics, deleted)
	}
	resp := ask[*kmsg.OffsetDeleteResponse](c, 0, req)
	wantCode(t, "OffsetDelete", resp.ErrorCode, protocol.None)
	codes := map[string]int16{}
	for _, topic := range resp.Topics {
		codes[topic.Topic] = topic.Partitions[0].ErrorCode
	}
	wantCode(t, "a topic that is subscribed to", codes[read], protocol.ErrGroupSubscribedToTopic)
	wantCode(t, "one that was", codes[old], protocol.None)
	wantCode(t, "one without offsets", codes[untouched], protocol.None)
	wantCode(t, "one that does not exist", codes["no.such.topic"], protocol.ErrUnknownTopicOrPartition)
	if len(codes) != len(topics) {
		t.Errorf("the answer has %d topics, want %d", len(codes), len(topics))
	}
	wantCommitted(c, m.group, read, 1, -1)
	wantCommitted(c, m.group, old, -1, -1)

	req.Group = unique(t, "nobody")
	wantCode(t, "a group that does not exist", ask[*kmsg.OffsetDeleteResponse](c, 0, req).ErrorCode, protocol.ErrGroupIDNotFound)
}

// TestB114GroupMaxSize: members who joined at once were more than a group may
// have.
func TestB114GroupMaxSize(t *testing.T) {
	t.Parallel()
	n := ownNode(t, "group.max.size=3", "group.initial.rebalance.delay.ms=500")
	group := unique(t, "group")
	var members []*member
	for range 10 {
		m := newMember(t, n, group)
		// The delay goes on as members join, to the rebalance timeout at most.
		m.rebalance = 2 * time.Second
		// Each has its id before any of them joins.
		resp := ask[*kmsg.JoinGroupResponse](m.conn, m.version, m.joinRequest())
		wantCode(t, "JoinGroup without an id", resp.ErrorCode, protocol.ErrMemberIDRequired, protocol.ErrGroupMaxSizeReached)
		m.id = resp.MemberID
		members = append(members, m)
	}
	for _, m := range members {
		m.send(m.version, m.joinRequest())
	}
	codes := map[protocol.Error]int{}
	for _, m := range members {
		codes[protocol.Error(answer[*kmsg.JoinGroupResponse](m.conn).ErrorCode)]++
	}
	if codes[protocol.None] != 3 || codes[protocol.ErrGroupMaxSizeReached] != 7 {
		t.Errorf("codes and how often they came: %v, want 3 without error and 7 GROUP_MAX_SIZE_REACHED", codes)
	}
	if got := len(describeGroup(dial(t, n.Address), group).Members); got != 3 {
		t.Errorf("%d members, want 3", got)
	}
}

// TestB116VanishedBeforeItsFirstRebalance: a new member whose connection ended
// before its JoinGroup was answered kept the others waiting for minutes. It
// expires like any member.
func TestB116VanishedBeforeItsFirstRebalance(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	group := unique(t, "group")
	first, vanished, other := newMember(t, n, group), newMember(t, n, group), newMember(t, n, group)
	vanished.session, vanished.rebalance = 6*time.Second, 5*time.Minute
	gather(first)
	settle(first)
	vanished.sendJoin()
	awaitState(other.conn, group, "PreparingRebalance")
	vanished.netConn.Close()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = group, first.id
	wantCode(t, "LeaveGroup", ask[*kmsg.LeaveGroupResponse](first.conn, 2, leave).ErrorCode, protocol.None)
	other.sendJoin()
	if resp := other.joined(); len(resp.Members) != 1 || resp.LeaderID != other.id {
		t.Errorf("%d members, leader %s, want %s alone", len(resp.Members), resp.LeaderID, other.id)
	}
}

// TestB117MembersWithoutConnections: a group stayed in PreparingRebalance with
// members whose connections were gone.
func TestB117MembersWithoutConnections(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	group := unique(t, "group")
	members := []*member{newMember(t, n, group), newMember(t, n, group), newMember(t, n, group)}
	for _, m := range members {
		m.session, m.rebalance = 6*time.Second, 5*time.Second
	}
	gather(members...)
	settle(members...)
	for _, m := range members {
		if m.id == m.leader { // whose joining again starts a rebalance
			m.sendJoin()
		}
	}
	observer := dial(t, n.Address)
	awaitState(observer, group, "PreparingRebalance")
	for _, m := range members {
		m.netConn.Close()
	}
	awaitState(observer, group, "Empty")
	if got := len(describeGroup(observer, group).Members); got != 0 {
		t.Errorf("%d members, want none", got)
	}
}

// TestB119RebalanceTimeoutOfAStaticMember: a static member that joined again
// kept the rebalance timeout of its first time. The rebalance that it does not
// answer ends by the new one. (A static member stays in the group then, as in
// Kafka: its session ends its membership.)
func TestB119RebalanceTimeoutOfAStaticMember(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	group := unique(t, "group")
	static := newMember(t, n, group)
	static.instance, static.session, static.rebalance = "one", 5*time.Minute, 5*time.Minute
	gather(static)
	settle(static)
	again := newMember(t, n, group)
	again.instance, again.session, again.rebalance = "one", 5*time.Minute, 2*time.Second
	again.sendJoin()
	again.joined()
	again.sendSync(map[string]string{again.id: "a"})
	again.synced()
	other := newMember(t, n, group)
	other.rebalance = time.Second
	other.sendJoin()
	started := time.Now()
	other.joined() // within patience, which is much less than five minutes
	if took := time.Since(started); took < 1500*time.Millisecond {
		t.Errorf("the rebalance ended after %s, want the 2 s of the member that did not join", took)
	}
}

// TestB120ExpiryDuringARebalance: offsets of a group that was in a rebalance
// expired, because nobody knew then what its members subscribe to. None do while
// a group is neither stable nor empty.
func TestB120ExpiryDuringARebalance(t *testing.T) {
	t.Parallel()
	n := ownNode(t, "offsets.retention.check.interval.ms=50", "offsets.topic.num.partitions=1")
	c := dial(t, n.Address)
	topic := createTopic(c)
	busy := newMember(t, n, unique(t, "busy"))
	busy.topic = topic
	gather(busy)
	settle(busy)
	// This version says itself for how long an offset is kept.
	briefly := func(group string, generation int32, member string) {
		t.Helper()
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation, req.MemberID, req.RetentionTimeMillis = group, generation, member, 1
		committed := kmsg.NewOffsetCommitRequestTopic()
		committed.Topic, committed.Partitions = topic, []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}
		req.Topics = append(req.Topics, committed)
		wantCode(t, "commit", ask[*kmsg.OffsetCommitResponse](c, 2, req).Topics[0].Partitions[0].ErrorCode, protocol.None)
	}
	briefly(busy.group, busy.generation, busy.id)
	busy.sendJoin() // as the leader: a rebalance begins, and nobody completes it
	busy.joined()
	awaitState(c, busy.group, "CompletingRebalance")
	for range 2 { // the second of them: a whole check after the first one's
		idle := unique(t, "idle")
		awaitCoordinator(c, idle)
		briefly(idle, -1, "")
		eventually(t, "the offset of a group without members has expired", func() bool {
			return fetchedOffset(c, idle, topic).Offset == -1
		})
		wantCommitted(c, busy.group, topic, 5, -1)
	}
}

// TestB123GenerationsAndAssignments: the generation went up with every
// JoinGroup, and SyncGroup took assignments from any member. It goes up once
// for a rebalance, and only the leader's assignments count.
func TestB123GenerationsAndAssignments(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	group := unique(t, "group")
	leader, follower := newMember(t, n, group), newMember(t, n, group)
	gather(leader, follower)
	if leader.generation != 2 || follower.generation != 2 {
		t.Errorf("generations %d and %d, want 2: there were two rebalances", leader.generation, follower.generation)
	}
	if leader.id != leader.leader {
		leader, follower = follower, leader
	}
	follower.sendSync(map[string]string{leader.id: "from the follower", follower.id: "from the follower"})
	leader.sendSync(map[string]string{leader.id: "for the leader", follower.id: "for the follower"})
	if got := leader.synced(); string(got.MemberAssignment) != "for the leader" {
		t.Errorf("the leader's assignment is %q", got.MemberAssignment)
	}
	if got := follower.synced(); string(got.MemberAssignment) != "for the follower" {
		t.Errorf("the follower's assignment is %q", got.MemberAssignment)
	}
	leader.sendJoin()
	awaitState(dial(t, n.Address), group, "PreparingRebalance")
	follower.sendJoin()
	leader.joined()
	follower.joined()
	if leader.generation != 3 || follower.generation != 3 {
		t.Errorf("generations %d and %d, want 3", leader.generation, follower.generation)
	}
}

// TestB126CommitsAroundARebalance: commits of members who are behind got errors
// that clients do not know how to take.
func TestB126CommitsAroundARebalance(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	topic := createTopic(dial(t, n.Address))
	m := newMember(t, n, unique(t, "group"))
	m.topic = topic
	gather(m)
	wantCode(t, "before SyncGroup", m.commit(topic, 1), protocol.ErrRebalanceInProgress)
	settle(m)
	wantCode(t, "in a stable group", m.commit(topic, 1), protocol.None)
	before := m.generation
	m.sendJoin()
	m.joined()
	settle(m)
	if m.generation != before+1 {
		t.Fatalf("generation %d after %d", m.generation, before)
	}
	m.generation = before
	wantCode(t, "with the generation before", m.commit(topic, 2), protocol.ErrIllegalGeneration)
	m.generation, m.id = before+1, fmt.Sprintf("stranger-%d", rand.Uint32())
	wantCode(t, "of a stranger", m.commit(topic, 3), protocol.ErrUnknownMemberID)
	wantCommitted(m.conn, m.group, topic, 1, -1)
}

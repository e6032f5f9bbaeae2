package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// The events that a Machine handles. What they hold is the machine's: bytes are
// not shared with a request's frame. Answers are kmsg responses without version
// and throttle time, but for the types below.
type (
	// Join is answered with a *kmsg.JoinGroupResponse, maybe much later.
	Join struct {
		Request              *kmsg.JoinGroupRequest
		ClientID, ClientHost string
		// Fresh makes the id of a new member unique.
		Fresh string
	}
	// Sync is answered with a *kmsg.SyncGroupResponse, maybe much later.
	Sync struct{ Request *kmsg.SyncGroupRequest }
	// Heartbeat is answered with a *kmsg.HeartbeatResponse.
	Heartbeat struct{ Request *kmsg.HeartbeatRequest }
	// Leave is answered with a *kmsg.LeaveGroupResponse. Members are listed as
	// from v3 on.
	Leave struct{ Request *kmsg.LeaveGroupRequest }
	// Describe is answered with a *kmsg.DescribeGroupsResponseGroup.
	Describe struct{ Group string }
	// List is answered with a []kmsg.ListGroupsResponseGroup. Empty filters let
	// everything through; letter case does not matter.
	List struct{ States, Types []string }
	// Delete is answered with nil, or an error.
	Delete struct{ Group string }
	// Commit is answered with a []Committed, one per offset, or an error.
	Commit struct {
		Group, Member string
		Instance      *string
		Generation    int32
		// RetentionMs is how long the offsets are kept, −1 for as long as the
		// broker says (OffsetCommit v2 to v4).
		RetentionMs int64
		// FromNine says that a group which is not there has a code of its own
		// (OffsetCommit v9).
		FromNine bool
		Offsets  []NewOffset
	}
	// Fetch is answered with a []FoundOffset, or an error. All asks for whatever
	// there is; else there is one answer per Partitions.
	Fetch struct {
		Group      string
		All        bool
		Partitions []TopicIDPartition
	}
	// DeleteOffsets is answered with a []Committed, one per partition, or an error.
	DeleteOffsets struct {
		Group      string
		Partitions []protocol.TopicPartition
	}
	// TopicsDeleted tells that topics are gone, with their ids; nobody waits.
	TopicsDeleted struct{ Topics map[string]protocol.UUID }
)

// TopicIDPartition is a partition of a topic that may have a successor of the
// same name. A zero ID means that it is not known.
type TopicIDPartition struct {
	Topic     string
	ID        protocol.UUID
	Partition int32
}

// NewOffset is an offset to commit.
type NewOffset struct {
	TopicIDPartition
	Offset      int64
	LeaderEpoch int32 // −1: not known
	Metadata    string
}

// Committed is what became of one partition of a Commit or DeleteOffsets.
type Committed struct {
	Topic     string
	Partition int32
	Err       protocol.Error
}

// FoundOffset is a committed offset; −1 where there is none.
type FoundOffset struct {
	TopicIDPartition
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// The events of timers.
type (
	sessionExpired struct{ group, member string }
	joinExpired    struct{ group string }
	initialDelay   struct {
		group            string
		delay, remaining int32
	}
	syncExpired struct {
		group      string
		generation int32
	}
	retentionCheck struct{}
)

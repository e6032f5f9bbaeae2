package protocol

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// Integers of the protocol that would be swapped by mistake if they were plain.
type (
	// NodeID is a broker's or controller's node.id; −1 means none.
	NodeID int32
	// LeaderEpoch is bumped per leader change of a partition and fences
	// readers and writers (KIP-101, KIP-320); −1 means unknown.
	LeaderEpoch int32
	// PartitionEpoch is bumped per change of a partition's registration.
	PartitionEpoch int32
	// BrokerEpoch is given at registration and fences an earlier life of the
	// broker (KIP-631, KIP-903); −1 means none.
	BrokerEpoch int64
	// ControllerEpoch is the Raft term of the metadata log.
	ControllerEpoch int32
)

// NoNode is the node id that stands for nobody: no leader, a consumer's replica id.
const NoNode NodeID = -1

// Int32s are node ids as requests and answers have them. It is never nil: null
// would mean that nobody knows.
func Int32s(ids []NodeID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// MetadataTopic is the name of the metadata log's topic; it has one partition, 0.
const MetadataTopic = "__cluster_metadata"

// UUID is Kafka's 16-byte id of topics, directories and incarnations.
type UUID [16]byte

// Reserved ids. Kafka gives none of them to a topic or directory (Uuid.java).
var (
	// ZeroUUID means no id.
	ZeroUUID UUID
	// MetadataTopicID is the topic id of the metadata log. As a directory id
	// the same value means that no directory has been assigned yet.
	MetadataTopicID = UUID{15: 1}
	// UnassignedDir is the directory id of a replica whose broker has not
	// chosen yet among several (KIP-858).
	UnassignedDir = UUID{15: 1}
	// LostDir is the directory id of a replica whose directory is gone (KIP-858).
	LostDir = UUID{15: 2}
	// MigratingDir is the directory id written by brokers that know no directories.
	MigratingDir = UUID{}
)

// NewUUID returns a random id in Kafka's form: a version 4 UUID whose text does
// not begin with a dash and which is none of the reserved ones (Uuid.randomUuid).
func NewUUID() UUID {
	for {
		var id UUID
		// Since Go 1.24 Read never returns an error.
		_, _ = rand.Read(id[:])
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// ParseUUID reads the 22-character text that String returns.
func ParseUUID(s string) (UUID, error) {
	var id UUID
	if len(s) != 22 {
		return id, fmt.Errorf("id %q has %d characters, want 22 of URL-safe base64", s, len(s))
	}
	if _, err := base64.RawURLEncoding.Decode(id[:], []byte(s)); err != nil {
		return UUID{}, fmt.Errorf("id %q is not URL-safe base64: %w", s, err)
	}
	return id, nil
}

// String returns the id as URL-safe base64 without padding, as Kafka prints it.
func (id UUID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic-partition, which is also the name of the replica's directory.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

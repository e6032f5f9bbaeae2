package quota

import (
	"strconv"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// Replicas says of which partitions of a topic one broker's replicas are held to
// a rate. The zero value is none.
type Replicas struct {
	all        bool
	partitions map[int32]struct{}
}

// ReplicasOf reads the value of leader.replication.throttled.replicas, or of the
// follower's: "*" for all, or PARTITION:BROKER items, of which those of one broker
// count. What is no such item was refused when it was set.
func ReplicasOf(items []string, broker protocol.NodeID) Replicas {
	var out Replicas
	for _, item := range items {
		if item == "*" {
			return Replicas{all: true}
		}
		partition, at, _ := strings.Cut(item, ":")
		id, err := strconv.ParseInt(partition, 10, 32)
		node, failed := strconv.ParseInt(at, 10, 32)
		if err != nil || failed != nil || protocol.NodeID(node) != broker {
			continue
		}
		if out.partitions == nil {
			out.partitions = make(map[int32]struct{})
		}
		out.partitions[int32(id)] = struct{}{}
	}
	return out
}

// Has tells whether the replica of a partition is among them.
func (r Replicas) Has(partition int32) bool {
	_, ok := r.partitions[partition]
	return r.all || ok
}

package storage

import (
	"fmt"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// partition.metadata holds two lines, the last without an end:
//
//	version: 0
//	topic_id: <22 characters>
const (
	partitionMetaVersion = "version: 0"
	partitionMetaTopic   = "topic_id: "
)

func formatPartitionMetadata(id protocol.UUID) []byte {
	return []byte(partitionMetaVersion + "\n" + partitionMetaTopic + id.String())
}

func parsePartitionMetadata(data []byte) (protocol.UUID, error) {
	version, rest, _ := strings.Cut(string(data), "\n")
	if version != partitionMetaVersion {
		return protocol.UUID{}, fmt.Errorf("line 1: %q, want %q", version, partitionMetaVersion)
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(rest, "\n"), partitionMetaTopic)
	if !ok {
		return protocol.UUID{}, fmt.Errorf("line 2: %q has no topic_id", rest)
	}
	id, err := protocol.ParseUUID(text)
	if err != nil {
		return protocol.UUID{}, fmt.Errorf("line 2: %w", err)
	}
	if id == protocol.ZeroUUID {
		return protocol.UUID{}, fmt.Errorf("line 2: topic id %s stands for none", id)
	}
	return id, nil
}

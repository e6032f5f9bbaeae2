package storage

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// Suffixes of the files in a replica's directory. N is a base offset.
const (
	logSuffix         = ".log"
	indexSuffix       = ".index"
	timeIndexSuffix   = ".timeindex"
	txnIndexSuffix    = ".txnindex"
	snapshotSuffix    = ".snapshot"
	deletedSuffix     = ".deleted"
	cleanedSuffix     = ".cleaned"
	swapSuffix        = ".swap"
	tmpSuffix         = ".tmp"
	keptAsideSuffix   = ".corrupt"
	offsetDigits      = 20
	epochsFile        = "leader-epoch-checkpoint"
	partitionMetaFile = "partition.metadata"
)

// fileName returns the name of a segment's file.
func fileName(base int64, suffix string) string {
	return fmt.Sprintf("%0*d%s", offsetDigits, base, suffix)
}

// parseFileName returns the base offset of a file name with that suffix.
func parseFileName(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != offsetDigits {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 {
		return 0, false
	}
	return base, true
}

// Suffixes of directories in a log directory: <topic>-<partition>.<id>-suffix.
const (
	deleteDirSuffix = "-delete"
	futureDirSuffix = "-future"
	strayDirSuffix  = "-stray"
	remoteIndexDir  = "remote-log-index-cache"
	maxNameLength   = 255
)

// dirKind is what the name of a directory in a log directory says it is.
type dirKind int

const (
	dirUnknown dirKind = iota // Kafka refuses to start on it, and so do we
	dirLog
	dirDeleted
	dirFuture
	dirStray
	dirIgnored // the metadata log, the cache of remote indexes
)

// parseDirName tells what a directory is and whose.
func parseDirName(name string) (protocol.TopicPartition, dirKind) {
	if name == remoteIndexDir {
		return protocol.TopicPartition{}, dirIgnored
	}
	kind := dirLog
	for suffix, k := range map[string]dirKind{
		deleteDirSuffix: dirDeleted, futureDirSuffix: dirFuture, strayDirSuffix: dirStray,
	} {
		rest, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		// A topic may be called "x-0.y-delete-"; only the part after the last
		// dot is the unique id, as Kafka's pattern has it.
		if dot := strings.LastIndexByte(rest, '.'); dot > 0 && dot < len(rest)-1 {
			name, kind = rest[:dot], k
		}
	}
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return protocol.TopicPartition{}, dirUnknown
	}
	partition, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || partition < 0 {
		return protocol.TopicPartition{}, dirUnknown
	}
	tp := protocol.TopicPartition{Topic: name[:dash], Partition: int32(partition)}
	if tp.Topic == protocol.MetadataTopic && kind == dirLog {
		kind = dirIgnored
	}
	return tp, kind
}

// retiredDirName returns a name for a directory that is to be deleted or that
// has strayed. A long topic name is cut so that the whole stays a file name.
func retiredDirName(tp protocol.TopicPartition, id protocol.UUID, suffix string) string {
	tail := fmt.Sprintf("-%d.%x%s", tp.Partition, id[:], suffix)
	return tp.Topic[:min(len(tp.Topic), maxNameLength-len(tail))] + tail
}

package storage

import (
	"math"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// LogConfig are the settings of one log. They can change while it is open.
type LogConfig struct {
	// SegmentBytes is the size at which a segment is closed and the next begun:
	// larger ones mean fewer files, smaller ones finer retention and a shorter
	// recovery. An append is never split, so it also bounds one. segment.bytes.
	SegmentBytes int32
	// SegmentMs is the age in ms at which a segment that holds anything is
	// closed at the next append, by the records' time. segment.ms.
	SegmentMs int64
	// SegmentJitterMs is taken off SegmentMs, so that the logs of a topic do not
	// all roll at once. The caller draws it. segment.jitter.ms.
	SegmentJitterMs int64
	// IndexIntervalBytes is how much log lies between two index entries: less
	// means larger indexes and shorter scans. index.interval.bytes.
	IndexIntervalBytes int32
	// SegmentIndexBytes bounds an index; a full one closes the segment.
	// segment.index.bytes.
	SegmentIndexBytes int32
	// FlushMessages is the number of unsynced records from which an append asks
	// for a flush before it is answered. 1 makes every answer durable; the
	// default leaves it to the page cache and the other replicas. flush.messages.
	FlushMessages int64
	// FlushMs is the longest time in ms that an appended record stays unsynced.
	// The default leaves it to the page cache. flush.ms.
	FlushMs int64
	// RetentionMs is the age in ms beyond which records may go, −1 for never: less
	// means less disk, and less time for a reader that fell behind. The caller
	// sets it to −1 where the topic's policy is not to delete. retention.ms.
	RetentionMs int64
	// RetentionBytes is the size that stays when older segments go; −1 for no
	// bound. −1 likewise without the policy. retention.bytes.
	RetentionBytes int64
	// ProducerIDExpirationMs is how long in ms a silent producer's sequence is
	// remembered. producer.id.expiration.ms.
	ProducerIDExpirationMs int64
	// DeleteDelayMs is how long in ms a deleted log stays under its -delete name,
	// for whoever still reads it by its path. file.delete.delay.ms.
	DeleteDelayMs int64
}

// DefaultLogConfig returns Kafka's defaults.
func DefaultLogConfig() LogConfig {
	return LogConfig{
		SegmentBytes:           1 << 30,
		SegmentMs:              (7 * 24 * time.Hour).Milliseconds(),
		IndexIntervalBytes:     4096,
		SegmentIndexBytes:      10 << 20,
		FlushMessages:          math.MaxInt64,
		FlushMs:                math.MaxInt64,
		RetentionMs:            (7 * 24 * time.Hour).Milliseconds(),
		RetentionBytes:         -1,
		ProducerIDExpirationMs: (24 * time.Hour).Milliseconds(),
		DeleteDelayMs:          time.Minute.Milliseconds(),
	}
}

// LogOptions say how a log is opened.
type LogOptions struct {
	Config LogConfig
	// TopicID is written to partition.metadata where that is missing; where it
	// is there the two must agree. Zero: take what is there.
	TopicID protocol.UUID
	// Clean: the log was closed in order, so its files can be believed.
	Clean bool
	// RecoveryPoint is the offset below which everything was synced: an unclean
	// log is checked from the segment that holds it.
	RecoveryPoint int64
	// LogStartOffset is the first offset that counts, from the checkpoint. The
	// first segment's base counts where that is larger.
	LogStartOffset int64
	// Dir is the log directory that the log is in: if one of them fails the other
	// does. Nil: the log stands alone.
	Dir *Dir
	// FlushSoon is called when a segment has been closed and should be synced by
	// somebody's Flush. It is called under the log's lock and must not block.
	// Nil: nobody does, until Flush is called.
	FlushSoon func(*Log)
	// FlushWithin is called when something was appended that somebody should sync
	// in that time. It is called under the log's lock and must not block. Nil:
	// nobody does.
	FlushWithin func(*Log, time.Duration)
	// BeforeTruncate is called when the log is about to be cut to an offset
	// below its recovery point, before anything is cut. Nothing appended later
	// may be taken for synced, so it makes the lower point durable.
	BeforeTruncate func(recoveryPoint int64) error
	// SaveLogStart makes a log start durable. Nil: nobody does.
	SaveLogStart func(start int64) error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

package replica

import (
	"fmt"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// Timestamps of ListOffsets with a meaning of their own (ListOffsetsRequest.java).
const (
	// LatestTimestamp is the end of what the asker may read.
	LatestTimestamp int64 = -1
	// EarliestTimestamp is the log start.
	EarliestTimestamp int64 = -2
	// MaxTimestamp is the first record with the largest timestamp (KIP-734).
	MaxTimestamp int64 = -3
	// EarliestLocal is the first offset on this disk: without tiered storage
	// the log start (KIP-405).
	EarliestLocal int64 = -4
	// LatestTiered is the last offset in tiered storage: none (KIP-1005).
	LatestTiered int64 = -5
	// EarliestPendingUpload is the first offset that is to be tiered: none
	// (KIP-1023).
	EarliestPendingUpload int64 = -6
)

// ListOffsetRequest asks for the offset that belongs to a timestamp.
type ListOffsetRequest struct {
	Timestamp          int64 // ms, or one of the constants above
	ReadCommitted      bool
	Client             bool // a consumer; replicas see up to the log end
	FollowerToo        bool // a debugging tool, which may ask any replica
	CurrentLeaderEpoch protocol.LeaderEpoch
}

// FoundOffset is an offset, the timestamp of its record where one was looked
// for, and the leader epoch of the record, or −1 each.
type FoundOffset struct {
	Timestamp   int64
	Offset      int64
	LeaderEpoch protocol.LeaderEpoch
}

var noOffset = FoundOffset{Timestamp: -1, Offset: -1, LeaderEpoch: -1}

// ListOffset finds the offset.
func (p *Partition) ListOffset(req ListOffsetRequest) (FoundOffset, error) {
	p.mu.Lock()
	log, highWatermark, epochStart := p.log, p.highWatermark, p.epochStart
	leaderEpoch := p.leaderEpoch
	err := p.checkReaderLocked(req.CurrentLeaderEpoch, req.FollowerToo)
	if p.role == roleFollower {
		epochStart = 0
	}
	p.mu.Unlock()
	if err != nil {
		return noOffset, err
	}
	end := log.LEO() // exclusive bound of what the asker may see
	var lagging error
	if req.Client {
		end = highWatermark
		if req.ReadCommitted {
			end = log.LastStableOffset(highWatermark)
		}
		if epochStart > highWatermark {
			// A new leader that does not know yet what was committed before it
			// must not send consumers backwards (KIP-207).
			lagging = fmt.Errorf("high watermark %d of %s is below %d, where its leader epoch began: %w",
				highWatermark, p.tp, epochStart, protocol.ErrOffsetNotAvailable)
		}
	}
	switch req.Timestamp {
	case LatestTimestamp:
		if lagging != nil {
			return noOffset, lagging
		}
		return FoundOffset{Timestamp: -1, Offset: end, LeaderEpoch: leaderEpoch}, nil
	case EarliestTimestamp, EarliestLocal:
		start := log.LogStartOffset()
		return FoundOffset{Timestamp: -1, Offset: start, LeaderEpoch: log.EpochFor(start)}, nil
	case LatestTiered, EarliestPendingUpload:
		return noOffset, lagging
	}
	found, err := lookup(log, req.Timestamp)
	if err != nil {
		return noOffset, fmt.Errorf("look for timestamp %d in %s: %w", req.Timestamp, p.tp, err)
	}
	if found.Offset < 0 || found.Offset >= end {
		return noOffset, lagging
	}
	return found, nil
}

// lookup finds a record by its timestamp.
func lookup(log Log, timestamp int64) (FoundOffset, error) {
	var found storage.TimestampOffset
	var ok bool
	var err error
	if timestamp == MaxTimestamp {
		found, ok, err = log.OffsetOfMaxTimestamp()
	} else {
		found, ok, err = log.OffsetForTimestamp(timestamp)
	}
	if err != nil || !ok {
		return noOffset, err
	}
	return FoundOffset{Timestamp: found.TimestampMs, Offset: found.Offset, LeaderEpoch: found.Epoch}, nil
}

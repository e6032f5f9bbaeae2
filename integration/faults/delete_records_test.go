//go:build integration

package faults

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// deleteRecords trims a log; −1 asks for all of it.
func deleteRecords(c *conn, topic string, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	partition := kmsg.NewDeleteRecordsRequestTopicPartition()
	partition.Offset = offset
	trimmed := kmsg.NewDeleteRecordsRequestTopic()
	trimmed.Topic, trimmed.Partitions = topic, append(trimmed.Partitions, partition)
	req.Topics = append(req.Topics, trimmed)
	return ask[*kmsg.DeleteRecordsResponse](c, 2, req).Topics[0].Partitions[0]
}

func mustDeleteRecords(c *conn, topic string, offset, low int64) {
	c.t.Helper()
	p := deleteRecords(c, topic, offset)
	wantCode(c.t, fmt.Sprintf("DeleteRecords(%d)", offset), p.ErrorCode, protocol.None)
	if p.LowWatermark != low {
		c.t.Errorf("DeleteRecords(%d): low watermark %d, want %d", offset, p.LowWatermark, low)
	}
}

// TestB014FetchBelowTheStart: a fetch below the start of the log whose last
// fetched epoch diverged was answered with success. It is out of range
// whatever the epoch.
func TestB014FetchBelowTheStart(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	mustProduce(c, topic, ten...)
	mustDeleteRecords(c, topic, 5, 5)
	for _, epoch := range []int32{-1, 0, 999} {
		p := fetchPartition(2)
		p.LastFetchedEpoch = epoch
		wantCode(t, "fetch below the start", fetch(c, topic, p).ErrorCode, protocol.ErrOffsetOutOfRange)
	}
}

// TestB021EndsOfAnEmptyLog: a log that is empty, or trimmed to nothing, had the
// wrong end. It ends where it ended, after a restart too.
func TestB021EndsOfAnEmptyLog(t *testing.T) {
	t.Parallel()
	n := ownNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	wantOffsets(c, topic, 0, 0)
	mustProduce(c, topic, ten...)
	mustDeleteRecords(c, topic, -1, 10)
	wantOffsets(c, topic, 10, 10)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		restart(n, signal)
		c = dial(t, n.Address)
		wantOffsets(c, topic, 10, 10)
	}
	if p := produce(c, topic, records(batch.Options{}, "a")); p.ErrorCode != 0 || p.BaseOffset != 10 {
		t.Errorf("the next record: code %d, offset %d, want 0 and 10", p.ErrorCode, p.BaseOffset)
	}
}

// TestB029DeleteRecordsBelowTheStart: DeleteRecords at or below the start of
// the log was out of range. There is nothing to do, and that succeeds.
func TestB029DeleteRecordsBelowTheStart(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	mustProduce(c, topic, ten...)
	mustDeleteRecords(c, topic, 5, 5)
	mustDeleteRecords(c, topic, 3, 5)
	mustDeleteRecords(c, topic, 5, 5)
	wantOffsets(c, topic, 5, 10)
}

// TestB030DeleteRecordsOutOfRange: −1 means the high watermark; other negative
// offsets and those above it are out of range, and a topic that is only
// compacted has no records to delete.
func TestB030DeleteRecordsOutOfRange(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	mustProduce(c, topic, ten...)
	for _, offset := range []int64{-2, 11} {
		wantCode(t, "DeleteRecords", deleteRecords(c, topic, offset).ErrorCode, protocol.ErrOffsetOutOfRange)
	}
	wantOffsets(c, topic, 0, 10)
	mustDeleteRecords(c, topic, -1, 10)
	compacted := createTopic(c, "cleanup.policy", "compact")
	mustProduce(c, compacted, "a")
	wantCode(t, "DeleteRecords of a compacted topic", deleteRecords(c, compacted, 0).ErrorCode, protocol.ErrPolicyViolation)
	wantOffsets(c, compacted, 0, 1)
}

package node

import (
	"testing"

	"github.com/klamm/klamm/config"
	cluster "github.com/klamm/klamm/metadata"
)

// TestTopicConfigsReachTheLog: what server.properties says for all topics is what
// their logs go by.
func TestTopicConfigsReachTheLog(t *testing.T) {
	configs := configs{static: config.FromMap(map[string]string{
		"producer.id.expiration.ms": "7",
		"log.segment.bytes":         "2000000", "log.roll.ms": "1", "log.roll.jitter.ms": "9",
		"log.index.interval.bytes": "3", "log.index.size.max.bytes": "400",
		"log.flush.interval.messages": "5", "log.flush.interval.ms": "11", "log.retention.ms": "6", "log.retention.bytes": "8",
		"log.segment.delete.delay.ms": "10",
	})}
	got := configs.topic(cluster.Empty(), "t").Log
	want := got
	want.SegmentBytes, want.SegmentMs, want.SegmentJitterMs = 2_000_000, 1, 1
	want.IndexIntervalBytes, want.SegmentIndexBytes = 3, 400
	want.FlushMs = 11
	want.FlushMessages, want.RetentionMs, want.RetentionBytes = 5, 6, 8
	want.ProducerIDExpirationMs, want.DeleteDelayMs = 7, 10
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

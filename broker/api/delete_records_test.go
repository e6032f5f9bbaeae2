package api

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// deletableTopic creates a topic whose records may be deleted.
func (w *dataWorld) deletableTopic(name string, replicas ...protocol.NodeID) protocol.UUID {
	cfg := worldConfig()
	cfg.Deletes = true
	w.config[name] = cfg
	return w.topic(name, 1, 1, replicas...)
}

func deleteRequest(timeoutMs int32, topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, timeoutMs
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// deleted is what is answered: error and low watermark.
func (w *dataWorld) deleted(req *kmsg.DeleteRecordsRequest) string {
	w.t.Helper()
	resp := w.ask(req).(*kmsg.DeleteRecordsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		w.t.Fatalf("answer %+v", resp)
	}
	p := &resp.Topics[0].Partitions[0]
	return fmt.Sprintf("%s %d", protocol.Error(p.ErrorCode), p.LowWatermark)
}

func TestDeleteRecords(t *testing.T) {
	w := newDataWorld(t)
	w.deletableTopic("t")
	w.topic("compacted", 1, 1)
	w.topic(protocol.OffsetsTopic, 1, 1)
	w.mustProduce("t", 10)
	for _, tc := range []struct {
		topic     string
		partition int32
		offset    int64
		want      string
	}{
		{"t", 0, 5, "NONE 5"},
		{"t", 0, 3, "NONE 5"},
		{"t", 0, -2, "OFFSET_OUT_OF_RANGE -1"},
		{"t", 0, 11, "OFFSET_OUT_OF_RANGE -1"},
		{"t", 1, 0, "UNKNOWN_TOPIC_OR_PARTITION -1"},
		{"none", 0, 0, "UNKNOWN_TOPIC_OR_PARTITION -1"},
		{"compacted", 0, 0, "POLICY_VIOLATION -1"},
		{protocol.OffsetsTopic, 0, 0, "INVALID_TOPIC_EXCEPTION -1"},
		{"t", 0, -1, "NONE 10"},
	} {
		if got := w.deleted(deleteRequest(5000, tc.topic, tc.partition, tc.offset)); got != tc.want {
			t.Errorf("%s/%d up to %d: %s, want %s", tc.topic, tc.partition, tc.offset, got, tc.want)
		}
	}
	// A log of which nothing is left begins and ends where it ended (known fault B021).
	for _, timestamp := range []int64{replica.EarliestTimestamp, replica.LatestTimestamp} {
		if got := w.listed(listRequest(7, "t", timestamp)); got[:7] != "NONE 10" {
			t.Errorf("ListOffsets %d of an emptied log: %s", timestamp, got)
		}
	}
	// Below the start it is out of range, whatever epoch the fetcher says it
	// comes from (known fault B014).
	for _, epoch := range []int32{0, 999} {
		req := fetchRequest(12, "t", 2)
		req.Topics[0].Partitions[0].LastFetchedEpoch = epoch
		resp := w.ask(req).(*kmsg.FetchResponse)
		if code := protocol.Error(resp.Topics[0].Partitions[0].ErrorCode); code != protocol.ErrOffsetOutOfRange {
			t.Errorf("fetch at 2 with last epoch %d: %v", epoch, code)
		}
	}
}

// A deletion with a replica that does not follow is answered at the deadline, or
// when its broker is fenced.
func TestDeleteRecordsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		id := w.deletableTopic("t", 1, 2)
		w.apply(&record.BrokerRegistrationChange{BrokerID: 2, BrokerEpoch: 1, Fenced: -1})
		w.mustProduce("t", 10)
		follow(t, w.partition(id), 10)
		began := time.Now()
		if got := w.deleted(deleteRequest(700, "t", 0, 4)); got != "REQUEST_TIMED_OUT 0" || time.Since(began) != 700*time.Millisecond {
			t.Errorf("%s after %v", got, time.Since(began))
		}
		time.AfterFunc(100*time.Millisecond, func() {
			_, err := w.partition(id).Fetch(replica.FetchRequest{
				Offset: 10, Replica: 2, LogStartOffset: 6, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1,
			})
			if err != nil {
				t.Error(err)
			}
		})
		began = time.Now()
		if got := w.deleted(deleteRequest(700, "t", 0, 6)); got != "NONE 6" || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%s after %v", got, time.Since(began))
		}
		w.apply(&record.BrokerRegistrationChange{BrokerID: 2, BrokerEpoch: 1, Fenced: 1})
		if got := w.deleted(deleteRequest(700, "t", 0, 7)); got != "NONE 7" {
			t.Errorf("with a fenced replica: %s", got)
		}
	})
}

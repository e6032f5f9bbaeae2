package api

import (
	"context"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Replica ids of a ListOffsets that is none of a broker's (ListOffsetsRequest.java).
const (
	consumerReplica  int32 = -1
	debuggingReplica int32 = -2
)

// timestampSince is the first version that knows a special timestamp; the
// others, all negative, are known to none.
var timestampSince = map[int64]int16{
	replica.LatestTimestamp:       1,
	replica.EarliestTimestamp:     1,
	replica.MaxTimestamp:          7,
	replica.EarliestLocal:         8,  // KIP-405
	replica.LatestTiered:          9,  // KIP-1005
	replica.EarliestPendingUpload: 11, // KIP-1023
}

// ListOffsets answers which offset a timestamp, the start or the end has.
type ListOffsets struct {
	images     imageSource
	partitions partitionSource
	log        zerolog.Logger
}

// NewListOffsets returns the handler over the partitions of this broker.
func NewListOffsets(images imageSource, partitions partitionSource, log zerolog.Logger) *ListOffsets {
	return &ListOffsets{images: images, partitions: partitions, log: log}
}

// API returns what the server serves by this handler.
func (h *ListOffsets) API() server.API {
	return server.Serve(kmsg.ListOffsets, h.Handle)
}

// Handle answers at once: without tiered storage nothing has to be waited for.
func (h *ListOffsets) Handle(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = body.Version
	img := h.images.Image()
	seen := make(map[protocol.TopicPartition]int)
	for i := range body.Topics {
		for j := range body.Topics[i].Partitions {
			seen[protocol.TopicPartition{Topic: body.Topics[i].Topic, Partition: body.Topics[i].Partitions[j].Partition}]++
		}
	}
	for i := range body.Topics {
		in := &body.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = in.Topic
		for j := range in.Partitions {
			tp := protocol.TopicPartition{Topic: in.Topic, Partition: in.Partitions[j].Partition}
			n, first := seen[tp]
			if !first {
				continue // answered at its first place
			}
			delete(seen, tp)
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Timestamp, p.Offset, p.LeaderEpoch = tp.Partition, -1, -1, -1
			if err := h.list(img, body, tp, &in.Partitions[j], n > 1, &p); err != nil {
				p.ErrorCode = int16(h.code(body.Version, tp, err))
			}
			out.Partitions = append(out.Partitions, p)
		}
		if len(out.Partitions) > 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	return server.Answer{Response: resp}
}

// list fills the answer for one partition.
func (h *ListOffsets) list(img *metadata.Image, body *kmsg.ListOffsetsRequest, tp protocol.TopicPartition,
	in *kmsg.ListOffsetsRequestTopicPartition, twice bool, out *kmsg.ListOffsetsResponseTopicPartition,
) error {
	if body.IsolationLevel != 0 && body.IsolationLevel != 1 {
		return protocol.ErrUnknownServerError
	}
	if twice {
		return protocol.ErrInvalidRequest
	}
	if since, ok := timestampSince[in.Timestamp]; in.Timestamp < 0 && (!ok || body.Version < since) {
		return protocol.ErrUnsupportedVersion
	}
	topic, ok := img.Topic(tp.Topic)
	if !ok {
		return protocol.ErrUnknownTopicOrPartition
	}
	if _, ok := topic.Partition(tp.Partition); !ok {
		return protocol.ErrUnknownTopicOrPartition
	}
	p, ok := h.partitions.Partition(topic.ID, tp.Partition)
	if !ok {
		return protocol.ErrNotLeaderForPartition
	}
	found, err := p.ListOffset(replica.ListOffsetRequest{
		Timestamp:          in.Timestamp,
		ReadCommitted:      body.IsolationLevel == 1,
		Client:             body.ReplicaID == consumerReplica,
		FollowerToo:        body.ReplicaID == debuggingReplica,
		CurrentLeaderEpoch: protocol.LeaderEpoch(in.CurrentLeaderEpoch),
	})
	if err != nil {
		return err
	}
	out.Timestamp, out.Offset = found.Timestamp, found.Offset
	if body.Version >= 4 {
		out.LeaderEpoch = int32(found.LeaderEpoch)
	}
	return nil
}

// code is the error code that the client's version knows.
func (h *ListOffsets) code(version int16, tp protocol.TopicPartition, err error) protocol.Error {
	code := protocol.CodeOf(err)
	if code == protocol.ErrOffsetNotAvailable && version < 5 {
		return protocol.ErrLeaderNotAvailable
	}
	if protocol.IsBug(err) {
		h.log.Error().Err(err).Str("topic", tp.Topic).Int32("partition", tp.Partition).Msg("list offsets failed")
	}
	return code
}

package api

import (
	"context"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// OffsetForLeaderEpoch answers where leader epochs ended, for replicas and
// consumers that look whether their past is still the leader's (KIP-101, 320).
type OffsetForLeaderEpoch struct {
	images     imageSource
	partitions partitionSource
	log        zerolog.Logger
}

// NewOffsetForLeaderEpoch returns the handler over the partitions of this broker.
func NewOffsetForLeaderEpoch(images imageSource, partitions partitionSource, log zerolog.Logger) *OffsetForLeaderEpoch {
	return &OffsetForLeaderEpoch{images: images, partitions: partitions, log: log}
}

// API returns what the server serves by this handler.
func (h *OffsetForLeaderEpoch) API() server.API {
	return server.Serve(kmsg.OffsetForLeaderEpoch, h.Handle)
}

// Handle answers from the leaders' histories of epochs.
func (h *OffsetForLeaderEpoch) Handle(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.Version = body.Version
	img := h.images.Image()
	for i := range body.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = body.Topics[i].Topic
		for _, in := range body.Topics[i].Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = in.Partition, -1, -1
			tp := protocol.TopicPartition{Topic: t.Topic, Partition: in.Partition}
			found, err := hosted(img, h.partitions, tp)
			if err == nil {
				var epoch protocol.LeaderEpoch
				epoch, p.EndOffset, err = found.EndOffsetForEpoch(
					protocol.LeaderEpoch(in.CurrentLeaderEpoch), protocol.LeaderEpoch(in.LeaderEpoch))
				p.LeaderEpoch = int32(epoch)
			}
			if err != nil {
				p.ErrorCode = int16(protocol.CodeOf(err))
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return server.Answer{Response: resp}
}

package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// DescribeProducers answers which producers a partition's leader remembers.
type DescribeProducers struct {
	images     imageSource
	partitions partitionSource
}

// NewDescribeProducers returns the handler over the partitions of this broker.
func NewDescribeProducers(images imageSource, partitions partitionSource) *DescribeProducers {
	return &DescribeProducers{images: images, partitions: partitions}
}

// API returns what the server serves by this handler.
func (h *DescribeProducers) API() server.API {
	return server.Serve(kmsg.DescribeProducers, h.Handle)
}

// Handle answers from the state of the logs.
func (h *DescribeProducers) Handle(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DescribeProducersRequest)
	resp := kmsg.NewPtrDescribeProducersResponse()
	resp.Version = body.Version
	img := h.images.Image()
	for i := range body.Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = body.Topics[i].Topic
		invalid := protocol.ValidateTopicName(t.Topic)
		for _, partition := range body.Topics[i].Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition = partition
			err := invalid
			if err == nil {
				err = h.describe(img, protocol.TopicPartition{Topic: t.Topic, Partition: partition}, &p)
			}
			if err != nil {
				p.ErrorCode = int16(protocol.CodeOf(err))
				p.ErrorMessage = protocol.MessageOf(err)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return server.Answer{Response: resp}
}

func (h *DescribeProducers) describe(img *metadata.Image, tp protocol.TopicPartition, out *kmsg.DescribeProducersResponseTopicPartition) error {
	p, err := hosted(img, h.partitions, tp)
	if err != nil {
		return err
	}
	producers, err := p.ActiveProducers()
	if err != nil {
		return err
	}
	for _, in := range producers {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch = in.ID, int32(in.Epoch)
		a.LastSequence, a.LastTimestamp = in.LastSequence, in.LastTimestampMs
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = in.CoordinatorEpoch, in.TxnFirstOffset
		out.ActiveProducers = append(out.ActiveProducers, a)
	}
	return nil
}

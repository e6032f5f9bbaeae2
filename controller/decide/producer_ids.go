package decide

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// producerIDBlock is how many producer ids a broker gets at once (KIP-730).
const producerIDBlock = 1000

// AllocateProducerIDs hands a broker a block of producer ids, which nobody else
// gets for the life of the cluster.
func AllocateProducerIDs(img *metadata.Image, req *kmsg.AllocateProducerIDsRequest) ([]record.Record, *kmsg.AllocateProducerIDsResponse, error) {
	id, epoch := protocol.NodeID(req.BrokerID), protocol.BrokerEpoch(req.BrokerEpoch)
	if _, err := checkBrokerEpoch(img, id, epoch); err != nil {
		return nil, nil, err
	}
	first := img.NextProducerID()
	if first > math.MaxInt64-producerIDBlock {
		return nil, nil, protocol.Errorf(protocol.ErrUnknownServerError,
			"Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit")
	}
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	resp.ProducerIDStart, resp.ProducerIDLen = first, producerIDBlock
	return []record.Record{&record.ProducerIDs{
		BrokerID: id, BrokerEpoch: epoch, NextProducerID: first + producerIDBlock,
	}}, resp, nil
}

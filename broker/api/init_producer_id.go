package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// producerIDWait is how long a producer waits for a block of ids to arrive from
// the controller. Beyond it the answer tells the producer to try again.
const producerIDWait = 5 * time.Second

// initProducerID gives a producer its id. Without a transactional id every call
// gives a new one, whatever id and epoch the producer had.
func (a *Admin) initProducerID(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.InitProducerIDRequest)
	if code := checkInitProducerID(body); code != protocol.None {
		return server.Answer{Response: initProducerIDResponse(req.Version, -1, code)}
	}
	deadline := req.Received.Add(producerIDWait)
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		id, err := a.ProducerIDs.Next(ctx)
		code := protocol.CodeOf(err)
		if code == protocol.ErrUnknownServerError {
			a.Log.Error().Err(err).Msg("no producer id")
		}
		return server.Answer{Response: initProducerIDResponse(req.Version, id, code)}
	}}
}

// checkInitProducerID refuses what Kafka refuses, and everything about
// transactions as long as there is no transaction coordinator: the code makes
// clients look for it again.
func checkInitProducerID(body *kmsg.InitProducerIDRequest) protocol.Error {
	if body.TransactionalID != nil && *body.TransactionalID == "" {
		return protocol.ErrInvalidRequest
	}
	if body.Version >= 3 && (body.ProducerID == -1) != (body.ProducerEpoch == -1) {
		return protocol.ErrInvalidRequest
	}
	if body.TransactionalID != nil {
		return protocol.ErrCoordinatorNotAvailable
	}
	return protocol.None
}

func initProducerIDResponse(version int16, id int64, code protocol.Error) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.Version = version
	resp.ErrorCode = int16(code)
	resp.ProducerID, resp.ProducerEpoch = id, 0
	if code != protocol.None {
		resp.ProducerID, resp.ProducerEpoch = -1, -1
	}
	return resp
}

package api

import (
	"context"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// The kinds of coordinator that FindCoordinator is asked for.
const (
	groupCoordinator       int8 = 0
	transactionCoordinator int8 = 1
	shareCoordinator       int8 = 2 // from v6 on
)

// Kafka's texts of the codes that FindCoordinator answers.
const (
	invalidRequestText = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."
	notAvailableText   = "The coordinator is not available."
)

func (a *Admin) findCoordinator(_ context.Context, req *server.Request) server.Answer {
	return server.Answer{Response: findCoordinator(req.Body.(*kmsg.FindCoordinatorRequest))}
}

// findCoordinator answers COORDINATOR_NOT_AVAILABLE to all that it is
// right to ask for, since there are no coordinators yet. Clients take this code
// for a cluster that is still starting, and ask again until their own timeout.
func findCoordinator(req *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Version = req.Version
	kind := req.CoordinatorType
	if req.Version == 0 {
		kind = groupCoordinator
	}
	known := kind >= groupCoordinator && kind <= shareCoordinator
	if req.Version < 4 {
		code, text := protocol.ErrCoordinatorNotAvailable, notAvailableText
		if !known || kind == shareCoordinator {
			code, text = protocol.ErrInvalidRequest, invalidRequestText
		}
		resp.ErrorCode, resp.ErrorMessage = int16(code), &text
		resp.NodeID, resp.Port = -1, -1
		return resp
	}
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Port = key, -1, -1
		// Texts are Kafka's: empty, but for a kind that it can not make out.
		text := ""
		c.ErrorMessage = &text
		switch {
		case !known:
			text = invalidRequestText
			c.ErrorCode = int16(protocol.ErrInvalidRequest)
		case kind == shareCoordinator && (req.Version < 6 || !sharePartitionKey(key)):
			c.ErrorCode = int16(protocol.ErrInvalidRequest)
		default:
			c.ErrorCode = int16(protocol.ErrCoordinatorNotAvailable)
		}
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp
}

// sharePartitionKey tells whether s is GROUP:TOPIC-ID:PARTITION (KIP-932).
func sharePartitionKey(s string) bool {
	parts := strings.Split(s, ":")
	if len(parts) != 3 || parts[0] == "" {
		return false
	}
	if _, err := protocol.ParseUUID(parts[1]); err != nil {
		return false
	}
	_, err := strconv.ParseInt(parts[2], 10, 32)
	return err == nil
}

package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/metadata/record"
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
	notAvailableText = "The coordinator is not available."
	noErrorText      = "NONE"
)

// internalTopicWait is how long FindCoordinator waits for a topic of coordinators
// that it has had created. Kafka does not wait: its clients are told that there
// is no coordinator, and come again after a while.
const internalTopicWait = 3 * time.Second

// findCoordinator names the leader of the partition that a key belongs to. The
// topic is created where it is not there yet.
func (a *Admin) findCoordinator(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.FindCoordinatorRequest)
	listener := req.Conn.Listener
	answer := func() server.Answer { return server.Answer{Response: a.coordinators(body, listener)} }
	if coordinatorKind(body) != groupCoordinator || a.InternalTopics == nil || body.Version >= 4 && len(body.CoordinatorKeys) == 0 {
		return answer()
	}
	if _, ok := a.Image().Topic(protocol.OffsetsTopic); ok {
		return answer()
	}
	names := []string{protocol.OffsetsTopic}
	expected := a.expect(true, false, names)
	a.InternalTopics.Add(names, origin(req))
	if expected == nil {
		return answer()
	}
	deadline := req.Received.Add(internalTopicWait)
	return closing(expected, server.Answer{Wait: func(ctx context.Context) server.Answer {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		// Where it does not come in time the client is told to ask again; why, the
		// creation has logged.
		_ = expected.Wait(ctx, names)
		return answer()
	}})
}

// coordinatorKind is the kind that is asked for: v0 knows groups alone.
func coordinatorKind(req *kmsg.FindCoordinatorRequest) int8 {
	if req.Version == 0 {
		return groupCoordinator
	}
	return req.CoordinatorType
}

// coordinators answers COORDINATOR_NOT_AVAILABLE where there is no coordinator,
// or none that the client can reach; for transactions and share groups there
// is none in this version. Clients take this code for a cluster that is still
// starting, and ask again until their own timeout.
func (a *Admin) coordinators(req *kmsg.FindCoordinatorRequest, listener string) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Version = req.Version
	kind := coordinatorKind(req)
	known := kind >= groupCoordinator && kind <= shareCoordinator
	if req.Version < 4 {
		resp.NodeID, resp.Port = -1, -1
		code, text := protocol.ErrCoordinatorNotAvailable, notAvailableText
		if !known || kind == shareCoordinator {
			code, text = protocol.ErrInvalidRequest, shared.InvalidRequestText
		} else if id, ep, ok := a.groupCoordinator(kind, req.CoordinatorKey, listener); ok {
			code, text = protocol.None, noErrorText
			resp.NodeID, resp.Host, resp.Port = int32(id), ep.Host, int32(ep.Port)
		}
		resp.ErrorCode, resp.ErrorMessage = int16(code), &text
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
			text = shared.InvalidRequestText
			c.ErrorCode = int16(protocol.ErrInvalidRequest)
		case kind == shareCoordinator && (req.Version < 6 || !sharePartitionKey(key)):
			c.ErrorCode = int16(protocol.ErrInvalidRequest)
		default:
			c.ErrorCode = int16(protocol.ErrCoordinatorNotAvailable)
			if id, ep, ok := a.groupCoordinator(kind, key, listener); ok {
				c.ErrorCode = int16(protocol.None)
				c.NodeID, c.Host, c.Port = int32(id), ep.Host, int32(ep.Port)
			}
		}
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp
}

// groupCoordinator is the leader of a group's partition, and where it listens.
func (a *Admin) groupCoordinator(kind int8, group, listener string) (id protocol.NodeID, ep record.Endpoint, ok bool) {
	if kind != groupCoordinator {
		return 0, ep, false
	}
	img := a.Image()
	topic, ok := img.Topic(protocol.OffsetsTopic)
	if !ok {
		return 0, ep, false
	}
	p, ok := topic.Partition(coordinator.PartitionOf(group, topic.NumPartitions()))
	if !ok {
		return 0, ep, false
	}
	b, ok := img.Broker(p.Leader)
	if !ok || b.Fenced {
		return 0, ep, false
	}
	ep, ok = shared.Endpoint(b.Endpoints, listener)
	return b.ID, ep, ok
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

package api

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/controller"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Deadlines of APIs whose requests carry none.
const (
	// heartbeatTimeout leaves a broker time for another heartbeat within its
	// session of 9 s.
	heartbeatTimeout = 4 * time.Second
	// requestTimeout is what Kafka's brokers wait for the controller
	// (request.timeout.ms).
	requestTimeout = 30 * time.Second
)

// Config is what the handlers are made from.
type Config struct {
	Controller *controller.Controller
	// Applied waits until those who serve clients in this process have acted on
	// the record at offset; nil where nobody does. A topic's creation is answered
	// after that, so that its leaders here can be asked at once. Brokers that
	// forward a creation wait for their own part.
	Applied func(ctx context.Context, offset int64) error
	// Listener is the name of the listener on which controllers reach each other.
	Listener string
	// Metadata is what observers fetch; nil: they are not served.
	Metadata *MetadataLog
	// Loggers are those of this node.
	Loggers shared.Loggers
	Log     zerolog.Logger
}

// caller is who asks: the client itself, or the one that a broker forwards for.
// What it changes is logged under its name.
type caller struct {
	principal string
	clientID  string
}

// call is one request, however it came.
type call struct {
	body     kmsg.Request
	received time.Time
	caller   caller
}

// answer completes a call. It is called once; err is set beside the response
// where the broker that forwarded has to act on it.
type answer func(ctx context.Context) (resp kmsg.Response, err error)

// handler does the ordered part of a call.
type handler func(c call) answer

type handlers struct {
	Config
	forwarded map[int16]handler // those that an Envelope may carry
	lines     heartbeatLines
	observers observers
}

// APIs returns the APIs of the controller listener that are served here.
func APIs(cfg Config) []server.API {
	h := &handlers{Config: cfg, lines: heartbeatLines{of: make(map[uint64]heartbeatLine)}}
	h.forwarded = map[int16]handler{
		int16(kmsg.CreateTopics):               h.createTopics,
		int16(kmsg.DeleteTopics):               h.deleteTopics,
		int16(kmsg.CreatePartitions):           h.createPartitions,
		int16(kmsg.DescribeQuorum):             h.describeQuorum,
		int16(kmsg.ElectLeaders):               h.electLeaders,
		int16(kmsg.AlterPartitionAssignments):  h.alterPartitionReassignments,
		int16(kmsg.ListPartitionReassignments): h.listPartitionReassignments,
		int16(kmsg.UnregisterBroker):           h.unregisterBroker,
		int16(kmsg.AlterConfigs):               h.alterConfigs,
		int16(kmsg.IncrementalAlterConfigs):    h.incrementalAlterConfigs,
		int16(kmsg.UpdateFeatures):             h.updateFeatures,
		int16(kmsg.AlterClientQuotas):          h.alterClientQuotas,
		int16(kmsg.AlterUserSCRAMCredentials):  h.alterUserScramCredentials,
		int16(kmsg.CreateACLs):                 h.createACLs,
		int16(kmsg.DeleteACLs):                 h.deleteACLs,
		int16(kmsg.UnregisterController):       h.unregisterController,
	}
	if cfg.Metadata != nil {
		h.forwarded[int16(kmsg.AddRaftVoter)] = h.addRaftVoter
		h.forwarded[int16(kmsg.RemoveRaftVoter)] = h.removeRaftVoter
	}
	apis := []server.API{
		server.Serve(kmsg.BrokerRegistration, direct(h.registerBroker)),
		server.Serve(kmsg.BrokerHeartbeat, h.heartbeatOnConn),
		server.Serve(kmsg.ControllerRegistration, direct(h.registerController)),
		server.Serve(kmsg.AllocateProducerIDs, direct(h.allocateProducerIDs)),
		server.Serve(kmsg.AlterPartition, direct(h.alterPartition)),
		server.Serve(kmsg.AssignReplicasToDirs, direct(h.assignReplicasToDirs)),
		server.Serve(kmsg.Envelope, h.envelope),
	}
	if cfg.Metadata != nil {
		apis = append(apis, server.Serve(kmsg.Fetch, h.fetch), server.Serve(kmsg.FetchSnapshot, direct(h.fetchSnapshot)),
			server.Serve(kmsg.UpdateRaftVoter, direct(h.updateRaftVoter)))
	}
	for key, handle := range h.forwarded {
		apis = append(apis, server.Serve(kmsg.Key(key), direct(handle)))
	}
	return apis
}

// direct makes the server's handler of one that can be forwarded to as well.
func direct(h handler) server.Handler {
	return func(_ context.Context, req *server.Request) server.Answer {
		finish := h(call{
			body: req.Body, received: req.Received,
			caller: caller{principal: req.Conn.Principal, clientID: req.ClientID},
		})
		return server.Answer{Wait: func(ctx context.Context) server.Answer {
			resp, _ := finish(ctx)
			return server.Answer{Response: resp}
		}}
	}
}

// deadline is when a client's timeout has passed. One of 0 or less has passed
// already: nothing is done and REQUEST_TIMED_OUT answered, as Kafka does.
func (c call) deadline(timeoutMs int32) time.Time {
	return c.received.Add(time.Duration(timeoutMs) * time.Millisecond)
}

// changed puts a change that a client made on the operator's timeline.
func (h *handlers) changed(c call, what string) {
	h.Log.Info().Str("principal", c.caller.principal).Str("client_id", c.caller.clientID).Msg(what)
}

// code is the code of an error for a response. What has none is a bug.
func (h *handlers) code(err error, api kmsg.Key) int16 {
	// The node stops or the client is gone; who reads this asks elsewhere.
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return int16(protocol.ErrNotController)
	}
	if protocol.IsBug(err) {
		h.Log.Error().Err(err).Str("api", api.Name()).Msg("request failed")
	}
	return int16(protocol.CodeOf(err))
}

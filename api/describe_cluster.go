package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// The endpoint types of DescribeCluster (EndpointType.java).
const (
	brokerEndpoints     int8 = 1
	controllerEndpoints int8 = 2
)

var endpointNames = map[int8]string{brokerEndpoints: "BROKER", controllerEndpoints: "CONTROLLER"}

// DescribeCluster returns the API of that name.
func DescribeCluster(env Env) server.API {
	return server.Serve(kmsg.DescribeCluster, func(_ context.Context, req *server.Request) server.Answer {
		return server.Answer{Response: describeCluster(env, req.Conn.Listener, req.Body.(*kmsg.DescribeClusterRequest))}
	})
}

func describeCluster(env Env, listener string, req *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.Version = req.Version
	resp.ControllerID = -1
	resp.ClusterAuthorizedOperations = OperationsNotAsked
	if err := checkEndpointType(env, req); err != nil {
		resp.ErrorCode = int16(protocol.CodeOf(err))
		resp.ErrorMessage = protocol.MessageOf(err)
		return resp
	}
	resp.ClusterID = env.ClusterID
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = ClusterOperations
	}
	img := env.Image()
	if env.Kind == protocol.ControllerListener {
		resp.EndpointType = controllerEndpoints
		describeControllers(env, listener, img, resp)
		return resp
	}
	resp.EndpointType = brokerEndpoints
	for b := range img.Brokers() {
		ep, ok := Endpoint(b.Endpoints, listener)
		if !ok || b.Fenced && !(req.Version >= 2 && req.IncludeFencedBrokers) {
			continue
		}
		resp.Brokers = append(resp.Brokers, clusterNode(b.ID, ep, b.Rack, b.Fenced))
	}
	resp.ControllerID = int32(StandInController(img, listener, env.NodeID))
	return resp
}

func describeControllers(env Env, listener string, img *metadata.Image, resp *kmsg.DescribeClusterResponse) {
	leader := env.Controller()
	for c := range img.Controllers() {
		ep, ok := Endpoint(c.Endpoints, listener)
		if !ok {
			continue
		}
		resp.Brokers = append(resp.Brokers, clusterNode(c.ID, ep, nil, false))
		if c.ID == leader {
			resp.ControllerID = int32(leader)
		}
	}
}

func clusterNode(id protocol.NodeID, ep record.Endpoint, rack *string, fenced bool) kmsg.DescribeClusterResponseBroker {
	n := kmsg.NewDescribeClusterResponseBroker()
	n.NodeID, n.Host, n.Port, n.Rack, n.IsFenced = int32(id), ep.Host, int32(ep.Port), rack, fenced
	return n
}

// checkEndpointType refuses a question about brokers on a controller listener
// and the other way round. Version 0 knows brokers only.
func checkEndpointType(env Env, req *kmsg.DescribeClusterRequest) error {
	asked := req.EndpointType
	if req.Version == 0 {
		asked = brokerEndpoints
	}
	here := brokerEndpoints
	if env.Kind == protocol.ControllerListener {
		here = controllerEndpoints
	}
	unsupported, mismatched := protocol.ErrUnsupportedEndpointType, protocol.ErrMismatchedEndpointType
	if req.Version == 0 {
		unsupported, mismatched = protocol.ErrInvalidRequest, protocol.ErrInvalidRequest
	}
	switch {
	case endpointNames[asked] == "":
		return protocol.Errorf(unsupported, "Unsupported endpoint type %d", asked)
	case asked != here:
		return protocol.Errorf(mismatched, "The request was sent to an endpoint of type %s, but we wanted an endpoint of type %s",
			endpointNames[here], endpointNames[asked])
	}
	return nil
}

// Endpoint returns the endpoint that is registered for a listener.
func Endpoint(endpoints []record.Endpoint, listener string) (record.Endpoint, bool) {
	for _, ep := range endpoints {
		if ep.Name == listener {
			return ep, true
		}
	}
	return record.Endpoint{}, false
}

// StandInController returns the broker that clients are told is the controller.
// They can not reach the real one, and any broker forwards what only the
// controller can do. Kafka picks a live broker by chance; we name self where it
// is one, which saves the client a connection, else the first; NoNode where no
// broker is live.
func StandInController(img *metadata.Image, listener string, self protocol.NodeID) protocol.NodeID {
	live := func(b *metadata.Broker) bool {
		_, ok := Endpoint(b.Endpoints, listener)
		return ok && !b.Fenced
	}
	if b, ok := img.Broker(self); ok && live(b) {
		return self
	}
	for b := range img.Brokers() {
		if live(b) {
			return b.ID
		}
	}
	return protocol.NoNode
}

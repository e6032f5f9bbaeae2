package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol/server"
)

// updateFeatures has the controller finalize levels of features.
func (a *Admin) updateFeatures(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrUpdateFeaturesResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}

// unregisterController has the controller forget another one.
func (a *Admin) unregisterController(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrUnregisterControllerResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}

// addRaftVoter has the controller give a controller a vote.
func (a *Admin) addRaftVoter(_ context.Context, req *server.Request) server.Answer {
	timeout := time.Duration(req.Body.(*kmsg.AddRaftVoterRequest).TimeoutMillis) * time.Millisecond
	return a.forward(req, timeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrAddRaftVoterResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}

// removeRaftVoter has the controller take a controller's vote.
func (a *Admin) removeRaftVoter(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrRemoveRaftVoterResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}

// unregisterBroker has the controller forget a broker.
func (a *Admin) unregisterBroker(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrUnregisterBrokerResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}

// describeQuorum is the controller's to answer.
func (a *Admin) describeQuorum(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrDescribeQuorumResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}

package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// maxForwarded bounds what is inside an envelope: a request without records.
const maxForwarded = 16 << 20

// envelope answers a request that a broker forwards for a client (KIP-590).
//
//	request data         request header and body, without a frame's size
//	principal            DefaultPrincipalData behind its version
//	client host address  4 or 16 bytes
//
// What is wrong with the envelope itself is answered in its error code, what is
// wrong with the request inside.
func (h *handlers) envelope(_ context.Context, req *server.Request) server.Answer {
	env := req.Body.(*kmsg.EnvelopeRequest)
	header, c, err := h.open(env, req.Received)
	if err != nil {
		h.Log.Debug().Err(err).Msg("envelope refused")
		return server.Answer{Response: envelopeResponse(nil, err)}
	}
	finish := h.forwarded[header.Key](c)
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		resp, err := finish(ctx)
		if protocol.CodeOf(err) == protocol.ErrNotController || ctx.Err() != nil {
			return server.Answer{Response: envelopeResponse(nil, protocol.ErrNotController)}
		}
		resp.SetVersion(header.Version)
		data := protocol.AppendResponseHeader(nil, header.Key, header.Version, header.CorrelationID)
		return server.Answer{Response: envelopeResponse(resp.AppendTo(data), nil)}
	}}
}

func envelopeResponse(data []byte, err error) *kmsg.EnvelopeResponse {
	resp := kmsg.NewPtrEnvelopeResponse()
	resp.ResponseData, resp.ErrorCode = data, int16(protocol.CodeOf(err))
	return resp
}

// open reads what is inside. Nothing of it aliases the frame.
func (h *handlers) open(env *kmsg.EnvelopeRequest, received time.Time) (protocol.RequestHeader, call, error) {
	var none protocol.RequestHeader
	if n := len(env.ClientHostAddress); n != 4 && n != 16 {
		return none, call{}, protocol.Errorf(protocol.ErrInvalidRequest, "a client address of %d bytes", n)
	}
	if len(env.RequestData) > maxForwarded {
		return none, call{}, protocol.Errorf(protocol.ErrInvalidRequest, "a forwarded request of %d bytes", len(env.RequestData))
	}
	principal := kmsg.NewDefaultPrincipalData()
	if err := principal.ReadFrom(env.RequestPrincipal); err != nil || principal.Version != 0 {
		return none, call{}, protocol.Errorf(protocol.ErrPrincipalDeserializationFailure, "version %d: %v", principal.Version, err)
	}
	header, body, err := protocol.ParseRequestHeader(env.RequestData)
	if err != nil {
		return none, call{}, protocol.Errorf(protocol.ErrUnsupportedVersion, "header inside: %v", err)
	}
	if h.forwarded[header.Key] == nil {
		return none, call{}, protocol.Errorf(protocol.ErrInvalidRequest, "key %d is not forwarded", header.Key)
	}
	if info, _ := protocol.API(header.Key); header.Version < info.Min || header.Version > info.Max {
		return none, call{}, protocol.Errorf(protocol.ErrUnsupportedVersion, "key %d version %d inside", header.Key, header.Version)
	}
	inside := kmsg.RequestForKey(header.Key)
	inside.SetVersion(header.Version)
	if err := inside.ReadFrom(body); err != nil {
		return none, call{}, protocol.Errorf(protocol.ErrUnsupportedVersion, "key %d version %d inside: %v", header.Key, header.Version, err)
	}
	c := call{body: inside, received: received, caller: caller{
		principal: principal.Type + ":" + principal.Name, clientID: string(header.ClientID),
	}}
	header.ClientID = nil
	return header, c, nil
}

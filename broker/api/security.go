package api

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Delegation tokens are for clients that proved who they are, and so is SASL for
// listeners that ask. All listeners are plain so far: what Kafka answers on those
// is all that there is to answer.

func createDelegationToken(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrCreateDelegationTokenResponse()
	resp.Version = req.Version
	resp.ErrorCode = int16(protocol.ErrDelegationTokenRequestNotAllowed)
	resp.PrincipalType, resp.PrincipalName, _ = strings.Cut(req.Conn.Principal, ":")
	if req.Version >= 3 {
		resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = resp.PrincipalType, resp.PrincipalName
	}
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = -1, -1, -1
	resp.HMAC = []byte{}
	return server.Answer{Response: resp}
}

func renewDelegationToken(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrRenewDelegationTokenResponse()
	resp.Version = req.Version
	resp.ErrorCode, resp.ExpiryTimestamp = int16(protocol.ErrDelegationTokenRequestNotAllowed), -1
	return server.Answer{Response: resp}
}

func expireDelegationToken(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrExpireDelegationTokenResponse()
	resp.Version = req.Version
	resp.ErrorCode, resp.ExpiryTimestamp = int16(protocol.ErrDelegationTokenRequestNotAllowed), -1
	return server.Answer{Response: resp}
}

func describeDelegationToken(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrDescribeDelegationTokenResponse()
	resp.Version = req.Version
	resp.ErrorCode = int16(protocol.ErrDelegationTokenRequestNotAllowed)
	return server.Answer{Response: resp}
}

func saslHandshake(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.Version = req.Version
	resp.ErrorCode = int16(protocol.ErrIllegalSASLState)
	return server.Answer{Response: resp}
}

func saslAuthenticate(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.Version = req.Version
	text := "SaslAuthenticate request received after successful authentication"
	resp.ErrorCode, resp.ErrorMessage = int16(protocol.ErrIllegalSASLState), &text
	resp.SASLAuthBytes = []byte{}
	return server.Answer{Response: resp}
}

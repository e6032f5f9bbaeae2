package controllerclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// Origin is who sent a request that is forwarded.
type Origin struct {
	ClientID      string
	CorrelationID int32
	// PrincipalType and PrincipalName are who the client proved to be: User and
	// ANONYMOUS where the listener does not ask.
	PrincipalType, PrincipalName string
	// TokenAuthenticated says that a delegation token was the proof.
	TokenAuthenticated bool
	// Host is the client's address, 4 or 16 bytes.
	Host []byte
}

// Forwarded is a request in an envelope, encoded: it does not hold on to the
// bytes of the request it was made from.
type Forwarded struct {
	envelope *kmsg.EnvelopeRequest
	response kmsg.Response // of the request's version, to read the answer into
	flexible bool
}

// Wrap puts a client's request into an envelope (KIP-590). Inside are the
// request with its header, as the client sent it, and DefaultPrincipalData v0
// behind its version.
func Wrap(req kmsg.Request, from Origin) *Forwarded {
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(from.ClientID))
	data := formatter.AppendRequest(nil, req, from.CorrelationID)

	principal := kmsg.NewDefaultPrincipalData()
	principal.Type, principal.Name, principal.TokenAuthenticated = from.PrincipalType, from.PrincipalName, from.TokenAuthenticated

	env := kmsg.NewPtrEnvelopeRequest()
	env.RequestData = data[4:] // behind the frame's size
	env.RequestPrincipal = principal.AppendTo(nil)
	env.ClientHostAddress = from.Host
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return &Forwarded{envelope: env, response: resp, flexible: req.IsFlexible()}
}

// Forward sends a wrapped request and returns the answer to what is inside.
func (c *Client) Forward(ctx context.Context, f *Forwarded) (kmsg.Response, error) {
	resp, err := c.Do(ctx, f.envelope)
	if err != nil {
		return nil, err
	}
	env, ok := resp.(*kmsg.EnvelopeResponse)
	if !ok {
		return nil, fmt.Errorf("the controller answered %T to an envelope", resp)
	}
	switch code := protocol.Error(env.ErrorCode); code {
	case protocol.None:
	case protocol.ErrUnsupportedVersion:
		// The controller is older than we are and does not know the request.
		return nil, fmt.Errorf("forward %s: %w", kmsg.NameForKey(f.response.Key()), code)
	default:
		// What is wrong with the envelope is no business of the client.
		return nil, fmt.Errorf("forward %s: %w: envelope refused with %v",
			kmsg.NameForKey(f.response.Key()), protocol.ErrUnknownServerError, code)
	}
	if err := f.read(env.ResponseData); err != nil {
		return nil, fmt.Errorf("forward %s: %w: %w", kmsg.NameForKey(f.response.Key()), protocol.ErrUnknownServerError, err)
	}
	return f.response, nil
}

var errShortEnvelope = errors.New("the answer in the envelope ends within its header")

// read takes the answer apart: correlation id, tags where the header is
// flexible, body.
func (f *Forwarded) read(data []byte) error {
	if len(data) < 4 {
		return errShortEnvelope
	}
	data = data[4:]
	if f.flexible {
		n, size := binary.Uvarint(data)
		if size <= 0 {
			return errShortEnvelope
		}
		data = data[size:]
		for range n {
			_, tag := binary.Uvarint(data)
			length, size := binary.Uvarint(data[max(tag, 0):])
			if tag <= 0 || size <= 0 || length > uint64(len(data)-tag-size) {
				return errShortEnvelope
			}
			data = data[tag+size+int(length):]
		}
	}
	return f.response.ReadFrom(data)
}

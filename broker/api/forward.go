package api

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// minForward is the least time that the controller is given to answer. A client
// whose timeout is over when it asks still wants to be told so.
const minForward = time.Second

// forward has the controller answer a request within timeout, which is the
// client's. done, which may be nil, sees the answer before the client does; its
// context ends with the timeout. failed makes an answer of an error of ours; its
// version is set here.
func (a *Admin) forward(
	req *server.Request, timeout time.Duration,
	done func(ctx context.Context, resp kmsg.Response), failed func(code int16, message *string) kmsg.Response,
) server.Answer {
	// Wrapped here, as the request's bytes are gone when this returns.
	wrapped := controllerclient.Wrap(req.Body, origin(req))
	deadline := req.Received.Add(max(timeout, minForward))
	return server.Answer{Wait: func(conn context.Context) server.Answer {
		ctx, cancel := context.WithDeadline(conn, deadline)
		defer cancel()
		resp, err := a.Forward.Forward(ctx, wrapped)
		if err != nil {
			if conn.Err() != nil {
				// The node stops. What became of the request nobody knows, and no
				// code says so.
				return server.Answer{Close: fmt.Errorf("%s was forwarded: %w", kmsg.NameForKey(req.Key), conn.Err())}
			}
			if ctx.Err() == nil || protocol.CodeOf(err) == protocol.ErrUnknownServerError {
				a.Log.Error().Err(err).Str("api", kmsg.NameForKey(req.Key)).Msg("forwarding failed")
			}
			answer := failed(int16(protocol.CodeOf(err)), protocol.MessageOf(err))
			answer.SetVersion(req.Version)
			return server.Answer{Response: answer}
		}
		if done != nil && timeout > 0 {
			done(ctx, resp)
		}
		return server.Answer{Response: resp}
	}}
}

// origin says who sent a request, for the controller to authorize and log.
func origin(req *server.Request) controllerclient.Origin {
	kind, name, _ := strings.Cut(req.Conn.Principal, ":")
	return controllerclient.Origin{
		ClientID: req.ClientID, CorrelationID: req.CorrelationID,
		PrincipalType: kind, PrincipalName: name, Host: hostBytes(req.Conn.RemoteAddr),
	}
}

// hostBytes returns an address as InetAddress.getAddress does: 4 bytes where 4
// are enough.
func hostBytes(addr net.Addr) []byte {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return net.IPv4zero.To4()
	}
	if four := tcp.IP.To4(); four != nil {
		return four
	}
	return tcp.IP.To16()
}

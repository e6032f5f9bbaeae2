package api

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// heartbeatLines are the connections that carry heartbeats, by id, and of whom:
// their end is what the controller hears first of a broker that died.
type heartbeatLines struct {
	mu sync.Mutex
	of map[uint64]heartbeatLine
}

type heartbeatLine struct {
	broker protocol.NodeID
	epoch  protocol.BrokerEpoch
}

// note takes note of a heartbeat on a connection, which is served until ctx ends.
func (l *heartbeatLines) note(ctx context.Context, conn uint64, line heartbeatLine, ended func(heartbeatLine)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.of[conn]
	l.of[conn] = line
	if known {
		return
	}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		last := l.of[conn]
		delete(l.of, conn)
		l.mu.Unlock()
		ended(last)
	})
}

// heartbeatOnConn is heartbeat with an eye on the connection.
func (h *handlers) heartbeatOnConn(ctx context.Context, req *server.Request) server.Answer {
	beat := req.Body.(*kmsg.BrokerHeartbeatRequest)
	h.lines.note(ctx, req.Conn.ID, heartbeatLine{protocol.NodeID(beat.BrokerID), protocol.BrokerEpoch(beat.BrokerEpoch)},
		func(l heartbeatLine) { h.Controller.Disconnected(l.broker, l.epoch) })
	return direct(h.heartbeat)(ctx, req)
}

func (h *handlers) heartbeat(c call) answer {
	pending := h.Controller.Heartbeat(c.body.(*kmsg.BrokerHeartbeatRequest), c.received.Add(heartbeatTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := pending.Wait(ctx)
		if err != nil {
			resp = kmsg.NewPtrBrokerHeartbeatResponse()
			resp.IsFenced = true
			resp.ErrorCode = h.code(err, kmsg.BrokerHeartbeat)
		}
		return resp, err
	}
}

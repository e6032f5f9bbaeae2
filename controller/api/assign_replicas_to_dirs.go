package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) assignReplicasToDirs(c call) answer {
	pending := h.Controller.AssignReplicasToDirs(c.body.(*kmsg.AssignReplicasToDirsRequest), c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := pending.Wait(ctx)
		if err != nil {
			resp = kmsg.NewPtrAssignReplicasToDirsResponse()
			resp.ErrorCode = h.code(err, kmsg.AssignReplicasToDirs)
		}
		return resp, err
	}
}

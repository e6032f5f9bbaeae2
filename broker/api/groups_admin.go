package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/broker/coordinator/group"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// each asks one event per name and has every answer taken in, in that order.
func (h *Groups) each(names []string, event func(name string) any, take func(name string, answer any, err error), respond func() kmsg.Response) server.Answer {
	img := h.images.Image()
	calls := make([]*coordinator.Call, len(names))
	for i, name := range names {
		calls[i] = h.submit(img, name, event(name))
	}
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		for i, call := range calls {
			answer, err := h.await(ctx, call)
			if ctx.Err() != nil {
				return server.Answer{Close: fmt.Errorf("group request was parked: %w", ctx.Err())}
			}
			take(names[i], answer, err)
		}
		return server.Answer{Response: respond()}
	}}
}

func (h *Groups) describe(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DescribeGroupsRequest)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = body.Version
	return h.each(body.Groups,
		func(name string) any { return group.Describe{Group: name} },
		func(name string, answer any, err error) {
			described, ok := answer.(*kmsg.DescribeGroupsResponseGroup)
			if err != nil || !ok {
				described = &kmsg.DescribeGroupsResponseGroup{Group: name, ErrorCode: int16(protocol.CodeOf(err))}
			}
			described.AuthorizedOperations = shared.OperationsNotAsked
			if body.Version >= 6 && described.State == group.Dead {
				text := fmt.Sprintf("Group %s not found.", name)
				described.ErrorCode, described.ErrorMessage = int16(protocol.ErrGroupIDNotFound), &text
			}
			if body.IncludeAuthorizedOperations && described.ErrorCode == 0 {
				described.AuthorizedOperations = shared.GroupOperations
			}
			resp.Groups = append(resp.Groups, *described)
		},
		func() kmsg.Response { return resp })
}

// list asks all coordinators of this broker. Clients ask every broker.
func (h *Groups) list(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ListGroupsRequest)
	calls := h.shards.SubmitAll(group.List{States: body.StatesFilter, Types: body.TypesFilter})
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = body.Version
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		for _, call := range calls {
			answer, err := h.await(ctx, call)
			if ctx.Err() != nil {
				return server.Answer{Close: fmt.Errorf("group request was parked: %w", ctx.Err())}
			}
			switch code := protocol.CodeOf(err); code {
			case protocol.None:
				listed, _ := answer.([]kmsg.ListGroupsResponseGroup)
				resp.Groups = append(resp.Groups, listed...)
			case protocol.ErrNotCoordinator: // its groups are another broker's to list
			default:
				resp.ErrorCode = int16(code)
			}
		}
		if resp.ErrorCode != 0 {
			resp.Groups = nil
		}
		return server.Answer{Response: resp}
	}}
}

func (h *Groups) delete(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DeleteGroupsRequest)
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = body.Version
	// A group that is named twice is deleted, and answered for, once.
	var names []string
	seen := make(map[string]struct{}, len(body.Groups))
	for _, name := range body.Groups {
		if _, ok := seen[name]; !ok {
			seen[name] = struct{}{}
			names = append(names, name)
		}
	}
	return h.each(names,
		func(name string) any { return group.Delete{Group: name} },
		func(name string, _ any, err error) {
			r := kmsg.NewDeleteGroupsResponseGroup()
			r.Group, r.ErrorCode = name, int16(protocol.CodeOf(err))
			resp.Groups = append(resp.Groups, r)
		},
		func() kmsg.Response { return resp })
}

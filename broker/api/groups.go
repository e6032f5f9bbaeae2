package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/broker/coordinator/group"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// groupShards takes the events of groups, each for its partition of
// __consumer_offsets; *coordinator.Coordinator does.
type groupShards interface {
	Submit(partition int32, event any) *coordinator.Call
	SubmitAll(event any) []*coordinator.Call
}

// Groups answers the requests of groups: it hands them to the group's
// coordinator in the order of arrival, and waits on the writer.
type Groups struct {
	images imageSource
	shards groupShards
	log    zerolog.Logger
}

// NewGroups returns the handlers over the coordinators on this broker.
func NewGroups(images imageSource, shards groupShards, log zerolog.Logger) *Groups {
	return &Groups{images: images, shards: shards, log: log}
}

// APIs returns what the server serves by these handlers.
func (h *Groups) APIs() []server.API {
	return []server.API{
		server.Serve(kmsg.JoinGroup, h.join),
		server.Serve(kmsg.SyncGroup, h.sync),
		server.Serve(kmsg.Heartbeat, h.heartbeat),
		server.Serve(kmsg.LeaveGroup, h.leave),
		server.Serve(kmsg.DescribeGroups, h.describe),
		server.Serve(kmsg.ListGroups, h.list),
		server.Serve(kmsg.DeleteGroups, h.delete),
		server.Serve(kmsg.OffsetCommit, h.commit),
		server.Serve(kmsg.OffsetFetch, h.fetch),
		server.Serve(kmsg.OffsetDelete, h.deleteOffsets),
	}
}

// noPartition has no coordinator.
const noPartition int32 = -1

// submit hands an event to a group's coordinator.
func (h *Groups) submit(img *metadata.Image, name string, event any) *coordinator.Call {
	partition := noPartition
	if topic, ok := img.Topic(protocol.OffsetsTopic); ok {
		partition = coordinator.PartitionOf(name, topic.NumPartitions())
	}
	return h.shards.Submit(partition, event)
}

// settle waits for a call and makes the response of what came. It runs on the
// connection's writer. Joins and syncs wait for as long as the group needs: the
// machine's timers end them.
func (h *Groups) settle(call *coordinator.Call, respond func(answer any, err error) kmsg.Response) server.Answer {
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		answer, err := h.await(ctx, call)
		if ctx.Err() != nil {
			return server.Answer{Close: fmt.Errorf("group request was parked: %w", ctx.Err())}
		}
		return server.Answer{Response: respond(answer, err)}
	}}
}

// await waits for one call and logs what is nobody's fault but ours.
func (h *Groups) await(ctx context.Context, call *coordinator.Call) (any, error) {
	answer, err := call.Wait(ctx)
	if err != nil && ctx.Err() == nil && protocol.CodeOf(err) == protocol.ErrUnknownServerError {
		h.log.Error().Err(err).Msg("group request failed")
	}
	return answer, err
}

func (h *Groups) join(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.JoinGroupRequest)
	for i := range body.Protocols {
		body.Protocols[i].Metadata = bytes.Clone(body.Protocols[i].Metadata) // it aliases the frame
	}
	call := h.submit(h.images.Image(), body.Group, group.Join{
		Request: body, ClientID: req.ClientID, ClientHost: javaHost(req.Conn.RemoteAddr), Fresh: freshID(),
	})
	version, member := body.Version, body.MemberID
	return h.settle(call, func(answer any, err error) kmsg.Response {
		resp, ok := answer.(*kmsg.JoinGroupResponse)
		if err != nil || !ok {
			resp = kmsg.NewPtrJoinGroupResponse()
			resp.ErrorCode, resp.Generation, resp.MemberID = int16(protocol.CodeOf(err)), -1, member
		}
		resp.Version = version
		if resp.Protocol == nil && version < 7 {
			empty := "" // it can not be null before v7
			resp.Protocol = &empty
		}
		return resp
	})
}

func (h *Groups) sync(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.SyncGroupRequest)
	if body.Version >= 5 && (body.ProtocolType == nil || body.Protocol == nil) {
		// Nullable, and yet mandatory (KIP-559).
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.Version, resp.ErrorCode, resp.MemberAssignment = body.Version, int16(protocol.ErrInconsistentGroupProtocol), []byte{}
		return server.Answer{Response: resp}
	}
	for i := range body.GroupAssignment {
		body.GroupAssignment[i].MemberAssignment = bytes.Clone(body.GroupAssignment[i].MemberAssignment)
	}
	version := body.Version
	return h.settle(h.submit(h.images.Image(), body.Group, group.Sync{Request: body}), func(answer any, err error) kmsg.Response {
		resp, ok := answer.(*kmsg.SyncGroupResponse)
		if err != nil || !ok {
			resp = kmsg.NewPtrSyncGroupResponse()
			resp.ErrorCode, resp.MemberAssignment = int16(protocol.CodeOf(err)), []byte{}
		}
		resp.Version = version
		return resp
	})
}

func (h *Groups) heartbeat(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.HeartbeatRequest)
	version := body.Version
	return h.settle(h.submit(h.images.Image(), body.Group, group.Heartbeat{Request: body}), func(answer any, err error) kmsg.Response {
		resp, ok := answer.(*kmsg.HeartbeatResponse)
		if err != nil || !ok {
			resp = kmsg.NewPtrHeartbeatResponse()
			// A coordinator that is loading gives everybody a full session.
			if code := protocol.CodeOf(err); code != protocol.ErrCoordinatorLoadInProgress {
				resp.ErrorCode = int16(code)
			}
		}
		resp.Version = version
		return resp
	})
}

func (h *Groups) leave(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.LeaveGroupRequest)
	version := body.Version
	if version < 3 {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = body.MemberID
		body.Members = []kmsg.LeaveGroupRequestMember{member}
	}
	return h.settle(h.submit(h.images.Image(), body.Group, group.Leave{Request: body}), func(answer any, err error) kmsg.Response {
		resp, ok := answer.(*kmsg.LeaveGroupResponse)
		if err != nil || !ok {
			resp = kmsg.NewPtrLeaveGroupResponse()
			resp.ErrorCode = int16(protocol.CodeOf(err))
		}
		resp.Version = version
		if version < 3 && resp.ErrorCode == 0 && len(resp.Members) == 1 {
			resp.ErrorCode = resp.Members[0].ErrorCode
		}
		return resp
	})
}

// freshID makes a member's id unique, in the form of a UUID as Kafka's are.
func freshID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// javaHost is an address as InetAddress.toString writes it, which is what tools
// show as a member's host.
func javaHost(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return "/"
	}
	if four := tcp.IP.To4(); four != nil {
		return "/" + four.String()
	}
	var b strings.Builder
	for i := 0; i+1 < len(tcp.IP); i += 2 {
		sep := ":"
		if i == 0 {
			sep = "/"
		}
		fmt.Fprintf(&b, "%s%x", sep, int(tcp.IP[i])<<8|int(tcp.IP[i+1]))
	}
	return b.String()
}

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// The APIs that change the voters of a dynamic quorum (KIP-853). Texts, and the order
// of what is checked, are Kafka's.

// voterChange says why a request to change voters goes no further; zero where it does.
type voterChange struct {
	code protocol.Error
	text string
	err  error // for who forwarded
}

// checkVoterChange looks at what all of these requests have in common. what is "Add"
// or "Remove".
func (h *handlers) checkVoterChange(what string, cluster *string, id int32, directory protocol.UUID) voterChange {
	if cluster != nil && *cluster != h.Metadata.ClusterID {
		return voterChange{code: protocol.ErrInconsistentClusterID, text: fmt.Sprintf("The given id %q doesn't match the cluster id %q", *cluster, h.Metadata.ClusterID)}
	}
	if _, _, err := h.Controller.Quorum(); err != nil {
		return voterChange{code: protocol.ErrNotLeaderForPartition, err: protocol.ErrNotController}
	}
	if id < 0 || directory == protocol.ZeroUUID {
		return voterChange{code: protocol.ErrInvalidRequest, text: what + " voter request didn't include a valid voter"}
	}
	return voterChange{}
}

func (h *handlers) addRaftVoter(c call) answer {
	req := c.body.(*kmsg.AddRaftVoterRequest)
	resp := kmsg.NewPtrAddRaftVoterResponse()
	refused := h.checkVoterChange("Add", req.ClusterID, req.VoterID, req.VoterDirectoryID)
	voter := record.Voter{ID: protocol.NodeID(req.VoterID), DirectoryID: req.VoterDirectoryID}
	for _, l := range req.Listeners {
		voter.Endpoints = append(voter.Endpoints, record.VoterEndpoint{Name: l.Name, Host: l.Host, Port: l.Port})
	}
	if refused.code == protocol.None && !listensAt(voter, h.Listener) {
		refused = voterChange{code: protocol.ErrInvalidRequest, text: fmt.Sprintf(
			"Add voter request didn't include the endpoint (%s) for the default listener ListenerName(%s)", endpointsText(voter), h.Listener)}
	}
	if refused.code != protocol.None {
		resp.ErrorCode, resp.ErrorMessage = int16(refused.code), &refused.text
		return func(context.Context) (kmsg.Response, error) { return resp, refused.err }
	}
	return func(ctx context.Context) (kmsg.Response, error) {
		ctx, cancel := context.WithDeadline(ctx, c.deadline(req.TimeoutMillis))
		defer cancel()
		err := h.Controller.AddVoter(ctx, voter, c.caller.principal, func() bool {
			leadership, _ := h.Metadata.Leadership()
			return h.observers.follows(replicaKey{voter.ID, voter.DirectoryID}, leadership.Epoch, time.Now())
		})
		resp.ErrorCode, resp.ErrorMessage = h.voterCode(ctx, err, kmsg.AddRaftVoter), protocol.MessageOf(err)
		return resp, err
	}
}

func (h *handlers) removeRaftVoter(c call) answer {
	req := c.body.(*kmsg.RemoveRaftVoterRequest)
	resp := kmsg.NewPtrRemoveRaftVoterResponse()
	if refused := h.checkVoterChange("Remove", req.ClusterID, req.VoterID, req.VoterDirectoryID); refused.code != protocol.None {
		resp.ErrorCode, resp.ErrorMessage = int16(refused.code), &refused.text
		return func(context.Context) (kmsg.Response, error) { return resp, refused.err }
	}
	return func(ctx context.Context) (kmsg.Response, error) {
		ctx, cancel := context.WithDeadline(ctx, c.received.Add(requestTimeout))
		defer cancel()
		err := h.Controller.RemoveVoter(ctx, protocol.NodeID(req.VoterID), req.VoterDirectoryID, c.caller.principal)
		resp.ErrorCode, resp.ErrorMessage = h.voterCode(ctx, err, kmsg.RemoveRaftVoter), protocol.MessageOf(err)
		return resp, err
	}
}

// updateRaftVoter is what a voter says of itself. Its answer has codes and no texts.
func (h *handlers) updateRaftVoter(c call) answer {
	req := c.body.(*kmsg.UpdateRaftVoterRequest)
	voter := record.Voter{
		ID: protocol.NodeID(req.VoterID), DirectoryID: req.VoterDirectoryID,
		MinKRaft: req.KRaftVersionFeature.MinSupportedVersion, MaxKRaft: req.KRaftVersionFeature.MaxSupportedVersion,
	}
	for _, l := range req.Listeners {
		voter.Endpoints = append(voter.Endpoints, record.VoterEndpoint{Name: l.Name, Host: l.Host, Port: l.Port})
	}
	leadership, _ := h.Metadata.Leadership()
	code := leaderOnly(leadership, req.CurrentLeaderEpoch)
	switch {
	case req.ClusterID != nil && *req.ClusterID != h.Metadata.ClusterID:
		code = protocol.ErrInconsistentClusterID
	case code != protocol.None:
	case voter.ID < 0 || voter.DirectoryID == protocol.ZeroUUID || !listensAt(voter, h.Listener) ||
		voter.MinKRaft < 0 || voter.MaxKRaft < voter.MinKRaft:
		code = protocol.ErrInvalidRequest
	}
	return func(ctx context.Context) (kmsg.Response, error) {
		if code == protocol.None {
			ctx, cancel := context.WithDeadline(ctx, c.received.Add(requestTimeout))
			defer cancel()
			code = protocol.Error(h.voterCode(ctx, h.Controller.UpdateVoter(ctx, voter), kmsg.UpdateRaftVoter))
		}
		leadership, _ := h.Metadata.Leadership()
		return h.updatedVoter(code, leadership), nil
	}
}

func (h *handlers) updatedVoter(code protocol.Error, l raftlog.Leadership) *kmsg.UpdateRaftVoterResponse {
	resp := kmsg.NewPtrUpdateRaftVoterResponse()
	resp.ErrorCode = int16(code)
	resp.CurrentLeader.LeaderID, resp.CurrentLeader.LeaderEpoch = int32(l.Leader), int32(l.Epoch)
	if host, port, ok := h.Metadata.Endpoint(l.Leader); ok {
		resp.CurrentLeader.Host, resp.CurrentLeader.Port = host, int32(port)
	}
	return resp
}

// voterCode is the code of a change of voters: what takes too long is
// REQUEST_TIMED_OUT, and what only the leader can do, of another kind than elsewhere.
func (h *handlers) voterCode(ctx context.Context, err error, api kmsg.Key) int16 {
	switch code := protocol.CodeOf(err); {
	case code == protocol.ErrNotController:
		return int16(protocol.ErrNotLeaderForPartition)
	case err != nil && context.Cause(ctx) == context.DeadlineExceeded && code == protocol.ErrUnknownServerError:
		return int16(protocol.ErrRequestTimedOut)
	}
	return h.code(err, api)
}

func listensAt(v record.Voter, name string) bool {
	return slices.ContainsFunc(v.Endpoints, func(e record.VoterEndpoint) bool { return e.Name == name })
}

// endpointsText is a voter's endpoints in Kafka's words.
func endpointsText(v record.Voter) string {
	var all []string
	for _, e := range v.Endpoints {
		all = append(all, fmt.Sprintf("ListenerName(%s)=%s/<unresolved>:%d", e.Name, e.Host, e.Port))
	}
	return "Endpoints(endpoints={" + strings.Join(all, ", ") + "})"
}

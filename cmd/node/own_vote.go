package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/api"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// ownVotePeriod is how often a controller compares what the log says of its vote with
// what it is.
const ownVotePeriod = 3 * time.Second

// leaderPause is how soon it is looked again for somebody who leads.
const leaderPause = 200 * time.Millisecond

// ownVote sees to this controller's own place among the voters of a dynamic quorum
// (KIP-853): where it listens, and with controller.quorum.auto.join.enable that it is
// one of them at all.
type ownVote struct {
	n    *node
	q    *quorum
	meta *metadata
	own  record.Voter
}

func (n *node) newOwnVote(q *quorum, meta *metadata, registration *kmsg.ControllerRegistrationRequest) *ownVote {
	v := &ownVote{n: n, q: q, meta: meta, own: record.Voter{ID: q.own.ID, DirectoryID: q.own.DirectoryID}}
	for _, l := range registration.Listeners {
		v.own.Endpoints = append(v.own.Endpoints, record.VoterEndpoint{Name: l.Name, Host: l.Host, Port: l.Port})
	}
	for _, f := range api.SupportedFeatures() {
		if f.Name == feature.KRaftVersion {
			v.own.MinKRaft, v.own.MaxKRaft = f.Min, f.Max
		}
	}
	return v
}

func (v *ownVote) run(ctx context.Context) error {
	client := v.n.controllerClient(v.q)
	defer client.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		req := v.request()
		timer.Reset(ownVotePeriod)
		if req == nil {
			if leader, _ := v.q.Leader(); leader == protocol.NoNode {
				timer.Reset(leaderPause)
			}
			continue
		}
		if err := v.send(ctx, client, req); err != nil && ctx.Err() == nil {
			v.n.asked.Warn().Err(err).Str("request", kmsg.NameForKey(req.Key())).Msg("this controller's vote is not as it should be, trying again")
		}
	}
}

// request is what would bring the log and this controller together; nil where they
// agree.
func (v *ownVote) request() kmsg.Request {
	quorum := v.meta.replayer.Quorum()
	leadership, _ := v.q.engine.Leadership()
	if quorum.Version == 0 || quorum.Voters == nil || leadership.Leader == protocol.NoNode {
		return nil
	}
	at := slices.IndexFunc(quorum.Voters.Voters, func(o record.Voter) bool { return o.ID == v.own.ID })
	switch {
	case at < 0 && v.n.cfg.Quorum.AutoJoin:
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = &v.n.cluster, int32(v.own.ID), v.own.DirectoryID
		req.TimeoutMillis, req.AckWhenCommitted = int32(registrationTimeout.Milliseconds()), false
		for _, e := range v.own.Endpoints {
			l := kmsg.NewAddRaftVoterRequestListener()
			l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
			req.Listeners = append(req.Listeners, l)
		}
		return req
	case at < 0:
		return nil
	}
	known := quorum.Voters.Voters[at]
	switch {
	case known.DirectoryID != v.own.DirectoryID && v.n.cfg.Quorum.AutoJoin:
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = &v.n.cluster, int32(known.ID), known.DirectoryID
		return req
	case known.DirectoryID != v.own.DirectoryID,
		slices.Equal(known.Endpoints, v.own.Endpoints) && known.MinKRaft == v.own.MinKRaft && known.MaxKRaft == v.own.MaxKRaft:
		return nil
	}
	req := kmsg.NewPtrUpdateRaftVoterRequest()
	req.ClusterID, req.CurrentLeaderEpoch = &v.n.cluster, int32(leadership.Epoch)
	req.VoterID, req.VoterDirectoryID = int32(v.own.ID), v.own.DirectoryID
	req.KRaftVersionFeature.MinSupportedVersion, req.KRaftVersionFeature.MaxSupportedVersion = v.own.MinKRaft, v.own.MaxKRaft
	for _, e := range v.own.Endpoints {
		l := kmsg.NewUpdateRaftVoterRequestListener()
		l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
		req.Listeners = append(req.Listeners, l)
	}
	return req
}

func (v *ownVote) send(ctx context.Context, client requester, req kmsg.Request) error {
	ctx, cancel := context.WithTimeout(ctx, registrationTimeout)
	defer cancel()
	answer, err := client.Do(ctx, req)
	if err != nil {
		return err
	}
	var code int16
	var text *string
	switch resp := answer.(type) {
	case *kmsg.AddRaftVoterResponse:
		code, text = resp.ErrorCode, resp.ErrorMessage
	case *kmsg.RemoveRaftVoterResponse:
		code, text = resp.ErrorCode, resp.ErrorMessage
	case *kmsg.UpdateRaftVoterResponse:
		code = resp.ErrorCode
	default:
		return fmt.Errorf("it is answered with %T", answer)
	}
	switch {
	case code == 0:
		return nil
	case text != nil && *text != "":
		return fmt.Errorf("%w: %s", protocol.Error(code), *text)
	}
	return protocol.Error(code)
}

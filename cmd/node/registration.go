package node

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/api"
	cluster "github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// controllerRegistration is what this controller says of itself (KIP-919): where
// it listens and which feature levels it supports.
func (n *node) controllerRegistration() (*kmsg.ControllerRegistrationRequest, error) {
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.ControllerID = int32(n.cfg.Node.ID)
	req.IncarnationID = protocol.NewUUID()
	for _, l := range n.cfg.Listeners.Controller {
		if l.Host == "" {
			name, err := os.Hostname()
			if err != nil {
				return nil, fmt.Errorf("listener %s names no host, and this machine's name is unknown: %w", l, err)
			}
			l.Host = name
		}
		listener := kmsg.NewControllerRegistrationRequestListener()
		listener.Name, listener.Host, listener.Port = l.Name, l.Host, uint16(l.Port)
		req.Listeners = append(req.Listeners, listener)
	}
	for _, f := range api.SupportedFeatures() {
		feature := kmsg.NewControllerRegistrationRequestFeature()
		feature.Name, feature.MinSupportedVersion, feature.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, feature)
	}
	return req, nil
}

// registrar registers this controller with the active one, whenever the metadata
// lacks what it says of itself. The active controller sees to its own.
type registrar struct {
	n    *node
	q    *quorum
	req  *kmsg.ControllerRegistrationRequest
	meta *metadata
	news chan struct{} // size 1: a token says that the registration may have changed
}

// Pauses of a registrar: after an answer, until the metadata shows what came of
// it, and what one attempt may take.
const (
	registrationPause   = 5 * time.Second
	registrationTimeout = 30 * time.Second
)

// Publish wakes the registrar where it matters.
func (r *registrar) Publish(delta *cluster.Delta, img *cluster.Image) {
	if !r.due(img) {
		return
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *registrar) due(img *cluster.Image) bool {
	known, ok := img.Controller(r.n.cfg.Node.ID)
	return img.Level().HasControllerRegistration() && !(ok && known.IncarnationID == r.req.IncarnationID)
}

func (r *registrar) run(ctx context.Context) error {
	client := r.n.controllerClient(r.q)
	defer client.Close()
	r.meta.replayer.Subscribe(r)
	for {
		select {
		case <-r.news:
		case <-ctx.Done():
			return nil
		}
		leader, changed := r.q.Leader()
		if !r.due(r.meta.replayer.Image()) {
			continue
		}
		if leader >= 0 && leader != r.n.cfg.Node.ID {
			r.register(ctx, client)
		}
		timer := time.NewTimer(registrationPause)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		r.Publish(nil, r.meta.replayer.Image())
	}
}

func (r *registrar) register(ctx context.Context, client requester) {
	ctx, cancel := context.WithTimeout(ctx, registrationTimeout)
	defer cancel()
	answer, err := client.Do(ctx, r.req)
	if err == nil {
		resp, ok := answer.(*kmsg.ControllerRegistrationResponse)
		switch {
		case !ok:
			err = fmt.Errorf("a registration is answered with %T", answer)
		case resp.ErrorCode != 0:
			err = protocol.Error(resp.ErrorCode)
		default:
			return
		}
	}
	if ctx.Err() == nil {
		r.n.log.Warn().Err(err).Msg("this controller is not registered yet, trying again")
	}
}

// requester is a controllerclient.Client.
type requester interface {
	Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

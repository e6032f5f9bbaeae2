package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/api"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// Pauses before another registration after the controller refused one that may
// succeed later. The usual case is a broker that was killed: its old session
// lives on until the controller sees evidence or the session times out.
const (
	firstRegistrationPause = 50 * time.Millisecond
	maxRegistrationPause   = time.Second
)

// register makes the broker known to the controller and returns the epoch of
// the registration, which is the offset of its first record.
func (b *Broker) register(ctx context.Context) (protocol.BrokerEpoch, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.RegistrationTimeout,
		fmt.Errorf("no success within %v", b.cfg.RegistrationTimeout))
	defer cancel()
	var last error
	for pause := firstRegistrationPause; ; pause = min(2*pause, maxRegistrationPause) {
		epoch, err := b.tryToRegister(ctx)
		if err == nil {
			return epoch, nil
		}
		if refusedForGood(err) {
			return -1, fmt.Errorf("register broker %d: %w", b.cfg.NodeID, err)
		}
		if last == nil || ctx.Err() == nil && last.Error() != err.Error() {
			last = err
			b.log.Warn().Err(err).Msg("not registered yet, trying again")
		}
		sleep(ctx, pause)
		if ctx.Err() != nil {
			return -1, fmt.Errorf("register broker %d: %w: %w", b.cfg.NodeID, context.Cause(ctx), last)
		}
	}
}

func (b *Broker) tryToRegister(ctx context.Context) (protocol.BrokerEpoch, error) {
	resp, err := b.cfg.Controller.Do(ctx, b.registration())
	if err != nil {
		return -1, err
	}
	r, ok := resp.(*kmsg.BrokerRegistrationResponse)
	if !ok {
		return -1, fmt.Errorf("the controller answered %T", resp)
	}
	if code := protocol.Error(r.ErrorCode); code != protocol.None {
		return -1, registrationError(code)
	}
	return protocol.BrokerEpoch(r.BrokerEpoch), nil
}

// registerDirs registers once more when the metadata begins to know log
// directories: its metadata.version is raised while the broker runs.
func (b *Broker) registerDirs(ctx context.Context) {
	if _, err := b.applied.Wait(ctx, func(img *metadata.Image) bool { return img.Level().HasDirectories() }); err != nil {
		return // the broker stops
	}
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, b.cfg.RegistrationTimeout)
		_, err := b.tryToRegister(attempt)
		cancel()
		if err == nil {
			b.log.Info().Msg("registered log directories")
			return
		}
		b.log.Warn().Err(err).Msg("log directories are not registered yet")
		sleep(ctx, maxRegistrationPause)
	}
}

func (b *Broker) registration() *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = req.MaxVersion()
	req.BrokerID = int32(b.cfg.NodeID)
	req.ClusterID = b.cfg.ClusterID
	req.IncarnationID = b.incarnation
	req.Rack = b.cfg.Rack
	req.PreviousBrokerEpoch = int64(b.cfg.PreviousEpoch)
	for _, ep := range b.cfg.Endpoints {
		l := kmsg.NewBrokerRegistrationRequestListener()
		l.Name, l.Host, l.Port, l.SecurityProtocol = ep.Name, ep.Host, ep.Port, ep.SecurityProtocol
		req.Listeners = append(req.Listeners, l)
	}
	for _, f := range api.SupportedFeatures() {
		r := kmsg.NewBrokerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, r)
	}
	// Sorted, as Kafka sends them.
	offline := b.offline()
	dirs := slices.DeleteFunc(slices.Clone(b.cfg.LogDirs), func(dir protocol.UUID) bool { return slices.Contains(offline, dir) })
	slices.SortFunc(dirs, func(x, y protocol.UUID) int { return slices.Compare(x[:], y[:]) })
	for _, dir := range dirs {
		req.LogDirs = append(req.LogDirs, dir)
	}
	return req
}

// registrationReasons say what a refusal means: the answer holds a code only.
var registrationReasons = map[protocol.Error]string{
	protocol.ErrDuplicateBrokerRegistration: "another broker with this node.id is alive, or was until a moment ago: stop it, or give this one a node.id of its own",
	protocol.ErrInconsistentClusterID:       "the controllers belong to another cluster than cluster.id in meta.properties: name the controllers of its own cluster, or log.dirs of that one",
	protocol.ErrUnsupportedVersion:          "the cluster has finalized a feature level that this version does not support: start a newer version, or lower the level (kafka-features downgrade)",
	protocol.ErrInvalidRegistration:         "the controller takes the registration for invalid, such as a log directory id of another broker",
	protocol.ErrInvalidRequest:              "the controller takes the registration for invalid",
	protocol.ErrBrokerIDNotRegistered:       "this node.id has been unregistered",
	protocol.ErrClusterAuthorizationFailed:  "the controller does not allow this principal to register",
}

func registrationError(code protocol.Error) error {
	if reason, ok := registrationReasons[code]; ok {
		return fmt.Errorf("%w: %s", code, reason)
	}
	return code
}

// refusedForGood tells whether trying again is of no use.
func refusedForGood(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.ErrInconsistentClusterID, protocol.ErrUnsupportedVersion, protocol.ErrInvalidRegistration,
		protocol.ErrInvalidRequest, protocol.ErrClusterAuthorizationFailed:
		return true
	}
	return false
}

// sleep returns after d or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

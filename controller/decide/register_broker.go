package decide

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// RegisterBroker decides a broker's registration. hasSession tells whether the
// present registration of that id belongs to a broker that is known to live.
//
// A new incarnation's epoch is the offset that the first of the records gets:
// the next one of the log. The broker starts fenced. If it did not stop cleanly
// under its last epoch, what it acknowledged may be lost, and it leaves every
// ISR and ELR first (KIP-966). The same incarnation again (its answer got lost,
// or its listeners changed) keeps epoch and state.
func RegisterBroker(img *metadata.Image, req *kmsg.BrokerRegistrationRequest, hasSession bool, env Env, leaving *Leaving) ([]record.Record, protocol.BrokerEpoch, error) {
	if req.ClusterID != env.ClusterID {
		return nil, -1, protocol.Errorf(protocol.ErrInconsistentClusterID,
			"Expected cluster ID %s, but got cluster ID %s", env.ClusterID, req.ClusterID)
	}
	id := protocol.NodeID(req.BrokerID)
	old, known := img.Broker(id)
	sameLife := known && old.IncarnationID == req.IncarnationID
	if known && hasSession && !old.Fenced && !sameLife {
		return nil, -1, protocol.Errorf(protocol.ErrDuplicateBrokerRegistration,
			"Another broker is registered with that broker id.")
	}
	if req.IsMigratingZkBroker {
		return nil, -1, protocol.Errorf(protocol.ErrBrokerIDNotRegistered,
			"Controller does not support registering ZK brokers.")
	}
	if id < 0 {
		return nil, -1, protocol.Errorf(protocol.ErrInvalidRegistration, "Broker id %d is negative", id)
	}
	if err := checkLogDirs(img, id, req.LogDirs); err != nil {
		return nil, -1, err
	}
	features := brokerFeatures(req.Features)
	if err := checkFeatures(img, features); err != nil {
		return nil, -1, err
	}
	reg := &record.RegisterBroker{
		BrokerID:      id,
		IncarnationID: req.IncarnationID,
		Endpoints:     brokerEndpoints(req.Listeners),
		Features:      features,
		Rack:          req.Rack,
		LogDirs:       uuids(req.LogDirs),
	}
	if sameLife {
		reg.BrokerEpoch, reg.Fenced, reg.InControlledShutdown = old.Epoch, old.Fenced, old.InControlledShutdown
		reg.CordonedLogDirs = old.CordonedLogDirs
		reg.Cause = ofBroker(id, "registered again")
		return []record.Record{reg}, reg.BrokerEpoch, nil
	}
	reg.BrokerEpoch, reg.Fenced = protocol.BrokerEpoch(img.Offset()+1), true
	// Before v3 a broker does not say how it stopped; Kafka assumes the best.
	clean := known && (req.Version < 3 || protocol.BrokerEpoch(req.PreviousBrokerEpoch) == old.Epoch)
	clean = clean || broken == brokenKept
	cause := ofBroker(id, "registered")
	if known && !clean {
		cause = ofBroker(id, "registered after an unclean stop")
	}
	records, more := leaveISRs(img, env, id, !clean, leaving)
	if more {
		return because(records, cause), -1, nil
	}
	return because(append(records, reg), cause), reg.BrokerEpoch, nil
}

// checkLogDirs refuses directory ids that would make two replicas one (KIP-858).
func checkLogDirs(img *metadata.Image, id protocol.NodeID, dirs [][16]byte) error {
	if len(dirs) == 0 {
		return protocol.Errorf(protocol.ErrInvalidRegistration, "No directories specified in request")
	}
	ids := uuids(dirs)
	for i, dir := range ids {
		if reservedDir(dir) {
			return protocol.Errorf(protocol.ErrInvalidRegistration, "Reserved directory ID in request")
		}
		if slices.Contains(ids[:i], dir) {
			return protocol.Errorf(protocol.ErrInvalidRegistration, "Duplicate directory ID in request")
		}
	}
	for b := range img.Brokers() {
		if b.ID == id {
			continue
		}
		for _, dir := range ids {
			if slices.Contains(b.LogDirs, dir) {
				return protocol.Errorf(protocol.ErrInvalidRegistration,
					"Broker %d is already registered with directory %s", b.ID, dir)
			}
		}
	}
	return nil
}

// reservedDir: Kafka keeps the first hundred ids for itself (DirectoryId.java).
func reservedDir(dir protocol.UUID) bool {
	for _, b := range dir[:15] {
		if b != 0 {
			return false
		}
	}
	return dir[15] < 100
}

// checkFeatures refuses a broker that can not work at a finalized level: it
// would read records that it does not understand.
func checkFeatures(img *metadata.Image, features []record.FeatureRange) error {
	check := func(name string, least, most int16) error {
		level, ok := img.Feature(name)
		if !ok && name == feature.MetadataVersion {
			level = int16(feature.Oldest)
		}
		if level < least || level > most {
			return protocol.Errorf(protocol.ErrUnsupportedVersion,
				"Unable to register because the broker does not support finalized version %d of %s. "+
					"The broker wants a version between %d and %d, inclusive.", level, name, least, most)
		}
		return nil
	}
	named := map[string]bool{}
	for _, f := range features {
		named[f.Name] = true
		if err := check(f.Name, f.Min, f.Max); err != nil {
			return err
		}
	}
	if !named[feature.MetadataVersion] {
		return protocol.Errorf(protocol.ErrInvalidRegistration,
			"Request features do not contain '%s'", feature.MetadataVersion)
	}
	// Of a feature that it does not name a broker knows nothing at all.
	for name := range img.Features() {
		if !named[name] {
			if err := check(name, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func brokerFeatures(from []kmsg.BrokerRegistrationRequestFeature) []record.FeatureRange {
	to := make([]record.FeatureRange, len(from))
	for i, f := range from {
		to[i] = record.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion}
	}
	return to
}

func brokerEndpoints(from []kmsg.BrokerRegistrationRequestListener) []record.Endpoint {
	to := make([]record.Endpoint, len(from))
	for i, l := range from {
		to[i] = record.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol}
	}
	return to
}

func uuids(from [][16]byte) []protocol.UUID {
	to := make([]protocol.UUID, len(from))
	for i, id := range from {
		to[i] = id
	}
	return to
}

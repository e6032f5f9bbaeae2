package decide

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Upgrade types of UpdateFeatures v1.
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// UpdateFeatures decides new levels of features, all of the request or none.
func UpdateFeatures(img *metadata.Image, req *kmsg.UpdateFeaturesRequest, env Env) ([]record.Record, *kmsg.UpdateFeaturesResponse) {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	proposed := make(map[string]int16)
	for name, level := range img.Features() {
		proposed[name] = level
	}
	for _, u := range req.FeatureUpdates {
		proposed[u.Feature] = u.MaxVersionLevel
	}
	validateOnly := req.Version >= 1 && req.ValidateOnly
	var records []record.Record
	if proposed[feature.ELR] > 0 && !elrEnabled(img) {
		records = elrConfigs(img, env)
	}
	for _, u := range req.FeatureUpdates {
		kind := u.UpgradeType
		if req.Version == 0 {
			kind = upgrade // Kafka has no eye for AllowDowngrade any more
		}
		rec, err := updateFeature(img, u.Feature, u.MaxVersionLevel, kind, validateOnly, proposed, env)
		if err != nil {
			text := "The update failed for all features since the following feature had an error: " + *protocol.MessageOf(err)
			resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), &text
			resp.Results = nil
			return nil, resp
		}
		if rec != nil {
			records = append(records, rec)
		}
		if req.Version < 2 {
			result := kmsg.NewUpdateFeaturesResponseResult()
			result.Feature = u.Feature
			none := "NONE" // as Kafka words it here
			result.ErrorMessage = &none
			resp.Results = append(resp.Results, result)
		}
	}
	if validateOnly {
		records = nil
	}
	return records, resp
}

// RaisesKRaft tells whether a request that UpdateFeatures accepts makes a static quorum
// a dynamic one.
func RaisesKRaft(req *kmsg.UpdateFeaturesRequest, env Env) bool {
	if req.Version >= 1 && req.ValidateOnly {
		return false
	}
	return slices.ContainsFunc(req.FeatureUpdates, func(u kmsg.UpdateFeaturesRequestFeatureUpdate) bool {
		return u.Feature == feature.KRaftVersion && u.MaxVersionLevel > env.KRaftVersion
	})
}

// updateFeature returns the record of one change, which Kafka writes even where
// the level stays.
func updateFeature(img *metadata.Image, name string, level int16, kind int8, validateOnly bool, proposed map[string]int16, env Env) (record.Record, error) {
	refuse := func(why string) error {
		return protocol.Errorf(protocol.ErrInvalidUpdateVersion, "Invalid update version %d for feature %s. %s", level, name, why)
	}
	current, _ := img.Feature(name)
	if name == feature.KRaftVersion {
		current = env.KRaftVersion
	}
	if kind < upgrade || kind > unsafeDowngrade {
		return nil, refuse("The controller does not support the given upgrade type.")
	}
	if level < 0 {
		return nil, refuse("A feature version cannot be less than 0.")
	}
	if why := notSupported(img, name, level, env); why != "" {
		return nil, refuse(why)
	}
	switch {
	case level < current && kind == upgrade:
		return nil, refuse("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > current && kind != upgrade:
		return nil, refuse("Can't downgrade to a newer version.")
	case level == current && name == feature.KRaftVersion:
		return nil, nil
	}
	switch {
	case name == feature.MetadataVersion && level < current && feature.Level(current).LosesOnWayTo(feature.Level(level)):
		why := "Refusing to perform the requested downgrade because it might delete metadata information."
		if kind == unsafeDowngrade {
			why = "Unsafe metadata downgrade is not supported in this version."
		}
		return nil, protocol.Errorf(protocol.ErrInvalidUpdateVersion, "Unsupported metadata.version downgrade from %d to %d. %s", current, level, why)
	case name == feature.KRaftVersion && level < current:
		return nil, refuse("Can't downgrade the version of this feature.")
	case name == feature.KRaftVersion:
		if !validateOnly && env.KRaftUpgrade != nil {
			return nil, refuse(env.KRaftUpgrade.Error())
		}
		return nil, nil // control records say it: RaisesKRaft
	}
	known, ok := feature.Find(name)
	if !ok {
		return nil, refuse("Feature " + name + " not found.")
	}
	if needed := known.Needs(level); int16(needed) > proposed[feature.MetadataVersion] {
		return nil, refuse(fmt.Sprintf("%s could not be set to %d because it depends on %s level %d", name, level, feature.MetadataVersion, needed))
	}
	return &record.FeatureLevel{Name: name, Level: level}, nil
}

// notSupported says which node does not know a level; empty where all do.
func notSupported(img *metadata.Image, name string, level int16, env Env) string {
	var local []record.FeatureRange
	for _, f := range feature.All() {
		local = append(local, record.FeatureRange{Name: f.Name, Min: f.Min, Max: f.Max})
	}
	if why := outside(local, name, level, fmt.Sprintf("Local controller %d", env.NodeID)); why != "" {
		return why
	}
	for b := range img.Brokers() {
		if why := outside(b.Features, name, level, fmt.Sprintf("Broker %d", b.ID)); why != "" {
			return why
		}
	}
	for c := range img.Controllers() {
		if why := outside(c.Features, name, level, fmt.Sprintf("Controller %d", c.ID)); why != "" {
			return why
		}
	}
	return ""
}

// outside says that a node does not support a level. A feature that it does not
// name it supports at level 0 only: not at all.
func outside(features []record.FeatureRange, name string, level int16, node string) string {
	low, high := int16(0), int16(0)
	for _, f := range features {
		if f.Name == name {
			low, high = f.Min, f.Max
		}
	}
	switch {
	case level >= low && level <= high:
		return ""
	case high == 0:
		return node + " does not support this feature."
	case low == high:
		return fmt.Sprintf("%s only supports versions %d", node, low)
	}
	return fmt.Sprintf("%s only supports versions %d-%d", node, low, high)
}

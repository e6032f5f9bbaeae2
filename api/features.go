package api

import (
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
)

// SupportedFeatures are the levels of Kafka 4.4's features that this build can
// work with, by name. Brokers and controllers register them, ApiVersions lists
// them.
func SupportedFeatures() []record.FeatureRange {
	var ranges []record.FeatureRange
	for _, f := range feature.All() {
		ranges = append(ranges, record.FeatureRange{Name: f.Name, Min: f.Min, Max: f.Max})
	}
	return ranges
}

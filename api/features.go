package api

import "github.com/klamm/klamm/metadata/record"

// SupportedFeatures are the levels of Kafka 4.4's features that this build can
// work with, by name. Brokers and controllers register them, ApiVersions lists
// them.
func SupportedFeatures() []record.FeatureRange {
	return []record.FeatureRange{
		{Name: "eligible.leader.replicas.version", Min: 0, Max: 1},
		{Name: "group.version", Min: 0, Max: 1},
		{Name: "kraft.version", Min: 0, Max: 1},
		{Name: "metadata.version", Min: 7, Max: 33},
		{Name: "share.version", Min: 0, Max: 2},
		{Name: "streams.version", Min: 0, Max: 1},
		{Name: "transaction.version", Min: 0, Max: 2},
	}
}

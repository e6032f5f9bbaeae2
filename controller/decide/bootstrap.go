package decide

import (
	"cmp"
	"slices"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
)

// DefaultFeatures are the levels that a freshly formatted Kafka 4.4 finalizes,
// metadata.version first, then by name.
func DefaultFeatures() []record.Record {
	return []record.Record{
		&record.FeatureLevel{Name: metadata.MetadataVersion, Level: 33},
		&record.FeatureLevel{Name: featureELR, Level: 1},
		&record.FeatureLevel{Name: "group.version", Level: 1},
		&record.FeatureLevel{Name: "share.version", Level: 2},
		&record.FeatureLevel{Name: "streams.version", Level: 1},
		&record.FeatureLevel{Name: "transaction.version", Level: 2},
	}
}

// Bootstrap returns the records of a new cluster, to be written as one
// transaction "Bootstrap records": those that the directory was formatted with,
// or the default levels where it says nothing of metadata.version, then, with
// ELR on, the cluster-wide min.insync.replicas, which elections need a record
// of (KIP-966).
func Bootstrap(formatted []record.Record, env Env) []record.Record {
	records := slices.Clone(formatted)
	versioned := slices.ContainsFunc(records, func(r record.Record) bool {
		f, ok := r.(*record.FeatureLevel)
		return ok && f.Name == metadata.MetadataVersion
	})
	if !versioned {
		records = append(DefaultFeatures(), records...)
	}
	slices.SortStableFunc(records, func(a, b record.Record) int {
		return cmp.Compare(bootstrapRank(a), bootstrapRank(b))
	})
	elr, minISR := false, false
	for _, r := range records {
		switch r := r.(type) {
		case *record.FeatureLevel:
			elr = elr || r.Name == featureELR && r.Level >= 1
		case *record.Config:
			minISR = minISR || r.ResourceType == metadata.ResourceBroker && r.ResourceName == "" && r.Name == minISRKey
		}
	}
	if elr && !minISR {
		key, _ := config.TopicKey(minISRKey)
		value := key.Resolve(config.Layers{Static: env.Static}).Value
		records = append(records, &record.Config{
			ResourceType: metadata.ResourceBroker, Name: minISRKey, Value: &value,
		})
	}
	return records
}

// bootstrapRank puts metadata.version first: it says how to read the rest.
func bootstrapRank(r record.Record) int {
	if f, ok := r.(*record.FeatureLevel); ok {
		if f.Name == metadata.MetadataVersion {
			return 0
		}
		return 1
	}
	return 2
}

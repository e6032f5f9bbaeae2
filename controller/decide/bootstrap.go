package decide

import (
	"cmp"
	"slices"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
)

// DefaultFeatures are the levels that a freshly formatted Kafka 4.4 finalizes,
// metadata.version first, then by name.
func DefaultFeatures() []record.Record {
	records := []record.Record{&record.FeatureLevel{Name: feature.MetadataVersion, Level: int16(feature.Latest)}}
	for _, f := range feature.All() {
		if f.Name != feature.MetadataVersion && f.Name != feature.KRaftVersion {
			records = append(records, &record.FeatureLevel{Name: f.Name, Level: f.Default(feature.Latest)})
		}
	}
	return records
}

// Bootstrap returns the records of a new cluster, as the transaction "Bootstrap
// records" where metadata.version has those: what the directory was formatted
// with, or the default levels where it says nothing of metadata.version, then,
// with ELR on, the cluster-wide min.insync.replicas, which elections need a
// record of (KIP-966).
func Bootstrap(formatted []record.Record, env Env) []record.Record {
	records := slices.Clone(formatted)
	versioned := slices.IndexFunc(records, func(r record.Record) bool {
		f, ok := r.(*record.FeatureLevel)
		return ok && f.Name == feature.MetadataVersion
	})
	level := feature.Latest
	if versioned < 0 {
		records = append(DefaultFeatures(), records...)
	} else {
		level = feature.Level(records[versioned].(*record.FeatureLevel).Level)
	}
	slices.SortStableFunc(records, func(a, b record.Record) int {
		return cmp.Compare(bootstrapRank(a), bootstrapRank(b))
	})
	elr, minISR := false, false
	for _, r := range records {
		switch r := r.(type) {
		case *record.FeatureLevel:
			elr = elr || r.Name == feature.ELR && r.Level >= 1
		case *record.Config:
			minISR = minISR || r.ResourceType == metadata.ResourceBroker && r.ResourceName == "" && r.Name == minISRKey
		}
	}
	if elr && !minISR {
		records = append(records, clusterMinISR(env))
	}
	if !level.HasTransactions() {
		return records
	}
	name := "Bootstrap records"
	records = append([]record.Record{&record.BeginTransaction{Name: &name}}, records...)
	return append(records, &record.EndTransaction{})
}

// bootstrapRank puts metadata.version first: it says how to read the rest.
func bootstrapRank(r record.Record) int {
	if f, ok := r.(*record.FeatureLevel); ok {
		if f.Name == feature.MetadataVersion {
			return 0
		}
		return 1
	}
	return 2
}

package decide

import (
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
)

// clearELR follows records of configs: what counts as eligible depends on
// min.insync.replicas, so it starts afresh whenever that is written, for its
// topic, or for all where it is a broker's. Kafka does so on creation too.
func clearELR(img *metadata.Image, configs []record.Record) []record.Record {
	if !elrEnabled(img) {
		return nil
	}
	var cleared []record.Record
	for _, rec := range configs {
		c, ok := rec.(*record.Config)
		if !ok || c.Name != minISRKey {
			continue
		}
		switch c.ResourceType {
		case metadata.ResourceTopic:
			cleared = append(cleared, &record.ClearELR{TopicName: c.ResourceName})
		case metadata.ResourceBroker:
			cleared = append(cleared, &record.ClearELR{})
		}
	}
	return cleared
}

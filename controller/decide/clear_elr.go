package decide

import (
	"github.com/klamm/klamm/config"
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

// elrConfigs come before the level that enables eligible leaders: from then on
// min.insync.replicas has one value for all brokers, which is written down, and
// no broker has its own (KIP-966).
func elrConfigs(img *metadata.Image, env Env) []record.Record {
	var records []record.Record
	if _, ok := img.Config(metadata.Resource{Type: metadata.ResourceBroker}, minISRKey); !ok {
		records = append(records, clusterMinISR(env))
	}
	for res := range img.ConfigResources() {
		if _, ok := img.Config(res, minISRKey); ok && res.Type == metadata.ResourceBroker && res.Name != "" {
			records = append(records, &record.Config{ResourceType: res.Type, ResourceName: res.Name, Name: minISRKey})
		}
	}
	return records
}

// clusterMinISR writes down what server.properties says of it.
func clusterMinISR(env Env) record.Record {
	key, _ := config.TopicKey(minISRKey)
	value := key.Resolve(config.Layers{Static: env.Static}).Value
	return &record.Config{ResourceType: metadata.ResourceBroker, Name: minISRKey, Value: &value}
}

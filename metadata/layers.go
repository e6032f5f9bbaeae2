package metadata

import (
	"strconv"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/protocol"
)

// Layers are where the configs of a broker come from, and the defaults of what
// lives on it: what records set for it, what they set for all brokers, and its
// server.properties. Layers.Topic is left to the caller.
func (img *Image) Layers(node protocol.NodeID, static config.Lookup) config.Layers {
	return config.Layers{
		Broker:        img.ConfigsOf(Resource{Type: ResourceBroker, Name: strconv.Itoa(int(node))}),
		BrokerDefault: img.ConfigsOf(Resource{Type: ResourceBroker}),
		Static:        static,
	}
}

// ConfigsOf is the layer of what records set for a resource.
func (img *Image) ConfigsOf(res Resource) config.Lookup {
	return func(key string) (string, bool) { return img.Config(res, key) }
}

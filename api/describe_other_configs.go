package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// logger answers with the level of this broker's only logger.
func (d *configAnswer) logger(name string, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if name == "" {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Broker id must not be empty")
	}
	if err := d.checkBroker(name, "Unexpected broker id, expected %d but received %s"); err != nil {
		return nil, err
	}
	if !asked(keys, rootLogger) {
		return nil, nil
	}
	e := kmsg.NewDescribeConfigsResponseResourceConfig()
	e.Name, e.Value, e.Source = rootLogger, &d.logLevel, kmsg.ConfigSourceDynamicBrokerLoggerConfig
	none := ""
	e.Documentation = &none
	return []kmsg.DescribeConfigsResponseResourceConfig{e}, nil
}

// group answers for any group, there or not: they all inherit from the broker.
func (d *configAnswer) group(name string, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if name == "" {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Group name must not be empty")
	}
	layers := d.layers(metadata.Resource{Type: metadata.ResourceGroup, Name: name})
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, key := range config.GroupKeys() {
		if asked(keys, key.Name) {
			effective, places := key.DescribeGroup(layers)
			out = append(out, d.entry(key, effective, places))
		}
	}
	return out, nil
}

// clientMetrics answers for a subscription, there or not. It inherits from
// nowhere: what is set stands alone.
func (d *configAnswer) clientMetrics(name string, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if name == "" {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Client metrics subscription name must not be empty")
	}
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, key := range config.ClientMetricsKeys() {
		if !asked(keys, key.Name) {
			continue
		}
		effective := config.Setting{Name: key.Name, Value: key.Default, Source: config.FromDefault}
		var places []config.Setting
		if value, ok := d.img.Config(metadata.Resource{Type: metadata.ResourceClientMetrics, Name: name}, key.Name); ok {
			effective.Value, effective.Source = key.Normalize(value), config.FromClientMetrics
			places = append(places, effective)
		}
		out = append(out, d.entry(key, effective, places))
	}
	return out, nil
}

package api

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

func (a *Admin) describeConfigs(_ context.Context, req *server.Request) server.Answer {
	d := configAnswer{self: a.NodeID, img: a.Image(), static: a.Static, req: req.Body.(*kmsg.DescribeConfigsRequest)}
	return server.Answer{Response: d.answer()}
}

// configAnswer is one DescribeConfigs answer in the making.
type configAnswer struct {
	self   protocol.NodeID
	img    *metadata.Image
	static config.Lookup
	req    *kmsg.DescribeConfigsRequest
}

func (d *configAnswer) answer() *kmsg.DescribeConfigsResponse {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Version = d.req.Version
	// A kind that does not exist spoils the whole request, as in Kafka.
	unknown := slices.ContainsFunc(d.req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool {
		return !isResourceType(int8(r.ResourceType))
	})
	for _, res := range d.req.Resources {
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = res.ResourceType, res.ResourceName
		var err error
		if unknown {
			err = protocol.Errorf(protocol.ErrInvalidRequest, invalidRequestText)
		} else {
			r.Configs, err = d.resource(int8(res.ResourceType), res.ResourceName, res.ConfigNames)
		}
		text := ""
		if m := protocol.MessageOf(err); m != nil {
			text = *m
		}
		r.ErrorCode, r.ErrorMessage = int16(protocol.CodeOf(err)), &text
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

func isResourceType(t int8) bool {
	switch t {
	case metadata.ResourceTopic, metadata.ResourceBroker, metadata.ResourceBrokerLogger, metadata.ResourceClientMetrics, metadata.ResourceGroup:
		return true
	}
	return false
}

func (d *configAnswer) resource(kind int8, name string, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	switch kind {
	case metadata.ResourceTopic:
		return d.topic(name, keys)
	case metadata.ResourceBroker:
		return d.broker(name, keys)
	}
	return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Configs of resource type %d are not supported yet", kind)
}

// asked tells whether a key is to be answered: all are where none is named.
func asked(keys []string, name string) bool { return len(keys) == 0 || slices.Contains(keys, name) }

func (d *configAnswer) topic(name string, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if err := protocol.ValidateTopicName(name); err != nil {
		return nil, err
	}
	if _, ok := d.img.Topic(name); !ok {
		return nil, protocol.ErrUnknownTopicOrPartition
	}
	layers := config.Layers{
		Topic:         d.layer(metadata.ResourceTopic, name),
		Broker:        d.layer(metadata.ResourceBroker, strconv.Itoa(int(d.self))),
		BrokerDefault: d.layer(metadata.ResourceBroker, ""),
		Static:        d.static,
	}
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, key := range config.TopicKeys() {
		if !asked(keys, key.Name) {
			continue
		}
		effective, places := key.Describe(layers)
		out = append(out, d.entry(key, effective, places))
	}
	return out, nil
}

func (d *configAnswer) layer(kind int8, name string) config.Lookup {
	return func(key string) (string, bool) { return d.img.Config(metadata.Resource{Type: kind, Name: name}, key) }
}

// broker answers for this broker by its id, and for the defaults of all brokers
// by the empty name.
func (d *configAnswer) broker(name string, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	var out []kmsg.DescribeConfigsResponseResourceConfig
	if name == "" {
		for key, value := range d.img.Configs(metadata.Resource{Type: metadata.ResourceBroker}) {
			if !asked(keys, key) {
				continue
			}
			known, ok := config.BrokerKey(key)
			if !ok {
				known = &config.Key{Name: key}
			}
			set := config.Setting{Name: key, Value: value, Source: config.FromBrokerDefault}
			out = append(out, d.entry(known, set, []config.Setting{set}))
		}
		return out, nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Broker id must be an integer, but it is: %s", name)
	}
	if protocol.NodeID(id) != d.self {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", d.self, name)
	}
	for _, key := range config.BrokerKeys() {
		if key.Internal || !asked(keys, key.Name) {
			continue
		}
		places := d.brokerPlaces(&key)
		effective := config.Setting{Name: key.Name, Null: true, Source: config.FromDefault}
		if len(places) > 0 {
			effective = places[0]
		}
		entry := d.entry(&key, effective, places)
		entry.ReadOnly = true // there is no request yet that changes one
		out = append(out, entry)
	}
	return out, nil
}

// brokerPlaces lists where a key of this broker is set, the strongest first.
func (d *configAnswer) brokerPlaces(key *config.Key) []config.Setting {
	var places []config.Setting
	add := func(value string, ok bool, source config.Source) {
		if ok {
			places = append(places, config.Setting{Name: key.Name, Value: value, Source: source})
		}
	}
	value, ok := d.layer(metadata.ResourceBroker, strconv.Itoa(int(d.self)))(key.Name)
	add(value, ok, config.FromBroker)
	value, ok = d.layer(metadata.ResourceBroker, "")(key.Name)
	add(value, ok, config.FromBrokerDefault)
	if d.static != nil {
		value, ok = d.static(key.Name)
		add(value, ok, config.FromFile)
	}
	add(key.Default, !key.Null && !key.Required, config.FromDefault)
	return places
}

func (d *configAnswer) entry(key *config.Key, effective config.Setting, places []config.Setting) kmsg.DescribeConfigsResponseResourceConfig {
	value := func(s config.Setting) *string {
		if s.Null || key.Sensitive() {
			return nil
		}
		return &s.Value
	}
	e := kmsg.NewDescribeConfigsResponseResourceConfig()
	e.Name = key.Name
	e.Value = value(effective)
	e.Source = kmsg.ConfigSource(effective.Source)
	e.IsSensitive = key.Sensitive()
	e.ConfigType = kmsg.ConfigType(key.Type)
	if d.req.IncludeSynonyms {
		for _, p := range places {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = p.Name, value(p), kmsg.ConfigSource(p.Source)
			e.ConfigSynonyms = append(e.ConfigSynonyms, s)
		}
	}
	if d.req.IncludeDocumentation {
		e.Documentation = &key.Doc
	}
	return e
}

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

// InvalidRequestText is Kafka's text of INVALID_REQUEST.
const InvalidRequestText = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."

// DescribeConfigs returns the API of that name.
func DescribeConfigs(env Env) server.API {
	return server.Serve(kmsg.DescribeConfigs, func(_ context.Context, req *server.Request) server.Answer {
		d := configAnswer{
			self: env.NodeID, img: env.Image(), static: env.Static, logLevel: env.Loggers.name(),
			req: req.Body.(*kmsg.DescribeConfigsRequest),
		}
		return server.Answer{Response: d.answer()}
	})
}

// configAnswer is one DescribeConfigs answer in the making.
type configAnswer struct {
	self     protocol.NodeID
	img      *metadata.Image
	static   config.Lookup
	logLevel string
	req      *kmsg.DescribeConfigsRequest
}

func (d *configAnswer) answer() *kmsg.DescribeConfigsResponse {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Version = d.req.Version
	// A kind that does not exist spoils the whole request, as in Kafka.
	unknown := slices.ContainsFunc(d.req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool {
		return !IsResourceType(int8(r.ResourceType))
	})
	for _, res := range d.req.Resources {
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = res.ResourceType, res.ResourceName
		var err error
		if unknown {
			err = protocol.Errorf(protocol.ErrInvalidRequest, InvalidRequestText)
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

// IsResourceType tells whether t is a kind of resource that has configs.
func IsResourceType(t int8) bool {
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
	case metadata.ResourceBrokerLogger:
		return d.logger(name, keys)
	case metadata.ResourceClientMetrics:
		return d.clientMetrics(name, keys)
	default:
		return d.group(name, keys)
	}
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
	layers := d.layers(metadata.Resource{Type: metadata.ResourceTopic, Name: name})
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

// layers are where a topic's or a group's configs come from.
func (d *configAnswer) layers(of metadata.Resource) config.Layers {
	layers := d.img.Layers(d.self, d.static)
	layers.Topic = d.img.ConfigsOf(of)
	return layers
}

// broker answers for this broker by its id, and for the defaults of all brokers
// by the empty name.
func (d *configAnswer) broker(name string, keys []string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	var out []kmsg.DescribeConfigsResponseResourceConfig
	if name == "" {
		for key, value := range d.img.Configs(metadata.Resource{Type: metadata.ResourceBroker}) {
			if asked(keys, key) {
				set := config.Setting{Name: key, Value: value, Source: config.FromBrokerDefault}
				out = append(out, d.brokerEntry(key, []config.Setting{set}))
			}
		}
		return out, nil
	}
	if err := d.checkBroker(name, "Unexpected broker id, expected %d or empty string, but received %s"); err != nil {
		return nil, err
	}
	for _, key := range d.brokerNames() {
		if asked(keys, key) {
			out = append(out, d.brokerEntry(key, d.brokerPlaces(key)))
		}
	}
	return out, nil
}

func (d *configAnswer) checkBroker(name, text string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Broker id must be an integer, but it is: %s", name)
	}
	if protocol.NodeID(id) != d.self {
		return protocol.Errorf(protocol.ErrInvalidRequest, text, d.self, name)
	}
	return nil
}

// brokerNames are the keys that are listed for this broker, sorted: all but the
// internal ones, and whatever else is set at run time.
func (d *configAnswer) brokerNames() []string {
	var names []string
	for _, key := range config.BrokerKeys() {
		if !key.Internal {
			names = append(names, key.Name)
		}
	}
	for _, name := range []string{"", strconv.Itoa(int(d.self))} {
		for key := range d.img.Configs(metadata.Resource{Type: metadata.ResourceBroker, Name: name}) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// brokerEntry describes one broker key. What a key of a plug-in holds nobody
// knows, so it is not shown.
func (d *configAnswer) brokerEntry(name string, places []config.Setting) kmsg.DescribeConfigsResponseResourceConfig {
	known, ok := config.DynamicKey(name)
	key := config.Key{Name: name}
	if ok {
		key = *known
		key.Name = name // with a listener's prefix, where it has one
	}
	effective := config.Setting{Name: name, Null: true, Source: config.FromDefault}
	if len(places) > 0 {
		effective = places[0]
		effective.Value = key.Normalize(effective.Value)
	}
	hidden := key
	if !ok {
		hidden.Type = config.Password
	}
	entry := d.entry(&hidden, effective, places)
	entry.ConfigType = kmsg.ConfigType(key.Type)
	entry.ReadOnly = config.DynamicMode(name) == config.ReadOnly
	return entry
}

// brokerPlaces lists where a key of this broker is set, the strongest first. Of
// keys that stand for one another those before the key's own are left out.
func (d *configAnswer) brokerPlaces(name string) []config.Setting {
	layers := d.img.Layers(d.self, d.static)
	names := config.BrokerSynonyms(name)
	var places []config.Setting
	for _, layer := range []struct {
		lookup config.Lookup
		source config.Source
	}{
		{layers.Broker, config.FromBroker},
		{layers.BrokerDefault, config.FromBrokerDefault},
		{layers.Static, config.FromFile},
		{brokerDefault, config.FromDefault},
	} {
		for _, synonym := range names {
			if layer.lookup == nil {
				continue
			}
			if value, ok := layer.lookup(synonym); ok {
				places = append(places, config.Setting{Name: synonym, Value: value, Source: layer.source})
			}
		}
	}
	at := slices.IndexFunc(places, func(s config.Setting) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return places[at:]
}

// brokerDefault is the layer of the values that nobody set.
func brokerDefault(name string) (string, bool) {
	key, ok := config.BrokerKey(name)
	if !ok || key.Null || key.Required {
		return "", false
	}
	return key.Default, true
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

package config

// Source says which layer a value comes from, with the number that
// DescribeConfigs and CreateTopics give it.
type Source int8

// The sources of DescribeConfigs v1.
const (
	FromTopic         Source = 1 // set for the topic
	FromBroker        Source = 2 // set at run time for one broker
	FromBrokerDefault Source = 3 // set at run time for all brokers
	FromFile          Source = 4 // in server.properties
	FromDefault       Source = 5 // nobody set it
)

// Lookup finds a value in one layer. A nil Lookup is an empty layer.
type Lookup func(key string) (value string, ok bool)

// FromMap makes a layer of a map.
func FromMap(m map[string]string) Lookup {
	return func(key string) (string, bool) {
		value, ok := m[key]
		return value, ok
	}
}

func (l Lookup) get(key string) (string, bool) {
	if l == nil {
		return "", false
	}
	return l(key)
}

// Layers are the places where a topic key's value may be set, the strongest
// first. The three below Topic are asked for the key's synonyms.
type Layers struct {
	Topic         Lookup // ConfigRecords of the topic
	Broker        Lookup // ConfigRecords of this broker
	BrokerDefault Lookup // ConfigRecords of the broker ""
	Static        Lookup // server.properties: (*Config).Static
}

// Setting is a value and where it comes from.
type Setting struct {
	Name   string // the key it was found under: a topic key or a synonym of it
	Value  string
	Null   bool // no value at all: only internal keys
	Source Source
}

// Resolve gives the value that counts, as it was written, in the unit of the
// topic key. A synonym of a stronger layer beats a better synonym of a weaker
// one. CreateTopics answers these.
func (k *Key) Resolve(l Layers) Setting {
	if value, ok := l.Topic.get(k.Name); ok {
		return Setting{Name: k.Name, Value: value, Source: FromTopic}
	}
	for _, layer := range l.shared() {
		for _, synonym := range k.Synonyms {
			if value, ok := layer.lookup.get(synonym.Name); ok {
				return Setting{Name: synonym.Name, Value: synonym.convert(value), Source: layer.source}
			}
		}
	}
	return Setting{Name: k.Name, Value: k.Default, Null: k.Null, Source: FromDefault}
}

type sharedLayer struct {
	lookup Lookup
	source Source
}

func (l Layers) shared() [3]sharedLayer {
	return [3]sharedLayer{{l.Broker, FromBroker}, {l.BrokerDefault, FromBrokerDefault}, {l.Static, FromFile}}
}

// Describe gives what DescribeConfigs answers for a topic key: the parsed
// value written out again, its source, and every place where it is set, the
// strongest first.
//
// Kafka lists settings under the first synonym's name only: for retention.ms,
// what log.retention.hours says is effective but not listed, and the source is
// then the default. Clients know it so, and we do the same.
func (k *Key) Describe(l Layers) (Setting, []Setting) {
	effective := k.Resolve(l)
	if !effective.Null {
		effective.Value = k.Normalize(effective.Value)
	}
	var places []Setting
	if value, ok := l.Topic.get(k.Name); ok {
		places = append(places, Setting{Name: k.Name, Value: value, Source: FromTopic})
	}
	if len(k.Synonyms) > 0 {
		places = append(places, k.sharedPlaces(l)...)
	}
	effective.Name = k.Name
	effective.Source = FromDefault
	if len(places) > 0 {
		effective.Source = places[0].Source
	}
	return effective, places
}

func (k *Key) sharedPlaces(l Layers) []Setting {
	first := k.Synonyms[0].Name
	var places []Setting
	for _, synonym := range k.Synonyms {
		for _, layer := range l.shared() {
			if value, ok := layer.lookup.get(synonym.Name); ok {
				places = append(places, Setting{Name: synonym.Name, Value: value, Source: layer.source})
			}
		}
		if value, ok := brokerDefault(synonym.Name); ok {
			places = append(places, Setting{Name: synonym.Name, Value: value, Source: FromDefault})
		}
	}
	// Kafka drops what stands before the first synonym's own entries.
	for i := range places {
		if places[i].Name == first {
			return places[i:]
		}
	}
	return nil
}

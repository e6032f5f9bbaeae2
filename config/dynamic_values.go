package config

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Dynamic are the values of a broker that can change while it runs, but for the
// defaults of topics, which are in Topic.
type Dynamic struct {
	Connections Connections
	// RecoveryThreads (num.recovery.threads.per.data.dir): logs of one directory
	// that are opened at a time, so only a start looks at it. Default 2.
	RecoveryThreads int
	// Fetchers (num.replica.fetchers) is how many pull from one broker. Default 1.
	Fetchers int
	// LeaderRate and FollowerRate (leader.replication.throttled.rate and the
	// follower's) bound what moving replicas may send and fetch, in bytes a second.
	// They exist at run time only. The default bounds nothing.
	LeaderRate, FollowerRate int64
}

// Connections bound the connections that a node accepts. The defaults bound
// nothing.
type Connections struct {
	ConnectionLimits
	// PerIP (max.connections.per.ip) bounds the open ones of each address,
	// PerIPOverrides (max.connections.per.ip.overrides) those of certain
	// addresses or names.
	PerIP          int
	PerIPOverrides map[string]int
	// Listeners (listener.name.NAME.max.connections, ...) are those listeners that
	// have bounds of their own, by upper-case name.
	Listeners map[string]ConnectionLimits
}

// ConnectionLimits are the bounds of all connections or of a listener's.
type ConnectionLimits struct {
	// Max (max.connections) are open at a time, Rate
	// (max.connection.creation.rate) are accepted per second.
	Max, Rate int
}

// dynamicNames are the keys that ResolveDynamic reads, those of listeners apart.
var dynamicNames = []string{
	"max.connections", "max.connection.creation.rate", "max.connections.per.ip", perIPOverridesKey,
	"num.recovery.threads.per.data.dir", "num.replica.fetchers", leaderRateKey, followerRateKey,
}

const (
	leaderRateKey   = "leader.replication.throttled.rate"
	followerRateKey = "follower.replication.throttled.rate"
)

// listenerNames are those of them that a listener can have for itself.
var listenerNames = []string{"max.connections", "max.connection.creation.rate"}

// noLimits is what nobody set.
var noLimits = ConnectionLimits{Max: math.MaxInt32, Rate: math.MaxInt32}

// ResolveDynamic gives the values that count. listeners are the names of those
// that may have bounds of their own.
func ResolveDynamic(l Layers, listeners []string) Dynamic {
	d := Dynamic{
		Connections: Connections{
			ConnectionLimits: l.connectionLimits(""),
			PerIP:            int(l.brokerInt("max.connections.per.ip")),
			PerIPOverrides:   make(map[string]int),
			Listeners:        make(map[string]ConnectionLimits),
		},
		RecoveryThreads: int(l.brokerInt("num.recovery.threads.per.data.dir")),
		Fetchers:        int(l.brokerInt("num.replica.fetchers")),
		LeaderRate:      l.throttleRate(leaderRateKey),
		FollowerRate:    l.throttleRate(followerRateKey),
	}
	// What cannot be read was refused when it was set.
	overrides, _ := parsePerIP(l.brokerText(perIPOverridesKey))
	for _, o := range overrides {
		d.Connections.PerIPOverrides[o.host] = o.most
	}
	for _, name := range listeners {
		if own := l.connectionLimits(listenerPrefix(name)); own != noLimits {
			d.Connections.Listeners[name] = own
		}
	}
	return d
}

// throttleRate is the value of a key that the file can not have.
func (l Layers) throttleRate(name string) int64 {
	key, _ := DynamicKey(name)
	l.Static = nil
	text, ok := l.BrokerValue(name)
	if !ok {
		text = key.Default
	}
	value, err := key.Parse(text)
	if err != nil {
		value, _ = key.Parse(key.Default)
	}
	return value.Int
}

// listenerPrefix is what stands before the keys of one listener.
func listenerPrefix(name string) string { return "listener.name." + strings.ToLower(name) + "." }

func (l Layers) connectionLimits(prefix string) ConnectionLimits {
	bound := func(name string) int {
		text, ok := l.BrokerValue(prefix + name)
		if !ok {
			return math.MaxInt32
		}
		value, err := brokerIndex[name].Parse(text)
		if err != nil {
			return math.MaxInt32
		}
		return int(value.Int)
	}
	return ConnectionLimits{Max: bound("max.connections"), Rate: bound("max.connection.creation.rate")}
}

const perIPOverridesKey = "max.connections.per.ip.overrides"

type perIPOverride struct {
	host string
	most int
}

// hostPattern is what Kafka takes for a host's name or address.
var hostPattern = regexp.MustCompile(`^[0-9a-zA-Z\-%._:]*$`)

// parsePerIP reads HOST:COUNT,... The texts of errors are Kafka's, which tells of
// its parser's troubles.
func parsePerIP(text string) ([]perIPOverride, error) {
	var overrides []perIPOverride
	for _, item := range splitList(text) {
		colon := strings.LastIndex(item, ":")
		if colon < 0 {
			return nil, errorf("Error parsing configuration property '%s': begin 0, end -1, length %d", perIPOverridesKey, len(item))
		}
		count := strings.TrimSpace(item[colon+1:])
		most, err := strconv.ParseInt(count, 10, 32)
		if err != nil {
			return nil, errorf("For input string: \"%s\"", count)
		}
		overrides = append(overrides, perIPOverride{strings.TrimSpace(item[:colon]), int(most)})
	}
	return overrides, nil
}

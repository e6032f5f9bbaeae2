package node

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/klamm/klamm/config"
	cluster "github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// configs resolves this broker's configs as an image has them: what records set
// for it, what they set for all brokers, server.properties, Kafka's defaults.
type configs struct {
	node      protocol.NodeID
	static    config.Lookup
	listeners []string
}

// dynamic returns what can change at run time and is no default of topics.
func (c configs) dynamic(img *cluster.Image) config.Dynamic {
	return config.ResolveDynamic(img.Layers(c.node, c.static), c.listeners)
}

// concern tells whether configs of this broker, or of all brokers, are among the
// changes.
func (c configs) concern(delta *cluster.Delta) bool {
	for res := range delta.ChangedConfigs() {
		if res.Type == cluster.ResourceBroker && (res.Name == "" || res.Name == strconv.Itoa(int(c.node))) {
			return true
		}
	}
	return false
}

// applyConfigs hands changed configs of this broker to those who go by them. What
// they mean for topics the replicas see to.
func (h *brokerHalf) applyConfigs(delta *cluster.Delta, img *cluster.Image) {
	if !h.configs.concern(delta) {
		return
	}
	dynamic := h.configs.dynamic(img)
	h.throttles.set(dynamic)
	h.puller.Resize(dynamic.Fetchers)
	limits := h.n.connectionLimits(context.Background(), dynamic.Connections)
	for _, connections := range h.n.connections {
		connections.SetLimits(limits)
	}
}

// lookupTime is what the name of one host may take.
const lookupTime = time.Second

// connectionLimits are a node's limits as its servers take them. Names become
// addresses once, as in Kafka.
func (n *node) connectionLimits(ctx context.Context, c config.Connections) server.ConnectionLimits {
	limits := server.ConnectionLimits{
		Max: c.Max, PerIP: c.PerIP, Rate: c.Rate, Protected: n.cfg.Listeners.InterBroker,
		PerIPOverrides: make(map[string]int), Listeners: make(map[string]server.ListenerLimits),
	}
	for host, most := range c.PerIPOverrides {
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		cancel()
		if err != nil {
			n.log.Warn().Err(err).Str("host", host).Msg("a host of max.connections.per.ip.overrides has no address, its bound has no effect")
		}
		for _, address := range addresses {
			limits.PerIPOverrides[address.IP.String()] = most
		}
	}
	for name, own := range c.Listeners {
		limits.Listeners[name] = server.ListenerLimits{Max: own.Max, Rate: own.Rate}
	}
	return limits
}

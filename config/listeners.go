package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Listener is one listeners or advertised.listeners entry: NAME://HOST:PORT.
type Listener struct {
	Name string // upper case
	Host string // empty: every address of the machine
	Port int    // 0: any free port
	// Protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	Protocol string
}

// Address is what net.Listen and net.Dial take.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

// String is the entry as it stands in the file.
func (l Listener) String() string { return l.Name + "://" + l.Address() }

// Listeners are a node's listeners by side.
type Listeners struct {
	// Broker and Controller (listeners, told apart by
	// controller.listener.names) are bound here. In the file's order.
	Broker, Controller []Listener
	// Advertised (advertised.listeners, else listeners) is where clients and
	// other brokers reach the broker listeners, one for each.
	Advertised []Listener
	// InterBroker (inter.broker.listener.name, else the first whose protocol
	// is security.inter.broker.protocol) names the listener that brokers use
	// among each other.
	InterBroker string
	// ControllerNames (controller.listener.names) are the names under which
	// controllers are reached, the first is used to dial. Nodes without the
	// controller role have it too.
	ControllerNames []string
}

// Names are those of all listeners that are bound.
func (l Listeners) Names() []string {
	var names []string
	for _, listener := range slices.Concat(l.Broker, l.Controller) {
		names = append(names, listener.Name)
	}
	return names
}

// parseListener reads NAME://HOST:PORT, where HOST may be empty or an IPv6
// address in brackets.
func parseListener(entry string) (Listener, error) {
	name, rest, ok := strings.Cut(entry, "://")
	colon := strings.LastIndex(rest, ":")
	if !ok || colon < 0 || name == "" || strings.ContainsAny(name, ":/, ") {
		return Listener{}, fmt.Errorf("%q is not NAME://HOST:PORT", entry)
	}
	port, err := strconv.Atoi(rest[colon+1:])
	if err != nil || port < 0 || port > 65535 {
		return Listener{}, fmt.Errorf("%q: %q is no port; valid is 0 to 65535", entry, rest[colon+1:])
	}
	host := rest[:colon]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	} else if strings.Contains(host, ":") {
		return Listener{}, fmt.Errorf("%q: an IPv6 address stands in brackets", entry)
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: port}, nil
}

// parseProtocolMap reads listener.security.protocol.map: NAME:PROTOCOL,...
func parseProtocolMap(text string) (map[string]string, error) {
	protocols := make(map[string]string)
	if strings.TrimSpace(text) == "" {
		return protocols, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		name, security, ok := strings.Cut(entry, ":")
		name, security = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(security))
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not LISTENER:PROTOCOL", entry)
		}
		if !slices.Contains(securityProtocols, security) {
			return nil, fmt.Errorf("%q: valid protocols are %s", entry, strings.Join(securityProtocols, ", "))
		}
		if _, twice := protocols[name]; twice {
			return nil, fmt.Errorf("listener %s is there twice", name)
		}
		protocols[name] = security
	}
	return protocols, nil
}

var securityProtocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

func (r *reader) listeners(node Node) Listeners {
	var l Listeners
	for _, name := range r.list("controller.listener.names") {
		l.ControllerNames = append(l.ControllerNames, strings.ToUpper(name))
	}
	protocols, err := parseProtocolMap(r.text("listener.security.protocol.map"))
	if err != nil {
		r.fail("listener.security.protocol.map", "%v", err)
		return l
	}
	if !r.set("listener.security.protocol.map") {
		// Kafka reads the default map so too: a controller's listener needs
		// no entry of its own as long as nobody writes the map.
		for _, name := range l.ControllerNames {
			if _, ok := protocols[name]; !ok {
				protocols[name] = "PLAINTEXT"
			}
		}
	}
	bound := r.parseListeners("listeners", protocols)
	r.checkPorts(bound)
	for _, listener := range bound {
		if slices.Contains(l.ControllerNames, listener.Name) {
			l.Controller = append(l.Controller, listener)
		} else {
			l.Broker = append(l.Broker, listener)
		}
	}
	switch {
	case r.wrong["process.roles"] || r.wrong["listeners"] || r.wrong["controller.listener.names"]:
		return l
	case node.IsController && len(l.Controller) == 0:
		r.fail("listeners", "a controller needs a listener that is named in controller.listener.names (%s)", strings.Join(l.ControllerNames, ", "))
	case !node.IsController && len(l.Controller) > 0:
		r.fail("listeners", "%s is a controller's listener (controller.listener.names), and this node is none", l.Controller[0].Name)
	case node.IsBroker && len(l.Broker) == 0:
		r.fail("listeners", "a broker needs a listener that is not named in controller.listener.names")
	case !node.IsBroker && len(l.Broker) > 0:
		r.fail("listeners", "%s is a broker's listener, and this node is none", l.Broker[0].Name)
	}
	if node.IsBroker {
		l.Advertised = r.advertised(l, protocols)
		l.InterBroker = r.interBroker(l)
	}
	return l
}

func (r *reader) parseListeners(key string, protocols map[string]string) []Listener {
	var listeners []Listener
	for _, entry := range r.list(key) {
		listener, err := parseListener(entry)
		if err != nil {
			r.fail(key, "%v", err)
			continue
		}
		if slices.ContainsFunc(listeners, func(other Listener) bool { return other.Name == listener.Name }) {
			r.fail(key, "listener %s is there twice", listener.Name)
			continue
		}
		security, ok := protocols[listener.Name]
		if !ok {
			r.fail(key, "no security protocol defined for listener %s; valid is an entry %s:PLAINTEXT in listener.security.protocol.map", listener.Name, listener.Name)
			continue
		}
		if security != "PLAINTEXT" {
			r.fail(key, "listener %s asks for %s, which this version does not serve yet; valid is PLAINTEXT", listener.Name, security)
			continue
		}
		listener.Protocol = security
		listeners = append(listeners, listener)
	}
	return listeners
}

func (r *reader) checkPorts(listeners []Listener) {
	ports := make(map[int]Listener)
	for _, listener := range listeners {
		other, twice := ports[listener.Port]
		if twice && listener.Port != 0 && (other.Host == listener.Host || other.Host == "" || listener.Host == "") {
			r.fail("listeners", "each listener must have a different port: %s and %s", other, listener)
		}
		ports[listener.Port] = listener
	}
}

// advertised gives one address per broker listener. What the file leaves out
// is as it is bound; an unnamed host becomes this machine's name by the time
// the node registers.
func (r *reader) advertised(l Listeners, protocols map[string]string) []Listener {
	if !r.set("advertised.listeners") {
		for _, listener := range l.Broker {
			if isWildcard(listener.Host) && listener.Host != "" {
				r.fail("listeners", "%s would be advertised, and nobody can reach a wildcard address; valid is advertised.listeners with a name or address that clients can reach", listener)
			}
		}
		return l.Broker
	}
	var advertised []Listener
	for _, listener := range r.parseListeners("advertised.listeners", protocols) {
		switch {
		case slices.Contains(l.ControllerNames, listener.Name):
			// Allowed since Kafka 3.9, of no use to a static quorum.
			continue
		case isWildcard(listener.Host) && listener.Host != "":
			r.fail("advertised.listeners", "%s cannot be reached: it is a wildcard address; valid is a name or address that clients can reach", listener)
		case !slices.ContainsFunc(l.Broker, func(bound Listener) bool { return bound.Name == listener.Name }):
			r.fail("advertised.listeners", "%s is advertised and not bound; valid are the names in listeners", listener.Name)
		}
		advertised = append(advertised, listener)
	}
	if len(advertised) == 0 {
		r.fail("advertised.listeners", "there must be at least one that is not a controller's")
	}
	return advertised
}

func (r *reader) interBroker(l Listeners) string {
	names := make([]string, len(l.Advertised))
	for i, listener := range l.Advertised {
		names[i] = listener.Name
	}
	if name := strings.ToUpper(r.text("inter.broker.listener.name")); name != "" {
		if r.set("security.inter.broker.protocol") {
			r.fail("inter.broker.listener.name", "security.inter.broker.protocol is set too, only one of both may be")
		}
		if !slices.Contains(names, name) {
			r.fail("inter.broker.listener.name", "must be the name of an advertised listener; valid here: %s", strings.Join(names, ", "))
		}
		return name
	}
	security := r.text("security.inter.broker.protocol")
	for _, listener := range l.Advertised {
		if listener.Name == security {
			return listener.Name
		}
	}
	for _, listener := range l.Advertised {
		if listener.Protocol == security {
			return listener.Name
		}
	}
	if len(names) > 0 {
		r.fail("security.inter.broker.protocol", "no advertised listener has it; valid is inter.broker.listener.name with one of %s", strings.Join(names, ", "))
	}
	return ""
}

func isWildcard(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.IsUnspecified()
}

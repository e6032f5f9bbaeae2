package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/klamm/klamm/protocol"
)

// Quorum is who votes over the metadata log, and how fast it gives up on whom.
type Quorum struct {
	// Voters (controller.quorum.voters) is the static set of controllers; empty
	// where the voters are in the metadata log (KIP-853).
	Voters []Voter
	// Bootstrap (controller.quorum.bootstrap.servers) are HOST:PORT of
	// controllers to ask for the voters, where those are in the log.
	Bootstrap []string
	// AutoJoin (controller.quorum.auto.join.enable): a controller that has no vote asks
	// for one by itself, and for its lost disk's to be taken. Default false: an operator
	// does.
	AutoJoin bool
	// ElectionTimeout (controller.quorum.election.timeout.ms): how long a
	// candidate waits for votes. Default 1 s.
	ElectionTimeout time.Duration
	// FetchTimeout (controller.quorum.fetch.timeout.ms): how long a quorum
	// goes without hearing of its leader. Shorter elects sooner, also when
	// the leader was only slow. Default 2 s.
	FetchTimeout time.Duration
	// RequestTimeout (controller.quorum.request.timeout.ms) bounds a request
	// to a controller. Default 2 s.
	RequestTimeout time.Duration
}

// Voter is one entry of controller.quorum.voters: ID@HOST:PORT.
type Voter struct {
	ID   protocol.NodeID
	Host string
	Port int
}

// Address is what net.Dial takes.
func (v Voter) Address() string { return net.JoinHostPort(v.Host, strconv.Itoa(v.Port)) }

// String is the entry as it stands in the file.
func (v Voter) String() string { return fmt.Sprintf("%d@%s", v.ID, v.Address()) }

// ParseVoter reads ID@HOST:PORT.
func ParseVoter(entry string) (Voter, error) {
	idText, address, ok := strings.Cut(entry, "@")
	if !ok {
		return Voter{}, fmt.Errorf("%q is not ID@HOST:PORT", entry)
	}
	id, err := strconv.ParseInt(idText, 10, 32)
	if err != nil || id < 0 {
		return Voter{}, fmt.Errorf("%q: %q is no node id", entry, idText)
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return Voter{}, fmt.Errorf("%q is not ID@HOST:PORT", entry)
	}
	if !isPort(portText) {
		return Voter{}, fmt.Errorf("%q: %q is no port", entry, portText)
	}
	port, _ := strconv.Atoi(portText)
	return Voter{ID: protocol.NodeID(id), Host: host, Port: port}, nil
}

func isPort(text string) bool {
	port, err := strconv.Atoi(text)
	return err == nil && port >= 0 && port <= 65535
}

func (r *reader) quorum(node Node) Quorum {
	const key = "controller.quorum.voters"
	q := Quorum{
		ElectionTimeout: r.ms("controller.quorum.election.timeout.ms"),
		FetchTimeout:    r.ms("controller.quorum.fetch.timeout.ms"),
		RequestTimeout:  r.ms("controller.quorum.request.timeout.ms"),
		AutoJoin:        r.flag("controller.quorum.auto.join.enable"),
	}
	member := false
	seen := make(map[protocol.NodeID]bool)
	const dynamic = "controller.quorum.bootstrap.servers"
	for _, server := range r.list(dynamic) {
		if host, port, err := net.SplitHostPort(server); err != nil || host == "" || !isPort(port) {
			r.fail(dynamic, "%q is not HOST:PORT", server)
		}
		q.Bootstrap = append(q.Bootstrap, server)
	}
	for _, entry := range r.list(key) {
		voter, err := ParseVoter(entry)
		if err != nil {
			r.fail(key, "%v", err)
			continue
		}
		if seen[voter.ID] {
			r.fail(key, "node %d is there twice", voter.ID)
		}
		seen[voter.ID] = true
		member = member || voter.ID == node.ID
		q.Voters = append(q.Voters, voter)
	}
	switch {
	case r.wrong[key] || r.wrong["process.roles"] || r.wrong["node.id"]:
	case len(q.Voters) == 0 && len(q.Bootstrap) == 0:
		r.fail(key, "nobody votes; valid is a list of ID@HOST:PORT, such as 1@localhost:9093, or none with controller.quorum.bootstrap.servers, such as localhost:9093, for voters that are in the metadata log")
	case len(q.Voters) == 0:
	case node.IsController && !member:
		r.fail(key, "a controller must be one of the voters, and node.id %d is not", node.ID)
	case !node.IsController && member:
		r.fail(key, "node.id %d is a voter, so process.roles must have controller", node.ID)
	}
	return q
}

//go:build integration

package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/klamm/klamm/protocol"
)

// Network is a host for each node of a cluster, a network namespace, and a bridge
// between them. The test is on the bridge too, and reaches every host whatever
// happens between them.
type Network struct {
	t      *testing.T
	number int32           // of this network in the process
	hosts  map[int32]*host // by the ids of the nodes
}

// networks is how many there have been.
var networks atomic.Int32

// host is a namespace that a process keeps, and what its firewall lets in.
type host struct {
	keeper *exec.Cmd
	rules  []string
}

// The ports of every host.
const (
	BrokerPort     = 9092
	ControllerPort = 9093
)

// insideEnv tells the test's process that it is in its own network namespace.
const insideEnv = "KLAMM_TEST_INSIDE"

// noNetwork is why there can be no Network here.
var noNetwork = "the tests' process was not started by WithNetwork"

// WithNetwork is what TestMain of a package with Networks runs. It begins the
// process again in a network namespace of its own, which ends with it, and so
// nothing can be left behind.
func WithNetwork(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		noNetwork = ""
		os.Exit(m.Run())
	}
	unshare, err := exec.LookPath("unshare")
	if err == nil {
		out, failed := exec.Command(unshare, "--net", "true").CombinedOutput()
		if err = failed; err != nil {
			err = errors.New(strings.TrimSpace(string(out)))
		}
	}
	if err == nil {
		args := append([]string{unshare, "--net"}, os.Args...)
		err = syscall.Exec(unshare, args, append(os.Environ(), insideEnv+"=1"))
	}
	noNetwork = "network namespaces need root: " + err.Error()
	os.Exit(m.Run())
}

// StartHosts is StartCluster with each node on a host of its own. Where there can
// be no network namespaces the test is skipped.
func StartHosts(t *testing.T, count int, settings ...string) (*Cluster, *Network) {
	t.Helper()
	return Hosts{Brokers: count, Settings: settings}.Start(t)
}

// Hosts says which nodes are to be on hosts of their own.
type Hosts struct {
	Brokers     int
	Controllers int    // apart from the brokers, which are controllers too if there are none
	Dynamic     bool   // the quorum is as with StartDynamic
	Waiting     int    // controllers besides, which have no vote in it yet
	Binary      string // of all nodes, "" is the one that the tests are about
	Settings    []string
}

// Start is StartHosts of these. Node i+1 is a broker, i+101 a controller apart.
func (h Hosts) Start(t *testing.T) (*Cluster, *Network) {
	t.Helper()
	if noNetwork != "" {
		t.Skip(noNetwork)
	}
	Need(t, "ip", "apt-get install iproute2")
	Need(t, "nft", "apt-get install nftables")
	n := &Network{t: t, number: networks.Add(1), hosts: make(map[int32]*host)}
	bridge := n.device("bridge")
	n.run("ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { n.run("ip", "link", "delete", bridge) })
	n.run("ip", "address", "add", n.address(254)+"/24", "dev", bridge)
	n.run("ip", "link", "set", bridge, "up")

	c := &Cluster{}
	var quorum, voters []string
	node := func(id int32, broker, controller bool) *Node {
		n.add(id)
		node := &Node{t: t, dir: t.TempDir(), Kind: Klamm, binary: h.Binary}
		if broker {
			node.Address = fmt.Sprintf("%s:%d", n.address(id), BrokerPort)
		}
		if controller {
			node.Controller = fmt.Sprintf("%s:%d", n.address(id), ControllerPort)
			quorum = append(quorum, node.Controller)
			voters = append(voters, fmt.Sprintf("%d@%s", id, node.Controller))
		}
		return node
	}
	for i := range h.Controllers + h.Waiting {
		c.Controllers = append(c.Controllers, node(int32(i+101), false, true))
	}
	for i := range h.Brokers {
		c.Nodes = append(c.Nodes, node(int32(i+1), true, h.Controllers == 0))
	}
	known := "controller.quorum.voters=" + strings.Join(voters, ",")
	if h.Dynamic {
		known = "controller.quorum.bootstrap.servers=" + strings.Join(quorum, ",")
		for i := range voters {
			voters[i] += ":" + protocol.NewUUID().String()
		}
		for i, node := range c.Controllers {
			node.options = []string{"--no-initial-controllers"}
			if i < h.Controllers {
				node.options = []string{"--initial-controllers", strings.Join(voters[:h.Controllers], ",")}
			}
		}
	}
	settings := append([]string{known}, h.Settings...)
	format := func(nodes []*Node, first int) {
		for i, node := range nodes {
			node.format(first+i, settings)
			node.command = append(n.hosts[int32(first+i)].enter(), node.command...)
		}
	}
	format(c.Controllers, 101)
	format(c.Nodes, 1)
	c.Restart()
	return c, n
}

func (n *Network) address(id int32) string { return fmt.Sprintf("10.73.%d.%d", n.number, id) }

// device is a name of this network's own.
func (n *Network) device(name string) string { return fmt.Sprint(name, "-", n.number) }

// add makes a host and joins it to the bridge.
func (n *Network) add(id int32) {
	n.t.Helper()
	keeper := exec.Command("sleep", "infinity")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := keeper.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = keeper.Process.Kill()
		_ = keeper.Wait()
	})
	h := &host{keeper: keeper}
	n.hosts[id] = h
	port := n.device(fmt.Sprint("port", id))
	n.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(keeper.Process.Pid))
	// With the namespace it goes only when the kernel gets round to it.
	n.t.Cleanup(func() { n.run("ip", "link", "delete", port) })
	n.run("ip", "link", "set", port, "master", n.device("bridge"), "up")
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", n.address(id) + "/24", "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
	} {
		n.run(slices.Concat(h.enter(), args)...)
	}
}

// enter begins a command line that is run on the host.
func (h *host) enter() []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", h.keeper.Process.Pid)}
}

func (n *Network) run(args ...string) {
	n.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Drop loses every packet that one node sends another.
func (n *Network) Drop(from, to int32) {
	n.t.Helper()
	n.rule(to, "ip saddr "+n.address(from)+" drop")
}

// DropTo loses the packets that one node sends to a port of another; what that
// port's connections send to the node arrives.
func (n *Network) DropTo(port int, from, to int32) {
	n.t.Helper()
	n.rule(to, fmt.Sprintf("ip saddr %s tcp dport %d drop", n.address(from), port))
}

// Slow lets through so many bytes a second of what one node sends another, and loses
// the rest.
func (n *Network) Slow(from, to int32, bytes int) {
	n.t.Helper()
	n.rule(to, fmt.Sprintf("ip saddr %s limit rate over %d bytes/second burst 4096 bytes drop", n.address(from), bytes))
}

// Cut loses every packet between two nodes.
func (n *Network) Cut(a, b int32) {
	n.t.Helper()
	n.Drop(a, b)
	n.Drop(b, a)
}

// Isolate cuts a node off from all others.
func (n *Network) Isolate(id int32) {
	n.t.Helper()
	for other := range n.hosts {
		if other != id {
			n.Cut(id, other)
		}
	}
}

// Reject answers every packet that another node sends to one with a reset, as
// a port without a process does; port 0 is all of them.
func (n *Network) Reject(port int, to int32) {
	n.t.Helper()
	which := "meta l4proto tcp"
	if port != 0 {
		which = fmt.Sprintf("tcp dport %d", port)
	}
	for other := range n.hosts {
		if other != to {
			n.rule(to, fmt.Sprintf("ip saddr %s %s reject with tcp reset", n.address(other), which))
		}
	}
}

// Heal lets everything through again.
func (n *Network) Heal() {
	n.t.Helper()
	for _, h := range n.hosts {
		if len(h.rules) > 0 {
			h.rules = nil
			n.load(h)
		}
	}
}

func (n *Network) rule(at int32, rule string) {
	n.t.Helper()
	h := n.hosts[at]
	h.rules = append(h.rules, rule)
	n.load(h)
}

// load has a host's firewall be what its rules say, all at once.
func (n *Network) load(h *host) {
	n.t.Helper()
	enter := h.enter()
	cmd := exec.Command(enter[0], append(enter[1:], "nft", "-f", "-")...)
	cmd.Stdin = strings.NewReader("table inet test\ndelete table inet test\n" +
		"table inet test {\nchain input {\ntype filter hook input priority 0;\n" + strings.Join(h.rules, "\n") + "\n}\n}\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("nft: %v\n%s", err, out)
	}
}

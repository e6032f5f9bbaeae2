//go:build integration

package harness

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Cluster is nodes that are one cluster; node i has the id i+1.
type Cluster struct {
	// Nodes are the brokers, which are controllers too unless there are some apart.
	Nodes []*Node
	// Controllers are those without a broker; controller i has the id i+101.
	Controllers []*Node
}

// StartCluster formats directories, with the given lines of server.properties
// too, and starts a node on each. The processes end with the test.
func StartCluster(t *testing.T, count int, settings ...string) *Cluster {
	t.Helper()
	c := ConfiguredCluster(t, "", count, settings...)
	for _, n := range c.Nodes {
		n.Format()
	}
	c.Restart()
	return c
}

// ConfiguredCluster is StartCluster of nodes whose directories are not formatted yet.
func ConfiguredCluster(t *testing.T, kind Kind, count int, settings ...string) *Cluster {
	t.Helper()
	ports := freePorts(t, 2*count)
	c := &Cluster{}
	var voters []string
	for i := range count {
		n := &Node{t: t, dir: t.TempDir(), Kind: kind, Address: "localhost:" + ports[2*i], Controller: "localhost:" + ports[2*i+1]}
		c.Nodes = append(c.Nodes, n)
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, n.Controller))
	}
	for i, n := range c.Nodes {
		n.configure(i+1, append([]string{"controller.quorum.voters=" + strings.Join(voters, ",")}, settings...))
		n.endWithTest(i + 1)
	}
	return c
}

// StartSplit is StartCluster with the roles apart, each node of its kind.
func StartSplit(t *testing.T, controllers, brokers []Kind, settings ...string) *Cluster {
	t.Helper()
	ports := freePorts(t, len(controllers)+len(brokers))
	c := &Cluster{}
	var voters []string
	for i, kind := range controllers {
		n := &Node{t: t, dir: t.TempDir(), Kind: kind, Controller: "localhost:" + ports[i]}
		c.Controllers = append(c.Controllers, n)
		voters = append(voters, fmt.Sprintf("%d@%s", i+101, n.Controller))
	}
	settings = append([]string{"controller.quorum.voters=" + strings.Join(voters, ",")}, settings...)
	for i, n := range c.Controllers {
		n.format(i+101, settings)
	}
	for i, kind := range brokers {
		n := &Node{t: t, dir: t.TempDir(), Kind: kind, Address: "localhost:" + ports[len(controllers)+i]}
		c.Nodes = append(c.Nodes, n)
		n.format(i+1, settings)
	}
	c.Restart()
	return c
}

// StartLed is StartCluster where node 1 alone is a controller, which the others
// may be killed beside.
func StartLed(t *testing.T, count int, settings ...string) *Cluster {
	t.Helper()
	ports := freePorts(t, count+1)
	c := &Cluster{}
	settings = append([]string{"controller.quorum.voters=1@localhost:" + ports[count]}, settings...)
	for i := range count {
		n := &Node{t: t, dir: t.TempDir(), Address: "localhost:" + ports[i]}
		if i == 0 {
			n.Controller = "localhost:" + ports[count]
		}
		c.Nodes = append(c.Nodes, n)
		n.format(i+1, settings)
	}
	c.Restart()
	return c
}

// Restart starts all nodes at once and waits until they serve.
func (c *Cluster) Restart() {
	for _, n := range c.All() {
		n.t.Helper()
		n.Launch()
	}
	for _, n := range c.All() {
		n.Await()
	}
}

// All are all nodes.
func (c *Cluster) All() []*Node { return slices.Concat(c.Controllers, c.Nodes) }

// Bootstrap is the addresses of all brokers.
func (c *Cluster) Bootstrap() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Address)
	}
	return addrs
}

// Node is the node with an id.
func (c *Cluster) Node(id int32) *Node {
	if id > 100 {
		return c.Controllers[id-101]
	}
	return c.Nodes[id-1]
}

// Others are the ids of the brokers but one.
func (c *Cluster) Others(id int32) (ids []int32) {
	for i := range c.Nodes {
		if other := int32(i + 1); other != id {
			ids = append(ids, other)
		}
	}
	return ids
}

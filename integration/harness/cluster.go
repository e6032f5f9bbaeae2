//go:build integration

package harness

import (
	"fmt"
	"strings"
	"testing"
)

// Cluster is combined nodes that are one cluster; node i has the id i+1.
type Cluster struct {
	Nodes []*Node
}

// StartCluster formats directories, with the given lines of server.properties
// too, and starts a node on each. The processes end with the test.
func StartCluster(t *testing.T, count int, settings ...string) *Cluster {
	t.Helper()
	ports := freePorts(t, 2*count)
	c := &Cluster{}
	var voters []string
	for i := range count {
		n := &Node{t: t, dir: t.TempDir(), Address: "localhost:" + ports[2*i], Controller: "localhost:" + ports[2*i+1]}
		c.Nodes = append(c.Nodes, n)
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, n.Controller))
	}
	for i, n := range c.Nodes {
		n.format(i+1, append([]string{"controller.quorum.voters=" + strings.Join(voters, ",")}, settings...))
	}
	c.Restart()
	return c
}

// Restart starts all nodes at once and waits until they serve.
func (c *Cluster) Restart() {
	for _, n := range c.Nodes {
		n.t.Helper()
		n.Launch()
	}
	for _, n := range c.Nodes {
		n.Await()
	}
}

// Bootstrap is the addresses of all nodes.
func (c *Cluster) Bootstrap() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Address)
	}
	return addrs
}

// Node is the node with an id.
func (c *Cluster) Node(id int32) *Node { return c.Nodes[id-1] }

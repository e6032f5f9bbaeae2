//go:build integration

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm/klamm/protocol"
)

// StartDynamic is StartSplit with a dynamic quorum: the first controllers, voters of
// them, are formatted with one another, the others with nobody, and wait to be added.
func StartDynamic(t *testing.T, voters, waiting, brokers int, settings ...string) *Cluster {
	t.Helper()
	count := voters + waiting
	ports := freePorts(t, count+brokers)
	c := &Cluster{}
	var servers, initial []string
	for i := range count {
		n := &Node{t: t, dir: t.TempDir(), Controller: "localhost:" + ports[i]}
		c.Controllers = append(c.Controllers, n)
		servers = append(servers, n.Controller)
		if i < voters {
			initial = append(initial, fmt.Sprintf("%d@%s:%s", i+101, n.Controller, protocol.NewUUID()))
		}
	}
	settings = append([]string{"controller.quorum.bootstrap.servers=" + strings.Join(servers, ",")}, settings...)
	for i, n := range c.Controllers {
		n.options = []string{"--no-initial-controllers"}
		if i < voters {
			n.options = []string{"--initial-controllers", strings.Join(initial, ",")}
		}
		n.format(i+101, settings)
	}
	for i := range brokers {
		n := &Node{t: t, dir: t.TempDir(), Address: "localhost:" + ports[count+i]}
		c.Nodes = append(c.Nodes, n)
		n.format(i+1, settings)
	}
	c.Restart()
	return c
}

// WipeDynamic replaces a stopped controller's disk by an empty one, which has to be
// added to the quorum.
func (n *Node) WipeDynamic() { n.wipe("--no-initial-controllers") }

// WipeAlike replaces a stopped controller's disk by an empty one that is formatted by
// the very command of the first.
func (n *Node) WipeAlike() { n.wipe(n.options...) }

func (n *Node) wipe(options ...string) {
	n.t.Helper()
	cluster := n.Meta("cluster.id")
	if err := os.RemoveAll(n.Data()); err != nil {
		n.t.Fatal(err)
	}
	MustRun(n.t, append([]string{"storage", "format", "-t", cluster, "-c", n.Config()}, options...)...)
}

// Meta is a value of the meta.properties of a node's directory.
func (n *Node) Meta(key string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Data(), "meta.properties"))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && k == key {
			return v
		}
	}
	n.t.Fatalf("%s is not in meta.properties", key)
	return ""
}

// Foreign is a controller of another cluster, which has been formatted with voters
// that know it by its address.
func Foreign(t *testing.T, cluster string, id int, voters func(address string) string) *Node {
	t.Helper()
	n := &Node{t: t, dir: t.TempDir(), Controller: "localhost:" + FreePort(t)}
	n.options = []string{"--initial-controllers", voters(n.Controller), "-t", cluster}
	n.format(id, []string{"controller.quorum.bootstrap.servers=" + n.Controller})
	n.Launch()
	return n
}

// Move has a stopped controller listen on another port.
func (n *Node) Move() {
	n.t.Helper()
	n.Controller = "localhost:" + FreePort(n.t)
	n.Configure("listeners=CONTROLLER://" + n.Controller)
}

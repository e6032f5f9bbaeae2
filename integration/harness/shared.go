//go:build integration

package harness

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a node that the tests of a package share, those that run at once too.
// TestMain ends it.
type Shared struct {
	mu   sync.Mutex
	node *Node
}

// Node is the node, to be asked and not to be ended. The first test starts it, with
// the given lines of server.properties.
func (s *Shared) Node(t *testing.T, settings ...string) *Node {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		dir, err := os.MkdirTemp("", "klamm-shared-")
		if err != nil {
			t.Fatal(err)
		}
		s.node = single(t, "", dir, settings)
		s.node.Format()
		s.node.Restart()
	}
	return &Node{t: t, dir: s.node.dir, Address: s.node.Address, Controller: s.node.Controller}
}

// End ends the process. Where tests have failed it leaves the log and says where.
func (s *Shared) End(failed bool) {
	if s.node == nil {
		return
	}
	if s.node.cmd != nil {
		_ = s.node.cmd.Process.Kill() // an error: it has ended already
		<-s.node.done
	}
	if failed {
		fmt.Fprintf(os.Stderr, "the log of the node that the tests share: %s\n", s.node.logPath())
		return
	}
	_ = os.RemoveAll(s.node.dir)
}

//go:build integration

package moving

import (
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// world is three combined nodes and a client.
type world struct {
	*harness.World
	topics int // created so far
}

// start starts nodes whose topics need two replicas in sync.
func start(t *testing.T, settings ...string) *world {
	t.Helper()
	settings = append([]string{"auto.create.topics.enable=false", "min.insync.replicas=2"}, settings...)
	return &world{World: harness.NewWorld(t, harness.StartCluster(t, 3, settings...))}
}

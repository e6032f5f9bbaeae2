//go:build integration

package cluster

import (
	"fmt"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// world is three combined nodes and a client with its defaults.
type world struct{ *harness.World }

func start(t *testing.T, settings ...string) *world {
	t.Helper()
	settings = append([]string{"auto.create.topics.enable=false"}, settings...)
	return &world{harness.NewWorld(t, harness.StartCluster(t, 3, settings...))}
}

func numbered(prefix string, count int) []string {
	var out []string
	for i := range count {
		out = append(out, fmt.Sprintf("%s-%03d", prefix, i))
	}
	return out
}

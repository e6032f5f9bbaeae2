//go:build integration

package rolling

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/klamm/klamm/integration/harness"
)

// world is three combined nodes and a client.
type world struct {
	*harness.World
	topics int // created so far
	mu     sync.Mutex
}

// start starts nodes whose topics need two replicas in sync.
func start(t *testing.T, settings ...string) *world {
	t.Helper()
	settings = append([]string{"auto.create.topics.enable=false", "min.insync.replicas=2"}, settings...)
	return &world{World: harness.NewWorld(t, harness.StartCluster(t, 3, settings...))}
}

// fetchVersion has a client fetch by one version.
func fetchVersion(version int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.Fetch), version)
	return v
}

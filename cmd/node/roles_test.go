package node

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/config"
)

// TestSingleRolesAreRefused: what this version does not run is said before
// anything is touched.
func TestSingleRolesAreRefused(t *testing.T) {
	for _, node := range []config.Node{{IsBroker: true}, {IsController: true}} {
		cfg := &config.Config{File: "server.properties", Node: node, Dirs: config.Dirs{Log: []string{"/nowhere"}, Metadata: "/nowhere"}}
		err := Run(t.Context(), cfg, "", zerolog.Nop())
		const want = "server.properties: process.roles: this version runs a node that is controller and broker; valid is controller,broker"
		if err == nil || err.Error() != want {
			t.Errorf("%+v: %v", node, err)
		}
	}
}

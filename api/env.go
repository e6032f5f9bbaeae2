package api

import (
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// Env is what the handlers know of the node and the listener they serve.
type Env struct {
	Kind      protocol.ListenerKind
	ClusterID string
	NodeID    protocol.NodeID
	// Authorizer tells whether anybody would look at ACLs (authorizer.class.name).
	Authorizer bool
	// Static are the keys of server.properties.
	Static  config.Lookup
	Loggers Loggers
	// Image returns the image to answer from. On a broker that is the one its
	// replicas follow, so that a client is never sent to a leader that does not
	// lead yet.
	Image func() *metadata.Image
	// Controller returns the active controller, NoNode where nobody knows. It is
	// used on controller listeners only: brokers name a broker instead, since
	// clients do not reach the controllers.
	Controller func() protocol.NodeID
	// KRaftVersion returns the finalized kraft.version, which is the log's and no
	// image's; nil = 0, a static quorum.
	KRaftVersion func() int16
}

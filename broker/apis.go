package broker

import (
	"time"

	"github.com/klamm/klamm/api"
	brokerapi "github.com/klamm/klamm/broker/api"
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// APIConfig is what the handlers of the client listener need beside the broker.
type APIConfig struct {
	// Static are the keys of server.properties.
	Static config.Lookup
	// RequestTimeout bounds what is forwarded where the request names no time
	// itself (request.timeout.ms, default 30 s).
	RequestTimeout time.Duration
	// Forward leads clients' requests to the controller.
	Forward brokerapi.Forwarder
	// AutoCreate creates topics that clients ask Metadata for; nil where
	// auto.create.topics.enable is false. Its Run belongs to Config.Background.
	AutoCreate *brokerapi.AutoCreate
	// InternalTopics creates the topics of coordinators; likewise.
	InternalTopics *brokerapi.AutoCreate
	// KRaftVersion returns the finalized kraft.version; nil = 0.
	KRaftVersion func() int16
	// Data are the APIs about records (Produce, Fetch, ListOffsets), and Groups
	// those of the coordinators.
	Data, Groups []server.API
}

// APIs returns what the broker's listeners serve.
func (b *Broker) APIs(cfg APIConfig) []server.API {
	authorizer, _ := cfg.Static("authorizer.class.name")
	env := api.Env{
		Kind: protocol.BrokerListener, ClusterID: b.cfg.ClusterID, NodeID: b.cfg.NodeID, Image: b.Image, KRaftVersion: cfg.KRaftVersion, Authorizer: authorizer != "",
		Static: cfg.Static, Loggers: api.Loggers{NodeID: b.cfg.NodeID, Log: b.log},
	}
	admin := &brokerapi.Admin{
		NodeID: b.cfg.NodeID, ClusterID: b.cfg.ClusterID, Image: b.Image, Loggers: env.Loggers,
		Static: cfg.Static, RequestTimeout: cfg.RequestTimeout, Forward: cfg.Forward, ProducerIDs: b.producerIDs, AutoCreate: cfg.AutoCreate, InternalTopics: cfg.InternalTopics, Log: b.log,
		CatchUp: b.CatchUp,
		ExpectTopics: func(appear bool, names []string) brokerapi.Expectation {
			return b.applied.ExpectTopics(appear, names)
		},
	}
	apis := append([]server.API{api.ApiVersions(env), api.DescribeCluster(env), api.DescribeACLs(env), api.DescribeConfigs(env)}, admin.APIs()...)
	return append(append(apis, cfg.Data...), cfg.Groups...)
}

package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// errNoBroker ends the connection on which a cluster without brokers would be
// named, as one whose only broker is being stopped and is fenced already. Kafka
// answers so, and Java's clients take no notice; librdkafka 2.16 forgets every
// broker that it knows then and may never ask again, whatever its
// metadata.recovery.strategy.
var errNoBroker = errors.New("metadata without a broker that is not fenced")

func (a *Admin) metadata(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.MetadataRequest)
	if err := checkMetadata(body); err != nil {
		return server.Answer{Response: refusedMetadata(body, err)}
	}
	client, listener := origin(req), req.Conn.Listener
	return a.surely(func(sure bool) (server.Answer, bool) {
		m := metadataAnswer{
			self: a.NodeID, clusterID: a.ClusterID, img: a.Image(), listener: listener,
			autoCreate: a.AutoCreate != nil && (body.Version < 4 || body.AllowAutoTopicCreation),
		}
		resp := m.answer(body)
		if len(resp.Brokers) == 0 {
			return server.Answer{Close: errNoBroker}, false
		}
		if sure && len(m.missing) > 0 {
			a.AutoCreate.Add(m.missing, client)
		}
		return server.Answer{Response: resp}, m.unknown
	})
}

// catchUpTimeout bounds the wait for what the controller has committed. Without a
// controller nobody knows more.
const catchUpTimeout = time.Second

// surely looks, and where that finds something unknown it looks again once this
// broker has caught up with the controller: another broker may have told the client
// that it exists. Kafka answers what the broker knows, and clients ask again.
func (a *Admin) surely(look func(sure bool) (answer server.Answer, unknown bool)) server.Answer {
	sure := a.CatchUp == nil
	answer, unknown := look(sure)
	if sure || !unknown {
		return answer
	}
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
		defer cancel()
		if err := a.CatchUp(ctx); err != nil {
			a.Log.Debug().Err(err).Msg("what is unknown here may exist")
		}
		answer, _ := look(true)
		return answer
	}}
}

// checkMetadata refuses a request as a whole.
func checkMetadata(req *kmsg.MetadataRequest) error {
	byID := false
	for _, t := range req.Topics {
		named := t.TopicID != [16]byte{}
		byID = byID || named
		// Versions 10 and 11 have the field, yet topics by id came with v12.
		if req.Version < 12 && (t.Topic == nil || named) {
			return protocol.ErrInvalidRequest
		}
	}
	if byID {
		return nil // the names do not count
	}
	for _, t := range req.Topics {
		if t.Topic == nil {
			// Kafka trips over a topic with neither name nor id.
			return protocol.ErrUnknownServerError
		}
	}
	return nil
}

// refusedMetadata answers the same error for every topic, and nothing else.
func refusedMetadata(req *kmsg.MetadataRequest, err error) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = req.Version
	resp.ControllerID = -1
	resp.ErrorCode = int16(protocol.CodeOf(err))
	for _, t := range req.Topics {
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		r := kmsg.NewMetadataResponseTopic()
		r.ErrorCode = int16(protocol.CodeOf(err))
		r.Topic, r.TopicID = &name, t.TopicID
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

// metadataAnswer is one Metadata answer in the making.
type metadataAnswer struct {
	self       protocol.NodeID
	clusterID  string
	img        *metadata.Image
	listener   string // whose endpoints the client can use
	autoCreate bool

	missing []string // to be created: set by answer where autoCreate is
	unknown bool     // a topic was asked for that is not there: set by answer

	known []knownBroker // by id; filled when the first is looked for
	// Blocks that the lists of the answer are cut from, and how many more
	// partitions are expected when one is used up.
	partitions []kmsg.MetadataResponseTopicPartition
	ids        []int32
	expected   int
}

// knownBroker is what matters about a broker to all partitions.
type knownBroker struct {
	*metadata.Broker
	listens bool // where the client can reach it
}

// metadataBlock bounds the blocks, so that little of one is left over.
const metadataBlock = 256

func (m *metadataAnswer) answer(req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = req.Version
	resp.ClusterID = &m.clusterID
	resp.ControllerID = int32(shared.StandInController(m.img, m.listener, m.self))
	for b := range m.img.Brokers() {
		ep, ok := shared.Endpoint(b.Endpoints, m.listener)
		if !ok || b.Fenced {
			continue
		}
		r := kmsg.NewMetadataResponseBroker()
		r.NodeID, r.Host, r.Port, r.Rack = int32(b.ID), ep.Host, int32(ep.Port), b.Rack
		resp.Brokers = append(resp.Brokers, r)
	}
	resp.AuthorizedOperations = shared.OperationsNotAsked
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = shared.ClusterOperations
	}
	resp.Topics = m.topics(req)
	return resp
}

// topics answers for the topics that were asked for, each once: by id where
// there is any id, else by name; all of them for null, and in v0 for none.
func (m *metadataAnswer) topics(req *kmsg.MetadataRequest) []kmsg.MetadataResponseTopic {
	operations := shared.OperationsNotAsked
	if req.IncludeTopicAuthorizedOperations {
		operations = shared.TopicOperations
	}
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		all := make([]kmsg.MetadataResponseTopic, 0, m.img.NumTopics())
		m.expected = metadataBlock
		for t := range m.img.Topics() {
			all = append(all, m.topic(req.Version, t, operations))
		}
		return all
	}
	byID := slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} })
	answered := make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	seen := make(map[string]struct{}, len(req.Topics)) // by name, or by the bytes of the id
	once := func(key string) bool {
		_, ok := seen[key]
		seen[key] = struct{}{}
		return !ok
	}
	for _, asked := range req.Topics {
		switch {
		case byID && asked.TopicID == [16]byte{}:
		case byID && once(string(asked.TopicID[:])):
			answered = append(answered, m.byID(req.Version, asked.TopicID, operations))
		case !byID && once(*asked.Topic):
			answered = append(answered, m.byName(req.Version, *asked.Topic, operations))
		}
	}
	return answered
}

func (m *metadataAnswer) byID(version int16, id protocol.UUID, operations int32) kmsg.MetadataResponseTopic {
	if t, ok := m.img.TopicByID(id); ok {
		return m.topic(version, t, operations)
	}
	r := kmsg.NewMetadataResponseTopic()
	r.ErrorCode = int16(protocol.ErrUnknownTopicID)
	r.TopicID = id
	m.unknown = true
	return r
}

func (m *metadataAnswer) byName(version int16, name string, operations int32) kmsg.MetadataResponseTopic {
	if t, ok := m.img.Topic(name); ok {
		return m.topic(version, t, operations)
	}
	r := kmsg.NewMetadataResponseTopic()
	r.Topic = &name
	r.IsInternal = protocol.IsInternalTopic(name)
	r.AuthorizedOperations = operations
	if err := protocol.ValidateTopicName(name); err != nil {
		r.ErrorCode = int16(protocol.CodeOf(err))
		return r
	}
	// Also where it is being created: the client asks again.
	r.ErrorCode = int16(protocol.ErrUnknownTopicOrPartition)
	m.unknown = true
	if m.autoCreate {
		m.missing = append(m.missing, name)
	}
	return r
}

func (m *metadataAnswer) topic(version int16, t *metadata.Topic, operations int32) kmsg.MetadataResponseTopic {
	r := kmsg.NewMetadataResponseTopic()
	r.Topic = &t.Name
	r.TopicID = t.ID
	r.IsInternal = protocol.IsInternalTopic(t.Name)
	r.AuthorizedOperations = operations
	n := int(t.NumPartitions())
	if cap(m.partitions)-len(m.partitions) < n {
		m.partitions = make([]kmsg.MetadataResponseTopicPartition, 0, max(n, m.expected))
	}
	from := len(m.partitions)
	for p := range t.Partitions() {
		m.partitions = append(m.partitions, m.partition(version, p))
	}
	r.Partitions = m.partitions[from:len(m.partitions):len(m.partitions)]
	return r
}

func (m *metadataAnswer) partition(version int16, p *metadata.Partition) kmsg.MetadataResponseTopicPartition {
	r := kmsg.NewMetadataResponseTopicPartition()
	r.Partition = p.ID
	r.LeaderEpoch = int32(p.LeaderEpoch)
	r.Replicas, r.ISR = m.nodes(version, p.Replicas), m.nodes(version, p.ISR)
	for i, id := range p.Replicas {
		if m.offline(p, i) {
			r.OfflineReplicas = append(r.OfflineReplicas, int32(id))
		}
	}
	r.Leader = int32(protocol.NoNode)
	leader, ok := m.broker(p.Leader)
	switch {
	case !ok:
		r.ErrorCode = int16(protocol.ErrLeaderNotAvailable)
	case !leader.listens:
		r.ErrorCode = int16(protocol.ErrListenerNotFound)
		if version < 6 {
			r.ErrorCode = int16(protocol.ErrLeaderNotAvailable)
		}
	default:
		r.Leader = int32(p.Leader)
		if len(r.Replicas) < len(p.Replicas) || len(r.ISR) < len(p.ISR) {
			r.ErrorCode = int16(protocol.ErrReplicaNotAvailable)
		}
	}
	return r
}

// nodes lists replicas as they are; in v0 only those that are up and that the
// client can reach.
func (m *metadataAnswer) nodes(version int16, ids []protocol.NodeID) []int32 {
	if cap(m.ids)-len(m.ids) < len(ids) || m.ids == nil {
		// For a few partitions' replicas and ISR.
		m.ids = make([]int32, 0, max(len(ids), 6*m.expected, 12))
	}
	from := len(m.ids)
	for _, id := range ids {
		if version == 0 {
			if b, ok := m.broker(id); !ok || b.Fenced || !b.listens {
				continue
			}
		}
		m.ids = append(m.ids, int32(id))
	}
	return m.ids[from:len(m.ids):len(m.ids)]
}

// broker finds a broker.
func (m *metadataAnswer) broker(id protocol.NodeID) (knownBroker, bool) {
	if m.known == nil {
		m.known = []knownBroker{}
		for b := range m.img.Brokers() {
			_, ok := shared.Endpoint(b.Endpoints, m.listener)
			m.known = append(m.known, knownBroker{b, ok})
		}
	}
	i, ok := slices.BinarySearchFunc(m.known, id, func(b knownBroker, id protocol.NodeID) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return knownBroker{}, false
	}
	return m.known[i], true
}

// offline tells whether the i-th replica can not be read: its broker is away,
// or out of the client's reach, or its directory is lost.
func (m *metadataAnswer) offline(p *metadata.Partition, i int) bool {
	b, ok := m.broker(p.Replicas[i])
	if !ok || b.Fenced || !b.listens {
		return true
	}
	if i >= len(p.Directories) || len(b.LogDirs) == 0 {
		return false
	}
	switch dir := p.Directories[i]; dir {
	case protocol.UnassignedDir, protocol.MigratingDir:
		return false
	case protocol.LostDir:
		return true
	default:
		return !slices.Contains(b.LogDirs, dir)
	}
}

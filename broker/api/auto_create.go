package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/protocol"
)

// AutoCreate creates topics that clients ask Metadata for. It does so behind
// their back: the answer says that the topic is unknown, and clients ask again.
type AutoCreate struct {
	partitions int32 // num.partitions
	replicas   int16 // default.replication.factor
	timeout    time.Duration
	forward    Forwarder
	internal   map[string]InternalTopic
	log        zerolog.Logger
	wake       chan struct{} // size 1: there is something to do; more adds nothing

	mu      sync.Mutex
	known   map[string]struct{} // queued or being created
	batches []autoCreation
}

// autoCreation is what one client asked for.
type autoCreation struct {
	names  []string
	origin controllerclient.Origin
}

// maxAutoCreations bounds the names that wait to be created. What exceeds it is
// left out: its client asks again.
const maxAutoCreations = 1000

// NewAutoCreate returns a creator of topics with the broker's defaults. timeout
// bounds one request to the controller.
func NewAutoCreate(partitions int32, replicas int16, timeout time.Duration, forward Forwarder, log zerolog.Logger) *AutoCreate {
	return &AutoCreate{
		partitions: partitions, replicas: replicas, timeout: timeout, forward: forward, log: log,
		wake: make(chan struct{}, 1), known: make(map[string]struct{}),
	}
}

// InternalTopic is how a topic of coordinators is created.
type InternalTopic struct {
	Partitions int32
	Replicas   int16
	Configs    map[string]string
}

// Internal says how an internal topic is created. Call it before Run.
func (a *AutoCreate) Internal(name string, topic InternalTopic) {
	if a.internal == nil {
		a.internal = make(map[string]InternalTopic)
	}
	a.internal[name] = topic
}

// Add has the named topics created on behalf of a client. Names that are under
// way are left out, and so are internal topics whose settings nobody has told.
func (a *AutoCreate) Add(names []string, origin controllerclient.Origin) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var add []string
	for _, name := range names {
		_, known := a.known[name]
		_, settled := a.internal[name]
		if known || protocol.IsInternalTopic(name) && !settled || len(a.known) >= maxAutoCreations {
			continue
		}
		a.known[name] = struct{}{}
		add = append(add, name)
	}
	if len(add) == 0 {
		return
	}
	a.batches = append(a.batches, autoCreation{names: add, origin: origin})
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run creates topics until ctx ends.
func (a *AutoCreate) Run(ctx context.Context) error {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return nil
		}
		for {
			a.mu.Lock()
			if len(a.batches) == 0 {
				a.mu.Unlock()
				break
			}
			next := a.batches[0]
			a.batches = a.batches[1:]
			a.mu.Unlock()
			err := a.create(ctx, next)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				a.log.Warn().Err(err).Strs("topics", next.names).Msg("topics not created automatically")
			}
			a.mu.Lock()
			for _, name := range next.names {
				delete(a.known, name)
			}
			a.mu.Unlock()
		}
	}
}

// create sends one CreateTopics in the client's name, as Kafka does.
func (a *AutoCreate) create(ctx context.Context, batch autoCreation) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	resp, err := a.forward.Forward(ctx, controllerclient.Wrap(a.request(batch.names), batch.origin))
	if err != nil {
		return err
	}
	created, ok := resp.(*kmsg.CreateTopicsResponse)
	if !ok {
		return fmt.Errorf("the controller answered %T", resp)
	}
	for _, t := range created.Topics {
		switch code := protocol.Error(t.ErrorCode); code {
		case protocol.None:
			a.log.Info().Str("topic", t.Topic).Msg("topic created automatically")
		case protocol.ErrTopicAlreadyExists:
		default:
			a.log.Warn().Err(code).Str("topic", t.Topic).Msg("topic not created automatically")
		}
	}
	return nil
}

// request asks for topics with the settings that are theirs.
func (a *AutoCreate) request(names []string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = req.MaxVersion()
	req.TimeoutMillis = int32(a.timeout.Milliseconds())
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, a.partitions, a.replicas
		if internal, ok := a.internal[name]; ok {
			t.NumPartitions, t.ReplicationFactor = internal.Partitions, internal.Replicas
			for _, key := range slices.Sorted(maps.Keys(internal.Configs)) {
				c := kmsg.NewCreateTopicsRequestTopicConfig()
				value := internal.Configs[key]
				c.Name, c.Value = key, &value
				t.Configs = append(t.Configs, c)
			}
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

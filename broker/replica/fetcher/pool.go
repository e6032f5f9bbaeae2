package fetcher

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/quota"
)

// Conn is one connection to a broker.
type Conn interface {
	// Request sends a request, in the highest version that both sides know, and
	// returns its answer. After an error the connection is of no further use.
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	Close() error
}

// Config is what a Pool is made from. Zero values mean the defaults named.
type Config struct {
	// Node is this broker, Epoch its broker epoch.
	Node  protocol.NodeID
	Epoch func() protocol.BrokerEpoch
	// Addr is where a broker listens for brokers, HOST:PORT; ok is false where it
	// is not known.
	Addr func(id protocol.NodeID) (addr string, ok bool)
	// Dial opens a connection.
	Dial func(ctx context.Context, addr string) (Conn, error)
	// PerSource (num.replica.fetchers) is how many fetchers pull from one broker.
	// Default 1.
	PerSource int
	// MaxWait and MinBytes (replica.fetch.wait.max.ms, replica.fetch.min.bytes)
	// are for how long, and for how much, a leader holds a fetch. Defaults 500 ms
	// and 1.
	MaxWait  time.Duration
	MinBytes int32
	// MaxBytes and PartitionBytes (replica.fetch.response.max.bytes,
	// replica.fetch.max.bytes) bound an answer. Defaults 10 MiB and 1 MiB.
	MaxBytes, PartitionBytes int32
	// Backoff (replica.fetch.backoff.ms) is the rest after a failure, of a
	// partition, whose first ones are shorter, or of a connection. Default 1 s.
	Backoff time.Duration
	// Timeout (request.timeout.ms) bounds a request beyond MaxWait. Default 30 s.
	Timeout time.Duration
	// Throttle holds what is fetched for replicas that have to catch up, where topics
	// say so (follower.replication.throttled.rate). Default: no limit.
	Throttle *quota.Rate
}

func (c *Config) setDefaults() {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&c.MaxWait, 500*time.Millisecond)
	def(&c.Backoff, time.Second)
	def(&c.Timeout, 30*time.Second)
	if c.Throttle == nil {
		c.Throttle = quota.NewRate(1, time.Second)
	}
	if c.PerSource == 0 {
		c.PerSource = 1
	}
	if c.MinBytes == 0 {
		c.MinBytes = 1
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 10 << 20
	}
	if c.PartitionBytes == 0 {
		c.PartitionBytes = 1 << 20
	}
}

// Pool is the fetchers of a broker.
type Pool struct {
	cfg    Config
	log    zerolog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	fetchers map[share]*fetcher
	at       map[*replica.Partition]*fetcher
}

// share is the part of a broker's partitions that one fetcher pulls.
type share struct {
	source protocol.NodeID
	number int
}

// New returns a pool that pulls nothing yet.
func New(cfg Config, log zerolog.Logger) *Pool {
	cfg.setDefaults()
	p := &Pool{
		cfg: cfg, log: log.With().Str("component", "fetcher").Logger(),
		fetchers: make(map[share]*fetcher), at: make(map[*replica.Partition]*fetcher),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close ends all fetchers and waits for them.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true // no fetcher is started from here on
	p.mu.Unlock()
	p.cancel()
	p.group.Wait()
}

// Update implements replica.Puller.
func (p *Pool) Update(follow []replica.Following, leave []*replica.Partition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for _, partition := range leave {
		p.leaveLocked(partition)
	}
	for _, following := range follow {
		if before := p.at[following.Partition]; before != nil && before.source != following.Leader {
			p.leaveLocked(following.Partition)
		}
	}
	p.joinLocked(follow)
}

// joinLocked has partitions pulled. Nothing leaves a fetcher any more: those that get
// some are not ended.
func (p *Pool) joinLocked(follow []replica.Following) {
	added := make(map[*fetcher][]*replica.Partition)
	for _, following := range follow {
		s := share{following.Leader, p.number(following.Partition)}
		f := p.fetchers[s]
		if f == nil {
			f = newFetcher(p, s)
			p.fetchers[s] = f
		}
		p.at[following.Partition] = f
		added[f] = append(added[f], following.Partition)
	}
	for f, partitions := range added {
		f.add(partitions)
		if !f.started {
			f.started = true
			p.group.Go(f.run)
		}
	}
}

// Resize changes how many fetchers pull from one broker.
func (p *Pool) Resize(perSource int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if perSource < 1 || perSource == p.cfg.PerSource || p.closed {
		return
	}
	p.cfg.PerSource = perSource
	var moving []replica.Following
	for partition, f := range p.at {
		if f.number != p.number(partition) {
			moving = append(moving, replica.Following{Partition: partition, Leader: f.source})
		}
	}
	for _, m := range moving {
		p.leaveLocked(m.Partition)
	}
	p.joinLocked(moving)
	p.log.Info().Int("fetchers", perSource).Int("moved", len(moving)).Msg("another number of fetchers pulls from each broker")
}

func (p *Pool) leaveLocked(partition *replica.Partition) {
	f := p.at[partition]
	if f == nil {
		return
	}
	delete(p.at, partition)
	if f.remove(partition) == 0 {
		delete(p.fetchers, f.share)
		f.cancel()
	}
}

// number spreads partitions over the fetchers of a broker, the same one always.
func (p *Pool) number(partition *replica.Partition) int {
	id := partition.TopicID()
	h := uint32(partition.TopicPartition().Partition)
	for _, b := range id {
		h = 31*h + uint32(b)
	}
	return int(h % uint32(p.cfg.PerSource))
}

package follower

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// Conn is one connection to a controller.
type Conn interface {
	// Request sends a request, in the highest version that both sides know, and
	// returns its answer. After an error the connection is of no further use.
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	Close() error
}

// Replica is this node's copy of the log and what is replayed from it: a
// *replay.Replayer. Its errors are fatal.
type Replica interface {
	// End is the offset to fetch next and the epoch of the record before it.
	End() (int64, protocol.LeaderEpoch)
	// Replayed is the offset behind what is known to be committed.
	Replayed() int64
	Append(batches []byte) error
	Advance(highWatermark int64) error
	Truncate(epoch protocol.LeaderEpoch, end int64) error
	Install(id snapshot.ID) error
}

// Config is what a Follower is made from.
type Config struct {
	NodeID      protocol.NodeID
	DirectoryID protocol.UUID
	ClusterID   string
	// Voters are the controllers of a static quorum and where they listen,
	// HOST:PORT. Bootstrap are addresses to ask where the voters are in the log.
	Voters    map[protocol.NodeID]string
	Bootstrap []string
	Dial      func(ctx context.Context, addr string) (Conn, error)
	Replica   Replica
	// FS and Dir are where checkpoints go: the log's own directory.
	FS  vfs.FS
	Dir string
	// Known gives the controllers that the log names, and where they listen, to be
	// asked where Voters and Bootstrap lead nowhere; nil for none.
	Known func() map[protocol.NodeID]string
	// Due waits until this node is to fetch, or ctx is done: a controller does so only
	// while it gets the log in no other way. It calls idle first where it has to
	// wait. Nil: always.
	Due func(ctx context.Context, idle func())
	// Epoch is the newest that this node knew in an earlier life. Learned makes
	// durable what is learned of the leader, NoNode for none.
	Epoch   protocol.ControllerEpoch
	Learned func(leader protocol.NodeID, epoch protocol.ControllerEpoch) error
	// MaxWait is how long a leader may hold a fetch. Default 500 ms, Kafka's.
	MaxWait time.Duration
	// RequestTimeout bounds everything else of a request: a leader that is silent
	// for longer is given up. Default 2 s (controller.quorum.request.timeout.ms).
	RequestTimeout time.Duration
}

// maxFetchBytes of records, or of a checkpoint, per answer.
const maxFetchBytes = 8 << 20

// Pauses after a round that brought nothing: the first is Kafka's
// controller.quorum.retry.backoff.ms.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Follower fetches the metadata log.
type Follower struct {
	cfg  Config
	log  zerolog.Logger
	seek []string // addresses to ask for the leader
	turn int      // index into seek

	// Of Run's goroutine.
	conn     Conn
	connAddr string
	failing  bool       // the last round failed, and was logged
	saved    leadership // that Learned has been told

	mu      sync.Mutex
	epoch   protocol.ControllerEpoch
	leader  protocol.NodeID
	addrs   map[protocol.NodeID]string // Voters, and what answers said
	changed chan struct{}              // closed when leader changes
}

type leadership struct {
	leader protocol.NodeID
	epoch  protocol.ControllerEpoch
}

// New returns a follower, which works once it is run.
func New(cfg Config, log zerolog.Logger) *Follower {
	if cfg.MaxWait == 0 {
		cfg.MaxWait = 500 * time.Millisecond
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 2 * time.Second
	}
	f := &Follower{
		cfg: cfg, log: log.With().Str("component", "follower").Logger(),
		epoch: cfg.Epoch, leader: protocol.NoNode, changed: make(chan struct{}),
		addrs: make(map[protocol.NodeID]string),
	}
	maps.Copy(f.addrs, cfg.Voters)
	for _, id := range slices.Sorted(maps.Keys(cfg.Voters)) {
		f.seek = append(f.seek, cfg.Voters[id])
	}
	f.seek = append(f.seek, cfg.Bootstrap...)
	// Nodes begin with different controllers, not all with the first.
	if len(f.seek) > 0 {
		f.turn = int(cfg.NodeID) % len(f.seek)
	}
	_, logEpoch := cfg.Replica.End()
	f.epoch = max(f.epoch, protocol.ControllerEpoch(logEpoch))
	return f
}

// Leadership is Leader with the newest epoch.
func (f *Follower) Leadership() (protocol.NodeID, protocol.ControllerEpoch, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.epoch, f.changed
}

// Leader is the active controller as far as this node knows, NoNode where it
// does not, and a channel that is closed at the next change.
func (f *Follower) Leader() (protocol.NodeID, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.changed
}

// Address is where a controller listens, HOST:PORT.
func (f *Follower) Address(id protocol.NodeID) (string, bool) {
	f.mu.Lock()
	addr, ok := f.addrs[id]
	f.mu.Unlock()
	if !ok && f.cfg.Known != nil {
		addr, ok = f.cfg.Known()[id]
	}
	return addr, ok
}

// Controllers are those whose address is known. One of them may lead already while
// Run is busy with what the last answer brought, and does not know.
func (f *Follower) Controllers() []protocol.NodeID {
	f.mu.Lock()
	ids := slices.Collect(maps.Keys(f.addrs))
	f.mu.Unlock()
	if f.cfg.Known != nil {
		for id := range f.cfg.Known() {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// errTryAgain is a round that brought nothing and says why in its text.
type errTryAgain struct{ error }

func tryAgain(format string, args ...any) error { return errTryAgain{fmt.Errorf(format, args...)} }

func (e errTryAgain) Unwrap() error { return e.error }

// errNews is a round that has told of a leader who is to be asked next.
var errNews error = errTryAgain{errors.New("another leader is to be asked")}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	defer f.disconnect()
	pause := firstPause
	for {
		if f.cfg.Due != nil {
			f.cfg.Due(ctx, func() { // who leads meanwhile is not this follower's to say
				f.lost()
				pause, f.failing = firstPause, false
			})
		}
		err := f.round(ctx)
		var again errTryAgain
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pause, f.failing = firstPause, false
			continue
		case errors.Is(err, errNews):
			continue // no success yet: they may all name one that leads no more
		case !errors.As(err, &again):
			return err
		}
		if !f.failing { // controllers that are away, or elect, are told of once
			f.failing = true
			f.log.Warn().Err(err).Msg("metadata can not be fetched now, trying again")
		}
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, maxPause)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// round sends one fetch and does what the answer asks for.
func (f *Follower) round(ctx context.Context) error {
	addr := f.target()
	if err := f.connect(ctx, addr); err != nil {
		f.lost()
		return tryAgain("connect to controller %s: %w", addr, err)
	}
	req, asked := f.request()
	answer, err := f.ask(ctx, req, f.cfg.MaxWait+f.cfg.RequestTimeout)
	if err != nil {
		f.lost()
		return tryAgain("fetch from controller %s: %w", addr, err)
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok {
		f.lost()
		return tryAgain("controller %s answers a fetch with %T", addr, answer)
	}
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		f.lost()
		return tryAgain("fetch from controller %s, as node %d of cluster %s: %w", addr, f.cfg.NodeID, f.cfg.ClusterID, code)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != 0 {
		f.lost()
		return tryAgain("the answer of controller %s is not of the metadata log", addr)
	}
	p := &resp.Topics[0].Partitions[0]
	endpoints := make(map[protocol.NodeID]string)
	for _, b := range resp.Brokers {
		endpoints[protocol.NodeID(b.NodeID)] = hostPort(b.Host, b.Port)
	}
	follow, err := f.hear(protocol.Error(p.ErrorCode), p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, endpoints)
	if err != nil {
		return err
	}
	if !follow {
		return errNews
	}
	return f.take(ctx, asked, p)
}

// position is where this node stood when it asked.
type position struct {
	offset int64
	epoch  protocol.ControllerEpoch // of the leader
}

func (f *Follower) request() (*kmsg.FetchRequest, position) {
	f.mu.Lock()
	asked := position{epoch: f.epoch}
	f.mu.Unlock()
	req := kmsg.NewPtrFetchRequest()
	req.ClusterID = &f.cfg.ClusterID
	req.ReplicaID, req.ReplicaState.ID = int32(f.cfg.NodeID), int32(f.cfg.NodeID)
	req.MaxWaitMillis, req.MaxBytes = int32(f.cfg.MaxWait.Milliseconds()), maxFetchBytes
	req.SessionEpoch = -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = protocol.MetadataTopic, protocol.MetadataTopicID
	p := kmsg.NewFetchRequestTopicPartition()
	var lastEpoch protocol.LeaderEpoch
	asked.offset, lastEpoch = f.cfg.Replica.End()
	asked.epoch = max(asked.epoch, protocol.ControllerEpoch(lastEpoch)) // Raft may have brought it
	p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = int32(asked.epoch), asked.offset, int32(lastEpoch)
	p.PartitionMaxBytes = maxFetchBytes
	p.ReplicaDirectoryID = f.cfg.DirectoryID
	p.HighWatermark = f.cfg.Replica.Replayed()
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return req, asked
}

// take does what the leader's answer asks for.
func (f *Follower) take(ctx context.Context, asked position, p *kmsg.FetchResponseTopicPartition) error {
	switch {
	case p.DivergingEpoch.Epoch >= 0:
		return f.cfg.Replica.Truncate(protocol.LeaderEpoch(p.DivergingEpoch.Epoch), p.DivergingEpoch.EndOffset)
	case p.SnapshotID.EndOffset >= 0 && p.SnapshotID.Epoch >= 0:
		id := snapshot.ID{Offset: p.SnapshotID.EndOffset, Epoch: protocol.ControllerEpoch(p.SnapshotID.Epoch)}
		return f.fetchSnapshot(ctx, asked.epoch, id)
	}
	batches, err := whole(p.RecordBatches, asked.offset)
	if err != nil {
		f.lost()
		return tryAgain("the leader's answer at offset %d: %w", asked.offset, err)
	}
	if len(batches) > 0 {
		if err := f.cfg.Replica.Append(batches); err != nil {
			return err
		}
	}
	return f.cfg.Replica.Advance(p.HighWatermark)
}

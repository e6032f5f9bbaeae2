package replay

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// Config is what a Replayer works on.
type Config struct {
	// Log is __cluster_metadata-0. Nobody else appends to it.
	Log *storage.Log
	// FS and Dir are where the checkpoints lie: the log's own directory.
	FS  vfs.FS
	Dir string
	// Observer says that the log is filled from a leader's (observe.go): what it
	// holds may not be committed, and is replayed as far as Advance says.
	Observer bool
}

// Subscriber is told of every change. Both arguments may be kept; nobody
// modifies them any more. It is called in the order of the log.
type Subscriber interface {
	Publish(delta *metadata.Delta, img *metadata.Image)
}

// Replayer holds the metadata of this node.
type Replayer struct {
	cfg Config
	log zerolog.Logger

	image atomic.Pointer[metadata.Image]
	// openTxn is the offset of the BeginTransaction whose end is not there yet,
	// or −1.
	openTxn atomic.Int64
	// size is how many bytes of batches were replayed, and covered how many of
	// them the newest snapshot holds.
	size, covered atomic.Int64
	digest        atomic.Pointer[Digest] // of the last snapshot written here

	// mu serializes publishing with new subscribers.
	mu          sync.Mutex
	subscribers []Subscriber

	grown bell // rings when the log has grown

	// feeding serializes those who bring something into the log, and snapshots. A
	// controller has two: Raft, and the fetching while it is no member.
	feeding sync.Mutex

	// quorum is what the control records say. Metadata transactions do not hold
	// them back: they are about the log, not in it.
	quorum atomic.Pointer[snapshot.Quorum]

	// The rest is guarded by feeding.

	base position // where the checkpoint ends that was loaded last; offset is exclusive

	// next is the offset that Raft's next batch gets. It is below end while Raft
	// repeats what the log has already.
	next int64
	end  int64 // offset behind the last record that was replayed: the log's end
	// delta is what was replayed and not yet published; nil where that is nothing.
	delta  *metadata.Delta
	last   position // of the last record in delta
	failed error    // after it nothing is applied any more
}

// position is where a record stands, with what the image says of it.
type position struct {
	offset      int64
	epoch       protocol.ControllerEpoch
	timestampMs int64
}

var _ raftlog.StateMachine = (*Replayer)(nil)

// New loads what the disk has, and publishes it.
func New(cfg Config, log zerolog.Logger) (*Replayer, error) {
	r := &Replayer{cfg: cfg, log: log.With().Str("component", "replay").Logger()}
	r.openTxn.Store(-1)
	r.image.Store(metadata.Empty())
	r.quorum.Store(&snapshot.Quorum{})
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("load metadata: %w", err)
	}
	return r, nil
}

// Image is the latest published image.
func (r *Replayer) Image() *metadata.Image { return r.image.Load() }

// Quorum is what the log says of the voters.
func (r *Replayer) Quorum() snapshot.Quorum { return *r.quorum.Load() }

// OpenTransaction returns the offset of the BeginTransaction record that has
// seen no end. A new leader ends it, with AbortTransaction, before all else.
func (r *Replayer) OpenTransaction() (offset int64, ok bool) {
	offset = r.openTxn.Load()
	return offset, offset >= 0
}

// Subscribe adds a subscriber and, before it returns, hands it all there is as
// one delta from the empty image.
func (r *Replayer) Subscribe(s Subscriber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	img := r.image.Load()
	r.subscribers = append(r.subscribers, s)
	s.Publish(metadata.Whole(img), img)
}

// Apply applies committed entries. Its results are the offsets of the entries'
// first records, or raftlog.Skipped.
func (r *Replayer) Apply(entries []raftlog.Entry) ([]int64, error) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.failed != nil {
		return nil, r.failed
	}
	// What was fetched and not replayed yet is replayed now, so that Raft's batches
	// find the log's end where the state is.
	if err := r.loadUpTo(r.cfg.Log.LEO()); err != nil {
		r.failed = err
		return nil, err
	}
	offsets := make([]int64, len(entries))
	for i, e := range entries {
		offset, err := r.applyEntry(e)
		if err != nil {
			r.failed = fmt.Errorf("entry %d of term %d: %w", e.Index, e.Term, err)
			return nil, r.failed
		}
		offsets[i] = offset
	}
	r.publish()
	r.grown.ring()
	return offsets, nil
}

func (r *Replayer) applyEntry(e raftlog.Entry) (int64, error) {
	// The entry's bytes are Raft's: the offset goes into a copy.
	b, rest, err := batch.Next(append([]byte(nil), e.Data...))
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind the batch", len(rest))
	}
	if err == nil {
		err = b.CheckCRC()
	}
	if err != nil {
		return 0, fmt.Errorf("metadata log offset %d: not one batch: %w: %s", r.next, err, excerpt(e.Data))
	}
	if uint64(b.LeaderEpoch()) != e.Term && !brokenStamp {
		r.log.Info().Uint64("index", e.Index).Uint64("term", e.Term).Int32("stamp", b.LeaderEpoch()).
			Msg("skipped a batch that was decided in another term")
		return raftlog.Skipped, nil
	}
	offset := r.next
	b.SetBaseOffset(offset)
	switch {
	case offset < r.end:
		err = r.compare(b)
	default:
		err = r.replay(b)
		if err == nil {
			_, err = r.cfg.Log.AppendAsFollower(b)
		}
		r.end = b.NextOffset()
	}
	if err != nil {
		return 0, err
	}
	r.next = b.NextOffset()
	return offset, nil
}

// compare checks a repeated batch against the one in the log.
func (r *Replayer) compare(b batch.Batch) error {
	if b.BaseOffset() < r.cfg.Log.LogStartOffset() {
		return nil // trimmed behind a checkpoint
	}
	held, err := r.header(b.BaseOffset())
	if err != nil {
		return err
	}
	if held.BaseOffset() != b.BaseOffset() || held.LeaderEpoch() != b.LeaderEpoch() ||
		held.Size() != b.Size() || held.CRC() != b.CRC() {
		return fmt.Errorf("metadata log offset %d: the log holds a batch at %d of epoch %d, %d bytes, CRC %08x; "+
			"committed is one of epoch %d, %d bytes, CRC %08x: the log is of another history",
			b.BaseOffset(), held.BaseOffset(), held.LeaderEpoch(), held.Size(), held.CRC(),
			b.LeaderEpoch(), b.Size(), b.CRC())
	}
	return nil
}

// header reads the header of the batch that holds offset.
func (r *Replayer) header(offset int64) (batch.Batch, error) {
	slice, err := r.cfg.Log.Read(offset, 1, r.cfg.Log.LEO(), true)
	if err != nil {
		return nil, fmt.Errorf("metadata log offset %d: %w", offset, err)
	}
	defer slice.Release()
	if slice.Size() < batch.HeaderSize {
		return nil, fmt.Errorf("metadata log offset %d: the log has nothing there", offset)
	}
	b := make(batch.Batch, batch.HeaderSize)
	if _, err := slice.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("metadata log offset %d: %w", offset, err)
	}
	return b, nil
}

// replay takes one batch into the delta, and publishes where a transaction
// begins, since what came before it must not be lost if it is aborted.
func (r *Replayer) replay(b batch.Batch) error {
	next := b.BaseOffset()
	err := record.Each(b, func(e record.Entry) error {
		if e.Offset != next {
			return fmt.Errorf("metadata log offset %d: it holds the record of offset %d", next, e.Offset)
		}
		next++
		if err := r.replayRecord(e); err != nil {
			return fmt.Errorf("metadata log offset %d: %w: %s", e.Offset, err, describe(e))
		}
		r.last = position{e.Offset, protocol.ControllerEpoch(b.LeaderEpoch()), b.MaxTimestamp()}
		return nil
	})
	if err != nil {
		return err
	}
	r.size.Add(int64(b.Size()))
	if next != b.NextOffset() {
		return fmt.Errorf("metadata log offset %d: a batch up to %d ends at %d", b.BaseOffset(), b.LastOffset(), next-1)
	}
	return nil
}

func (r *Replayer) replayRecord(e record.Entry) error {
	if e.Control != nil {
		r.begin()
		quorum := r.Quorum()
		switch c := e.Control.(type) {
		case *record.KRaftVersion:
			quorum.Version = c.Version
		case *record.Voters:
			quorum.Voters = c
		default:
			return nil
		}
		r.quorum.Store(&quorum)
		return nil
	}
	_, open := r.OpenTransaction()
	switch e.Record.(type) {
	case *record.BeginTransaction:
		if open {
			return errors.New("a transaction begins in another")
		}
		r.publish()
		r.openTxn.Store(e.Offset)
	case *record.EndTransaction, *record.AbortTransaction:
		if !open {
			return errors.New("a transaction ends that has not begun")
		}
		if _, aborted := e.Record.(*record.AbortTransaction); aborted {
			r.delta = nil
		}
		r.openTxn.Store(-1)
	}
	r.begin()
	return r.delta.Replay(e.Record)
}

// begin makes sure that there is a delta to replay into.
func (r *Replayer) begin() {
	if r.delta == nil {
		r.delta = metadata.NewDelta(r.image.Load())
	}
}

// publish makes what was replayed visible, unless a transaction is open.
func (r *Replayer) publish() {
	if _, open := r.OpenTransaction(); open || r.delta == nil {
		return
	}
	delta := r.delta
	r.delta = nil
	r.publishDelta(delta, delta.Apply(r.last.offset, r.last.epoch, r.last.timestampMs))
}

func (r *Replayer) publishDelta(delta *metadata.Delta, img *metadata.Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.image.Store(img)
	for _, s := range r.subscribers {
		s.Publish(delta, img)
	}
}

// describe prints a record for an error.
func describe(e record.Entry) string {
	if e.Control != nil {
		return record.ControlName(e.Control) + " " + string(record.AppendControlJSON(nil, e.Control))
	}
	return string(record.AppendJSON(nil, metadata.Redacted(e.Record), e.Version))
}

// excerpt prints bytes that are no batch for an error.
func excerpt(data []byte) string {
	const most = 256
	if len(data) > most {
		return fmt.Sprintf("%x... (%d bytes)", data[:most], len(data))
	}
	return fmt.Sprintf("%x", data)
}

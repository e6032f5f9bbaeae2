package replay

import (
	"errors"
	"fmt"
	"io"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/raftlog"
)

// Errors of Snapshot that pass by themselves: Raft tries again later.
var (
	// ErrBehind: Raft still repeats what the log has. The image is of a later
	// entry than Raft's last one, and Raft would apply those between twice.
	ErrBehind = errors.New("snapshot: raft has not yet repeated all that the metadata log holds")
	// ErrOpenTransaction: the image is of an earlier entry than Raft's last one.
	ErrOpenTransaction = errors.New("snapshot: a metadata transaction is open")
)

// Snapshot captures the state at the last applied entry.
func (r *Replayer) Snapshot() (raftlog.Snapshot, error) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.failed != nil {
		return nil, r.failed
	}
	if r.next < r.end {
		return nil, ErrBehind
	}
	if _, open := r.OpenTransaction(); open {
		return nil, ErrOpenTransaction
	}
	return &capture{r: r, size: r.size.Load(), img: r.Image(), quorum: r.Quorum()}, nil
}

// Inherit captures what the log holds, for a Raft that has nothing yet; nil where
// that is nothing.
func (r *Replayer) Inherit() (raftlog.Snapshot, error) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.end == 0 {
		return nil, nil
	}
	if _, open := r.OpenTransaction(); open {
		return nil, ErrOpenTransaction
	}
	return &capture{r: r, size: r.size.Load(), img: r.Image(), quorum: r.Quorum()}, nil
}

// capture is one state, which nobody modifies.
type capture struct {
	r      *Replayer
	size   int64 // of what was replayed by then
	img    *metadata.Image
	quorum snapshot.Quorum
}

// WriteTo writes the stream that snapshot.Store takes. It first syncs the log
// up to the state: once the snapshot counts, Raft forgets the entries.
func (c *capture) WriteTo(w io.Writer) (int64, error) {
	id := snapshot.ID{Offset: c.img.Offset() + 1, Epoch: c.img.Epoch()}
	if err := c.r.cfg.Log.Flush(id.Offset); err != nil {
		return 0, fmt.Errorf("snapshot at offset %d: %w", id.Offset, err)
	}
	n, err := snapshot.WritePreamble(w, id)
	if err != nil {
		return n, err
	}
	size, err := c.encode(w)
	if err == nil {
		c.r.covered.Store(c.size)
	}
	return n + size, err
}

// encode writes the checkpoint and fails where it reads back as another state:
// Raft then has no such snapshot and keeps its entries.
func (c *capture) encode(w io.Writer) (int64, error) {
	header := snapshot.Header{LastTimestampMs: c.img.TimestampMs(), KRaft: c.quorum}
	back, written := io.Pipe()
	read := make(chan error, 1)
	state := metadata.NewDelta(metadata.Empty())
	go func() {
		_, err := snapshot.Decode(back, state.Replay)
		read <- err
		_ = back.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // nobody waits for a reader that gave up
	}()
	size, err := snapshot.Encode(io.MultiWriter(w, written), c.img.Epoch(), header, c.img.Records())
	_ = written.Close() // it never fails
	if failed := <-read; err == nil {
		err = failed
	}
	if err != nil {
		return size, err
	}
	digest := Digest{Offset: c.img.Offset(), Sum: c.img.Digest()}
	if got := state.Apply(digest.Offset, 0, 0).Digest(); got != digest.Sum {
		return size, fmt.Errorf("snapshot at offset %d: it reads back with digest %s, the state has %s", digest.Offset+1, got, digest.Sum)
	}
	c.r.digest.Store(&digest)
	c.r.log.Info().Int64("offset", digest.Offset).Str("digest", digest.Sum).Msg("metadata snapshot")
	return size, nil
}

// Digest says what state was at an offset: it is equal on every node.
type Digest struct {
	Offset int64
	Sum    string // metadata.Image.Digest
}

// Digest is that of the last snapshot that this process wrote; ok false where it
// wrote none.
func (r *Replayer) Digest() (d Digest, ok bool) {
	if d := r.digest.Load(); d != nil {
		return *d, true
	}
	return d, false
}

// Release ends the capture; an image needs no end.
func (c *capture) Release() {}

// Restore goes on from a snapshot: Raft's own at a start, or the leader's.
func (r *Replayer) Restore(meta raftlog.SnapshotMeta, src io.Reader) error {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.failed != nil {
		return r.failed
	}
	if err := r.restore(src); err != nil {
		r.failed = fmt.Errorf("restore snapshot %s: %w", meta.ID, err)
		return r.failed
	}
	return nil
}

func (r *Replayer) restore(src io.Reader) error {
	id, err := snapshot.ReadPreamble(src)
	if err != nil {
		return err
	}
	if id.Offset <= r.end {
		return r.rewind(id)
	}
	err = r.replace(id, func(each func(record.Record) error) (snapshot.Header, error) {
		return snapshot.Decode(src, each)
	})
	if err == nil {
		r.next = id.Offset
	}
	return err
}

// replace makes a checkpoint the state, and lets the log begin behind it.
func (r *Replayer) replace(id snapshot.ID, read func(each func(record.Record) error) (snapshot.Header, error)) error {
	delta := metadata.NewDelta(metadata.Empty())
	header, err := read(delta.Replay)
	if err != nil {
		return err
	}
	before := r.Image()
	if before.Offset() >= 0 {
		target := delta.Apply(id.Offset-1, id.Epoch, header.LastTimestampMs)
		if delta, err = difference(before, target); err != nil {
			return err
		}
	}
	if err := r.cfg.Log.TruncateFullyAndStartAt(id.Offset); err != nil {
		return err
	}
	r.adopt(delta, id, header)
	r.publish()
	r.grown.ring()
	r.log.Info().Int64("from", before.Offset()+1).Int64("offset", id.Offset).Msg("metadata replaced by a snapshot")
	return nil
}

// rewind goes back to a snapshot that the log contains: what follows it comes
// again and is compared. Nothing is cut off and nothing is published.
func (r *Replayer) rewind(id snapshot.ID) error {
	if id.Offset > r.cfg.Log.LogStartOffset() {
		held, err := r.header(id.Offset - 1)
		if err != nil {
			return err
		}
		if held.LeaderEpoch() != int32(id.Epoch) || held.NextOffset() != id.Offset {
			return fmt.Errorf("metadata log offset %d: the log holds a batch up to %d of epoch %d; "+
				"the snapshot ends there in epoch %d: the log is of another history",
				id.Offset-1, held.LastOffset(), held.LeaderEpoch(), id.Epoch)
		}
	}
	r.next = id.Offset
	return nil
}

package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// An observer's log is filled by metadata/follower and not by Raft: with what
// the leader has, committed or not, and the high watermark says what may be
// replayed. These are its entries into the log. The first error that is not the
// leader's to mend makes all further ones fail.
//
// A controller that is no voter, or not yet, is fed in this way too, and may be fed
// by Raft at the same time. Both bring the same: what comes second is left out, or
// compared.

// End is where the log ends: the offset to be fetched next, and the epoch of the
// record before it.
func (r *Replayer) End() (int64, protocol.LeaderEpoch) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	leo := r.cfg.Log.LEO()
	if leo == r.base.offset {
		return leo, protocol.LeaderEpoch(r.base.epoch)
	}
	epoch, ok := r.cfg.Log.LatestEpoch()
	if !ok {
		epoch = 0
	}
	return leo, epoch
}

// Replayed is the offset behind the last record that was replayed: all before it
// is committed.
func (r *Replayer) Replayed() int64 {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	return r.end
}

// Append appends batches of the leader's log that continue this one. Their CRCs
// have been checked. Those before which Raft has brought others are left out.
func (r *Replayer) Append(batches []byte) error {
	return r.observe("append", func() error {
		if first, _, err := batch.Next(batches); err != nil || !r.cfg.Observer && first.BaseOffset() != r.cfg.Log.LEO() {
			return err
		}
		_, err := r.cfg.Log.AppendAsFollower(batches)
		return err
	})
}

// Advance replays and publishes what lies below the leader's high watermark.
func (r *Replayer) Advance(highWatermark int64) error {
	return r.observe("replay", func() error {
		log := r.cfg.Log
		end := min(highWatermark, log.LEO())
		if r.end >= end {
			return nil
		}
		if err := r.loadUpTo(end); err != nil {
			return err
		}
		r.publish()
		return nil
	})
}

// Truncate cuts the log where it parts from the leader's, in which epoch ends at
// end (KIP-595). What has been replayed was committed and can not go.
func (r *Replayer) Truncate(epoch protocol.LeaderEpoch, end int64) error {
	return r.observe("truncate", func() error {
		log := r.cfg.Log
		to := min(end, log.LEO())
		if epoch > 0 {
			own, ownEnd := log.EndOffsetFor(epoch)
			to = ownEnd
			if own == epoch {
				to = min(ownEnd, end)
			}
		}
		r.log.Info().Int64("from", log.LEO()).Int64("offset", to).Int32("epoch", int32(epoch)).
			Msg("metadata log parts from the leader's and is cut")
		switch {
		case to >= r.end:
			return log.TruncateTo(to)
		case r.end == r.base.offset && log.LEO() > r.end:
			// The checkpoint was fetched and the power went before the log was
			// emptied for it: what the log has is older.
			return log.TruncateFullyAndStartAt(r.end)
		}
		return fmt.Errorf("the leader's metadata log ends its epoch %d at %d, and this node has replayed up to %d: the logs are of two histories",
			epoch, end, r.end)
	})
}

// Install makes a checkpoint that lies in the directory the state, and lets the
// log begin behind it.
func (r *Replayer) Install(id snapshot.ID) error {
	return r.observe("install "+id.FileName(), func() error {
		if id.Offset <= r.end && !r.cfg.Observer {
			return nil // Raft was faster
		}
		if id.Offset < r.end {
			return fmt.Errorf("it ends at %d, and this node has replayed up to %d: the logs are of two histories", id.Offset, r.end)
		}
		return r.replace(id, func(each func(record.Record) error) (snapshot.Header, error) {
			return snapshot.Read(r.cfg.FS, r.cfg.Dir, id, each)
		})
	})
}

func (r *Replayer) observe(op string, do func() error) error {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.failed != nil {
		return r.failed
	}
	if err := do(); err != nil {
		r.failed = fmt.Errorf("%s: %w", op, err)
	}
	return r.failed
}

// WriteSnapshot writes a checkpoint of what has been published and removes the
// oldest: what Raft does for a voter (SnapshotPace.Take).
func (r *Replayer) WriteSnapshot(context.Context) error {
	c, err := r.captureObserved()
	if err != nil {
		return err
	}
	id := snapshot.ID{Offset: c.img.Offset() + 1, Epoch: c.img.Epoch()}
	// A start does not look for damage below the newest checkpoint.
	if err := r.cfg.Log.Flush(id.Offset); err != nil {
		return fmt.Errorf("snapshot at offset %d: %w", id.Offset, err)
	}
	w, err := snapshot.Create(r.cfg.FS, r.cfg.Dir, id)
	if err != nil {
		return err
	}
	if _, err := c.encode(w); err != nil {
		return errors.Join(err, w.Cancel())
	}
	if err := w.Close(); err != nil {
		return err
	}
	r.covered.Store(c.size)
	return snapshot.Reap(r.cfg.FS, r.cfg.Dir)
}

func (r *Replayer) captureObserved() (*capture, error) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.failed != nil {
		return nil, r.failed
	}
	if _, open := r.OpenTransaction(); open {
		return nil, ErrOpenTransaction
	}
	return &capture{r: r, size: r.size.Load(), img: r.Image(), quorum: r.Quorum()}, nil
}

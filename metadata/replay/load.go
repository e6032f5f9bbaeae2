package replay

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol/batch"
)

// loadBytes is how much of the log is read at once.
const loadBytes = 1 << 20

// load builds the image from the newest checkpoint and the log behind it.
func (r *Replayer) load() error {
	base, err := r.loadCheckpoint()
	if err != nil {
		return err
	}
	log := r.cfg.Log
	if base > log.LEO() {
		// The checkpoint was received from the leader, and the power went before
		// the log was emptied for it. All that the log has is in the checkpoint.
		r.log.Info().Int64("offset", base).Int64("log_end", log.LEO()).Msg("metadata log starts anew behind its checkpoint")
		if err := log.TruncateFullyAndStartAt(base); err != nil {
			return err
		}
	}
	if r.cfg.Observer {
		r.end = base // what follows waits for the leader's high watermark
	} else if err := r.loadLog(base); err != nil {
		return err
	}
	r.publish()
	img := r.Image()
	r.log.Info().Int64("checkpoint", base).Int64("offset", img.Offset()).
		Int64("replayed", r.end-base).Msg("loaded metadata")
	return nil
}

// loadCheckpoint replays the newest checkpoint that is whole and that the log
// continues, and returns its end. Without any it is 0, and the log must start there.
func (r *Replayer) loadCheckpoint() (int64, error) {
	ids, err := snapshot.Checkpoints(r.cfg.FS, r.cfg.Dir)
	if err != nil {
		return 0, err
	}
	start := r.cfg.Log.LogStartOffset()
	var damage error
	for _, id := range slices.Backward(ids) {
		if id.Offset < start {
			break
		}
		delta := metadata.NewDelta(metadata.Empty())
		header, err := snapshot.Read(r.cfg.FS, r.cfg.Dir, id, delta.Replay)
		if err != nil {
			r.log.Warn().Err(err).Str("file", filepath.Join(r.cfg.Dir, id.FileName())).
				Msg("checkpoint can not be used, trying an older one")
			damage = errors.Join(damage, err)
			continue
		}
		r.adopt(delta, id, header)
		return id.Offset, nil
	}
	if start > 0 && r.cfg.Observer {
		r.log.Error().Err(damage).Int64("log_start_offset", start).
			Msg("no checkpoint has what comes before the metadata log, fetching everything again")
		return 0, r.cfg.Log.TruncateFullyAndStartAt(0)
	}
	if start > 0 {
		return 0, errors.Join(fmt.Errorf("%s starts at offset %d, and no checkpoint has offsets 0 to %d",
			r.cfg.Log.Path(), start, start-1), damage)
	}
	return 0, nil
}

// adopt takes a checkpoint's content as what was replayed last.
func (r *Replayer) adopt(delta *metadata.Delta, id snapshot.ID, header snapshot.Header) {
	r.openTxn.Store(-1)
	r.covered.Store(r.size.Load())
	r.delta = delta
	r.last = position{id.Offset - 1, id.Epoch, header.LastTimestampMs}
	r.quorum.Store(&header.KRaft)
	r.end = id.Offset
	r.base = position{offset: id.Offset, epoch: id.Epoch}
}

// loadLog replays the log from offset to its end.
func (r *Replayer) loadLog(offset int64) error {
	r.end = offset
	end := r.cfg.Log.LEO()
	if err := r.loadUpTo(end); err != nil {
		return err
	}
	if r.end < end {
		return fmt.Errorf("metadata log offset %d: the log has nothing there", r.end)
	}
	return nil
}

// loadUpTo replays whole batches from where the replay is to end.
func (r *Replayer) loadUpTo(end int64) error {
	var buf []byte
	for r.end < end {
		slice, err := r.cfg.Log.Read(r.end, loadBytes, end, true)
		if err != nil {
			return fmt.Errorf("metadata log offset %d: %w", r.end, err)
		}
		buf = slices.Grow(buf[:0], slice.Size())[:slice.Size()]
		if len(buf) == 0 {
			slice.Release()
			return nil // end lies in a batch
		}
		_, err = slice.ReadAt(buf, 0)
		slice.Release()
		if err != nil {
			return fmt.Errorf("metadata log offset %d: %w", r.end, err)
		}
		if r.end, err = r.loadBatches(buf, r.end); err != nil {
			return err
		}
	}
	return nil
}

// loadBatches replays batches that continue at offset, and returns where they end.
func (r *Replayer) loadBatches(buf []byte, offset int64) (int64, error) {
	for len(buf) > 0 {
		b, rest, err := batch.Next(buf)
		if err == nil {
			err = b.CheckCRC()
		}
		if err == nil && b.BaseOffset() != offset {
			err = fmt.Errorf("it holds a batch at %d", b.BaseOffset())
		}
		if err != nil {
			return 0, fmt.Errorf("metadata log offset %d: %w", offset, err)
		}
		if err := r.replay(b); err != nil {
			return 0, err
		}
		buf, offset = rest, b.NextOffset()
	}
	return offset, nil
}

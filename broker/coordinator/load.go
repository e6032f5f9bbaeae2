package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// takeOver makes the machine from what the partition holds. It returns false
// where the shard is over, one way or another.
func (s *shard) takeOver(ctx context.Context) bool {
	begin := time.Now()
	found, ok := s.cfg.Partition(s.topicID, s.partition)
	if !ok {
		s.log.Error().Msg("partition of a coordinator is not on this broker")
		return false
	}
	s.replica = found
	s.machine = s.cfg.NewMachine(s.partition)
	records, err := s.load(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Error().Err(err).Msg("partition of a coordinator was not loaded")
		}
		return false
	}
	s.follow(s.machine.Loaded(time.Now()))
	s.mu.Lock()
	if s.phase == loading {
		s.phase = active
	}
	s.mu.Unlock()
	// Only what was more than an empty partition is worth a line.
	event := s.log.Info()
	if records == 0 {
		event = s.log.Debug()
	}
	event.Int("records", records).Dur("took", time.Since(begin)).Msg("partition's coordinator is active")
	return true
}

// load replays the partition up to the log end of the moment when the
// leadership began, as it becomes committed, and returns the number of records.
func (s *shard) load(ctx context.Context) (int, error) {
	end, err := s.replica.ListOffset(replica.ListOffsetRequest{Timestamp: replica.LatestTimestamp, CurrentLeaderEpoch: s.epoch})
	if err != nil {
		return 0, fmt.Errorf("find the log end: %w", err)
	}
	start, err := s.replica.ListOffset(replica.ListOffsetRequest{Timestamp: replica.EarliestTimestamp, CurrentLeaderEpoch: s.epoch})
	if err != nil {
		return 0, fmt.Errorf("find the log start: %w", err)
	}
	records := 0
	for offset := start.Offset; offset < end.Offset; {
		if err := s.await(ctx, offset); err != nil {
			return records, err
		}
		next, n, err := s.loadFrom(offset)
		if err != nil {
			return records, fmt.Errorf("read from offset %d on: %w", offset, err)
		}
		if next == offset {
			return records, fmt.Errorf("no records at offset %d, though the log ends at %d", offset, end.Offset)
		}
		offset, records = next, records+n
	}
	return records, nil
}

// await waits until the record at offset is committed.
func (s *shard) await(ctx context.Context, offset int64) error {
	var at replica.Appended
	at.FirstOffset, at.LastOffset, at.LeaderEpoch = offset, offset, s.epoch
	w := replica.NewWaiter(1)
	for {
		done, err := s.replica.Committed(at)
		// That fewer replicas have it than acks=all asks for is no concern of a
		// reader.
		if done || errors.Is(err, protocol.ErrNotEnoughReplicasAfterAppend) {
			return nil
		}
		if err != nil {
			return err
		}
		s.replica.ParkForCommit(w, at)
		w.Wait(ctx, time.Now().Add(time.Minute))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// loadFrom replays the batches that one read gives and returns the offset after
// them.
func (s *shard) loadFrom(offset int64) (next int64, records int, err error) {
	fetched, err := s.replica.Fetch(replica.FetchRequest{
		Offset: offset, MaxBytes: s.cfg.LoadBytes, MinOneBatch: true,
		Replica: protocol.NoNode, CurrentLeaderEpoch: s.epoch, LastFetchedEpoch: -1,
	})
	if err != nil || fetched.Records == nil {
		return offset, 0, err
	}
	buf, err := fetched.Records.Bytes()
	fetched.Records.Release()
	if err != nil {
		return offset, 0, err
	}
	for len(buf) > 0 {
		b, rest, err := batch.Next(buf)
		if err != nil {
			return offset, records, err
		}
		if err := s.replay(b, &records, offset); err != nil {
			// The rest of the batch is lost to us, not to the partition.
			s.log.Error().Err(err).Int64("offset", b.BaseOffset()).Msg("records of a coordinator are damaged and were skipped")
		}
		offset, buf = b.NextOffset(), rest
	}
	return offset, records, nil
}

// replay hands the records of a batch from an offset on to the machine.
func (s *shard) replay(b batch.Batch, records *int, from int64) error {
	if err := b.CheckCRC(); err != nil {
		return err
	}
	return b.Each(func(r batch.Record) error {
		offset := b.BaseOffset() + int64(r.OffsetDelta)
		if offset < from {
			return nil
		}
		*records++
		s.machine.Replay(Record{
			Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Offset: offset, TimestampMs: r.Timestamp,
			ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), Transactional: b.IsTransactional(), Control: b.IsControl(),
		})
		return nil
	})
}

package replica

import (
	"errors"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
)

// fakeLog is a log without bytes: it counts offsets, keeps epochs, and fails
// when told to.
type fakeLog struct {
	start, leo int64
	epochs     []protocol.LeaderEpoch // with starts, ascending
	starts     []int64
	failAppend error
	failFlush  error
	flushDue   bool // every append is to be flushed
	flushed    int64
	reads      int
}

var errDisk = errors.New("disk is gone")

func (l *fakeLog) AppendAsLeader(batches []byte, epoch protocol.LeaderEpoch, _ storage.AppendOptions) (storage.AppendResult, error) {
	if l.failAppend != nil {
		return storage.AppendResult{}, l.failAppend
	}
	b, _, err := batch.Next(batches)
	if err != nil {
		return storage.AppendResult{}, err
	}
	b.SetBaseOffset(l.leo)
	b.SetLeaderEpoch(int32(epoch))
	first := l.leo
	l.leo = b.NextOffset()
	return storage.AppendResult{FirstOffset: first, LastOffset: l.leo - 1, LogStartOffset: l.start, FlushDue: l.flushDue}, nil
}

func (l *fakeLog) AppendAsFollower(batches []byte) (storage.AppendResult, error) {
	if l.failAppend != nil {
		return storage.AppendResult{}, l.failAppend
	}
	first := l.leo
	for len(batches) > 0 {
		b, rest, err := batch.Next(batches)
		if err != nil {
			return storage.AppendResult{}, err
		}
		epoch := protocol.LeaderEpoch(b.LeaderEpoch())
		if n := len(l.epochs); n == 0 || l.epochs[n-1] < epoch {
			l.AssignEpoch(epoch, b.BaseOffset())
		}
		l.leo, batches = b.NextOffset(), rest
	}
	return storage.AppendResult{FirstOffset: first, LastOffset: l.leo - 1}, nil
}

func (l *fakeLog) TruncateTo(offset int64) error {
	if l.failAppend != nil {
		return l.failAppend
	}
	l.leo = min(l.leo, offset)
	for n := len(l.epochs); n > 0 && l.starts[n-1] >= offset; n = len(l.epochs) {
		l.epochs, l.starts = l.epochs[:n-1], l.starts[:n-1]
	}
	return nil
}

func (l *fakeLog) TruncateFullyAndStartAt(offset int64) error {
	l.start, l.leo, l.epochs, l.starts = offset, offset, nil, nil
	return nil
}

func (l *fakeLog) LatestEpoch() (protocol.LeaderEpoch, bool) {
	if len(l.epochs) == 0 {
		return 0, false
	}
	return l.epochs[len(l.epochs)-1], true
}

func (l *fakeLog) Read(int64, int, int64, bool) (*storage.Slice, error) {
	l.reads++
	return &storage.Slice{}, nil
}

func (l *fakeLog) LEO() int64                                 { return l.leo }
func (l *fakeLog) LogStartOffset() int64                      { return l.start }
func (l *fakeLog) LastStableOffset(highWatermark int64) int64 { return highWatermark }

func (l *fakeLog) EndOffsetFor(epoch protocol.LeaderEpoch) (protocol.LeaderEpoch, int64) {
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if l.epochs[i] > epoch {
			continue
		}
		if i == len(l.epochs)-1 && epoch > l.epochs[i] {
			break // newer than any that is known
		}
		if i == len(l.epochs)-1 {
			return l.epochs[i], l.leo
		}
		return l.epochs[i], l.starts[i+1]
	}
	return -1, -1
}

func (l *fakeLog) EpochFor(offset int64) protocol.LeaderEpoch {
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if l.starts[i] <= offset {
			return l.epochs[i]
		}
	}
	return -1
}

func (l *fakeLog) AssignEpoch(epoch protocol.LeaderEpoch, start int64) {
	l.epochs, l.starts = append(l.epochs, epoch), append(l.starts, start)
}

func (l *fakeLog) OffsetForTimestamp(ms int64) (storage.TimestampOffset, bool, error) {
	return storage.TimestampOffset{Offset: ms, TimestampMs: ms}, ms < l.leo, nil
}

func (l *fakeLog) OffsetOfMaxTimestamp() (storage.TimestampOffset, bool, error) {
	return storage.TimestampOffset{Offset: l.leo - 1, TimestampMs: l.leo - 1}, l.leo > 0, nil
}

func (l *fakeLog) SaveLogStart() error { return nil }

func (l *fakeLog) AdvanceLogStart(offset int64) error {
	l.start = max(l.start, offset)
	return nil
}

func (l *fakeLog) ActiveProducers() []storage.ActiveProducer { return nil }

func (l *fakeLog) Dir() *storage.Dir { return nil }

func (l *fakeLog) FlushedTo() int64 { return l.flushed }

func (l *fakeLog) Flush(upTo int64) error {
	if l.failFlush != nil {
		return l.failFlush
	}
	l.flushed = max(l.flushed, upTo)
	return nil
}

// records returns a batch of n records.
func records(n int) []byte {
	b := batch.NewBuilder(batch.Options{})
	for range n {
		b.Append(batch.Record{Value: []byte("v")})
	}
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return built
}

// registration is a partition led by leader under an epoch, with all replicas in
// sync.
func registration(leader protocol.NodeID, epoch protocol.LeaderEpoch, replicas ...protocol.NodeID) *metadata.Partition {
	return &metadata.Partition{
		Leader: leader, LeaderEpoch: epoch, PartitionEpoch: protocol.PartitionEpoch(epoch),
		Replicas: replicas, ISR: replicas,
	}
}

// leading returns a partition that broker 1 leads under epoch 0.
func leading(log *fakeLog, config TopicConfig, replicas ...protocol.NodeID) *Partition {
	p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &config, &told{})
	p.become(registration(1, 0, replicas...), actionLead, log, 0)
	return p
}

// told keeps what a partition tells of itself.
type told struct {
	looks     int
	cut, lose []int64 // offsets
	uncleanAt []int64 // likewise
	losses    []protocol.Loss
}

func (t *told) inSyncChanges(*Partition) { t.looks++ }

func (t *told) came(*Partition, protocol.NodeID, protocol.LeaderEpoch) {}

func (t *told) truncated(_ protocol.TopicPartition, offset, _ int64) { t.cut = append(t.cut, offset) }

func (t *told) lost(_ protocol.TopicPartition, offset, _ int64) { t.lose = append(t.lose, offset) }

func (t *told) unclean(_ protocol.TopicPartition, _ protocol.LeaderEpoch, offset int64) {
	t.uncleanAt = append(t.uncleanAt, offset)
}

func (t *told) gaveUp(_ protocol.TopicPartition, _ protocol.NodeID, loss protocol.Loss) {
	t.losses = append(t.losses, loss)
}

package storage

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// testNow is the clock of tests that need none.
var testNow = time.UnixMilli(1_700_000_000_000)

func now() time.Time { return testNow }

// smallConfig makes tests reach the edges: an index entry per 200 bytes,
// segments of 4 KiB.
func smallConfig() LogConfig {
	cfg := DefaultLogConfig()
	cfg.SegmentBytes = 4096
	cfg.IndexIntervalBytes = 200
	cfg.SegmentMs = math.MaxInt64
	return cfg
}

func smallOptions() LogOptions {
	return LogOptions{Config: smallConfig(), Now: now}
}

// produced describes a batch as a client sends it.
type produced struct {
	records   int
	size      int   // of each value
	timestamp int64 // of the first record; they rise by 1 ms
	producer  *batch.Producer
	txn       bool
	codec     batch.Codec
	value     string // of the first record
}

func (p produced) build(t testing.TB) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.Options{Producer: p.producer, Transactional: p.txn, Codec: p.codec})
	for i := range max(p.records, 1) {
		value := make([]byte, p.size)
		for j := range value {
			value[j] = byte('a' + (i+j)%26)
		}
		if i == 0 && p.value != "" {
			value = []byte(p.value)
		}
		at := p.timestamp
		if at == 0 {
			at = testNow.UnixMilli()
		}
		b.Append(batch.Record{Timestamp: at + int64(i), Value: value})
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(nil), built...)
}

// record is a batch of one record with that value.
func record(t testing.TB, value string) []byte {
	return produced{value: value}.build(t)
}

// records is a batch of n records of size bytes.
func records(t testing.TB, n, size int) []byte {
	return produced{records: n, size: size}.build(t)
}

// marker is the batch that ends a transaction.
func marker(t testing.TB, id int64, epoch int16, coordinator int32, abort bool) []byte {
	t.Helper()
	kind := byte(controlCommit)
	if abort {
		kind = controlAbort
	}
	b := batch.NewBuilder(batch.Options{
		Producer:      &batch.Producer{ID: id, Epoch: epoch, BaseSequence: -1},
		Transactional: true, Control: true,
	})
	b.Append(batch.Record{
		Timestamp: testNow.UnixMilli(), Key: []byte{0, 0, 0, kind},
		Value: []byte{0, 0, byte(coordinator >> 24), byte(coordinator >> 16), byte(coordinator >> 8), byte(coordinator)},
	})
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(nil), built...)
}

func openTest(t testing.TB, fs vfs.FS, path string, opts LogOptions) *Log {
	t.Helper()
	l, err := OpenLog(fs, path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendTest(t testing.TB, l *Log, data []byte, epoch protocol.LeaderEpoch) AppendResult {
	t.Helper()
	r, err := l.AppendAsLeader(data, epoch, AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// all reads every batch of the log from an offset on.
func all(t testing.TB, l *Log, offset int64) []batch.Batch {
	t.Helper()
	batches, err := readAll(l, offset)
	if err != nil {
		t.Fatal(err)
	}
	return batches
}

func readAll(l *Log, offset int64) ([]batch.Batch, error) {
	var out []batch.Batch
	for {
		s, err := l.Read(offset, 1<<20, math.MaxInt64, true)
		if err != nil {
			return out, err
		}
		data, err := s.Bytes()
		s.Release()
		if err != nil {
			return out, err
		}
		if len(data) == 0 {
			return out, nil
		}
		for len(data) > 0 {
			b, rest, err := batch.Next(data)
			if err != nil {
				return out, err
			}
			if err := b.CheckCRC(); err != nil {
				return out, fmt.Errorf("offset %d: %w", b.BaseOffset(), err)
			}
			out, data = append(out, b), rest
			offset = b.NextOffset()
		}
	}
}

// values returns the values of all records from an offset on.
func values(t testing.TB, l *Log, offset int64) []string {
	t.Helper()
	var out []string
	for _, b := range all(t, l, offset) {
		if err := b.Each(func(r batch.Record) error {
			out = append(out, string(r.Value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fileNames lists a directory.
func fileNames(t testing.TB, fs vfs.FS, path string) []string {
	t.Helper()
	entries, err := fs.ReadDir(path)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func readFile(t testing.TB, fs vfs.FS, path ...string) []byte {
	t.Helper()
	data, err := vfs.ReadFile(fs, filepath.Join(path...))
	check(t, err)
	return data
}

func producerOf(id int64) *batch.Producer { return &batch.Producer{ID: id} }

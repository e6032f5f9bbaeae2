package batch

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/klamm/klamm/protocol"
)

// A bomb costs time, not memory: one record of 32 MiB of zeroes is walked.
func TestBomb(t *testing.T) {
	record := appendRecord(nil, &Record{Value: make([]byte, 32<<20)}, 0)
	for _, codec := range []Codec{CodecGzip, CodecLZ4, CodecZstd} {
		b, o := raw(t, codec, 1, record), options()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Validate(b, o)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; err != nil || len(b) > 1<<20 || allocated > 16<<20 {
			t.Errorf("%s: %d bytes, %d allocated, error %v", codec, len(b), allocated, err)
		}
		o.MaxDecompressedBytes = 1 << 20
		if _, err := Validate(b, o); !errors.Is(err, protocol.ErrInvalidRecord) {
			t.Errorf("%s, bounded: %v", codec, err)
		}
	}
}

// Neither does looking for a time: the record is not held.
func TestBombEachTime(t *testing.T) {
	record := appendRecord(nil, &Record{Value: make([]byte, 32<<20), Timestamp: 7}, 0)
	b := raw(t, CodecZstd, 1, record)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := int64(-1)
	err := b.EachTime(func(_ int32, timestampMs int64) error {
		found = timestampMs - b.BaseTimestamp()
		return nil
	})
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; err != nil || found != 7 || allocated > 16<<20 {
		t.Errorf("time %d, %d allocated, error %v", found, allocated, err)
	}
}

// A record that would be held is not larger than is bearable, whatever it claims.
func TestBombEach(t *testing.T) {
	claimed := append(binary.AppendVarint(nil, maxHeld+1), make([]byte, 1000)...)
	if err := raw(t, CodecZstd, 1, claimed).Each(func(Record) error { return nil }); !errors.Is(err, errHeld) {
		t.Errorf("%v", err)
	}
}

// Bombs that have to be packed anew wait for each other, and nobody else for them.
func TestBombRecompress(t *testing.T) {
	b := raw(t, CodecZstd, 1, appendRecord(nil, &Record{Value: make([]byte, 1000)}, 0))
	recompressingLarge <- struct{}{} // a bomb is under way
	done := make(chan error, 1)
	go func() {
		_, err := Recompress(b, CodecGzip, 1, smallRecompress+1)
		done <- err
	}()
	if _, err := Recompress(b, CodecGzip, 1, smallRecompress); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Fatalf("two bombs at a time: %v", err)
	case <-time.After(50 * time.Millisecond): // one that did not wait would be done
	}
	<-recompressingLarge
	if err := <-done; err != nil {
		t.Error(err)
	}
}

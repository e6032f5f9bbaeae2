package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/klamm/klamm/protocol"
)

const now = 1_700_000_000_000

// options are those of a topic with Kafka's defaults.
func options() *ValidateOptions {
	return &ValidateOptions{
		Partition:         protocol.TopicPartition{Topic: "t", Partition: 0},
		MaxMessageBytes:   1 << 20,
		TimestampBeforeMs: math.MaxInt64, TimestampAfterMs: 3_600_000, NowMs: now,
	}
}

func build(t testing.TB, opts Options, records ...Record) Batch {
	t.Helper()
	b := NewBuilder(opts)
	for _, r := range records {
		b.Append(r)
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append(Batch(nil), built...)
}

// raw is a batch of records given as bytes.
func raw(t testing.TB, codec Codec, count int32, records []byte) Batch {
	t.Helper()
	packed, err := Compress(codec, codec.DefaultLevel(), make([]byte, HeaderSize), records)
	if err != nil {
		t.Fatal(err)
	}
	b := Batch(packed)
	b.put32(offsetLength, int32(len(b)-FrameSize))
	b[offsetMagic] = 2
	b[offsetAttributes+1] = byte(codec)
	b.put32(offsetRecordCount, count)
	b.put32(offsetLastDelta, count-1)
	b.put64(offsetProducerID, -1)
	b.put32(offsetBaseSequence, -1)
	b.SetCRC()
	return b
}

func (b Batch) put32(at int, v int32) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
func (b Batch) put64(at int, v int64) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }

// spoilt returns a copy of the batch, changed and with a right CRC again.
func spoilt(b Batch, change func(Batch)) Batch {
	c := append(Batch(nil), b...)
	change(c)
	c.SetCRC()
	return c
}

var codecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// The oracle's scenarios produce-format, produce-time and produce-codec, as
// Kafka 4.4 answered them.
func TestValidateAsKafka(t *testing.T) {
	one := build(t, Options{}, Record{Timestamp: now, Value: []byte("a")})
	two := build(t, Options{}, Record{Timestamp: now, Value: []byte("a")}, Record{Timestamp: now, Value: []byte("b")})
	unparsable := raw(t, CodecNone, 1, []byte{0xff, 0xff, 0xff, 0xff})
	longer := func(codec Codec, by byte) Batch {
		p := append([]byte(nil), one.Records()...)
		p[0] += 2 * by // zigzag
		return raw(t, codec, 1, p)
	}
	tail := append(append([]byte(nil), one.Records()...), 0)
	shifted := func(codec Codec) Batch {
		return raw(t, codec, 1, appendRecord(nil, &Record{OffsetDelta: 3, Value: []byte("a")}, 0))
	}
	for _, c := range []struct {
		name string
		b    Batch
		want error
	}{
		{"good", one, nil},
		{"base offset 17", spoilt(one, func(b Batch) { b.SetBaseOffset(17) }), protocol.ErrInvalidRecord},
		{"base offset -4", spoilt(one, func(b Batch) { b.SetBaseOffset(-4) }), protocol.ErrInvalidRecord},
		{"leader epoch", spoilt(one, func(b Batch) { b.SetLeaderEpoch(44) }), nil},
		{"crc", func() Batch { b := spoilt(one, func(Batch) {}); b[offsetCRC] ^= 1; return b }(), protocol.ErrCorruptMessage},
		{"count above", spoilt(two, func(b Batch) { b.put32(offsetRecordCount, 3) }), protocol.ErrInvalidRecord},
		{"count below", spoilt(two, func(b Batch) { b.put32(offsetRecordCount, 1) }), protocol.ErrInvalidRecord},
		{"count 0", spoilt(one, func(b Batch) { b.put32(offsetRecordCount, 0); b.put32(offsetLastDelta, -1) }), protocol.ErrInvalidRecord},
		{"count -1", spoilt(one, func(b Batch) { b.put32(offsetRecordCount, -1) }), protocol.ErrInvalidRecord},
		{"last delta", spoilt(one, func(b Batch) { b.put32(offsetLastDelta, 5) }), protocol.ErrInvalidRecord},
		{"both above", spoilt(one, func(b Batch) { b.put32(offsetLastDelta, 5); b.put32(offsetRecordCount, 6) }), protocol.ErrInvalidRecord},
		{"both largest", spoilt(one, func(b Batch) {
			b.put32(offsetLastDelta, math.MaxInt32)
			b.put32(offsetRecordCount, math.MinInt32)
		}), protocol.ErrInvalidRecord},
		{"record too long", longer(CodecNone, 5), protocol.ErrInvalidRecord},
		{"record too short", longer(CodecNone, 0xff), protocol.ErrInvalidRecord},
		{"no record", unparsable, protocol.ErrInvalidRecord},
		{"tail", raw(t, CodecNone, 1, tail), protocol.ErrInvalidRecord},
		{"tail, gzip", raw(t, CodecGzip, 1, tail), protocol.ErrInvalidRecord},
		// Kafka takes this one; its consumers cannot read it.
		{"record too long, gzip", longer(CodecGzip, 5), protocol.ErrInvalidRecord},
		{"offset delta", shifted(CodecNone), nil},
		{"offset delta, gzip", shifted(CodecGzip), protocol.ErrUnknownServerError},
		{"control", build(t, Options{Control: true}, Record{Timestamp: now}), protocol.ErrInvalidRecord},
		{"codec 5", spoilt(one, func(b Batch) { b[offsetAttributes+1] |= 5 }), protocol.ErrUnknownServerError},
		{"codec 7", spoilt(one, func(b Batch) { b[offsetAttributes+1] |= 7 }), protocol.ErrUnknownServerError},
		{"says gzip, is plain", spoilt(one, func(b Batch) { b[offsetAttributes+1] |= 1 }), protocol.ErrUnknownServerError},
		{"says snappy, is plain", spoilt(one, func(b Batch) { b[offsetAttributes+1] |= 2 }), protocol.ErrUnknownServerError},
		{"says lz4, is plain", spoilt(one, func(b Batch) { b[offsetAttributes+1] |= 3 }), protocol.ErrUnknownServerError},
		{"says zstd, is plain", spoilt(one, func(b Batch) { b[offsetAttributes+1] |= 4 }), protocol.ErrUnknownServerError},
		{"delete horizon", spoilt(one, func(b Batch) { b[offsetAttributes+1] |= 64 }), nil},
		{"unknown attribute", spoilt(one, func(b Batch) { b[offsetAttributes] |= 0x40 }), nil},
		{"sequence", build(t, Options{Producer: &Producer{ID: 5, BaseSequence: -1}}, Record{Timestamp: now}), protocol.ErrInvalidRecord},
		{"producer -5", build(t, Options{Producer: &Producer{ID: -5, BaseSequence: -1}}, Record{Timestamp: now}), nil},
		{"too large", build(t, Options{}, Record{Timestamp: now, Value: make([]byte, 1<<20)}), protocol.ErrMessageTooLarge},
		{"too large, gzip", build(t, Options{Codec: CodecGzip}, Record{Timestamp: now, Value: make([]byte, 1<<20)}), nil},
		{"no timestamp", build(t, Options{}, Record{Timestamp: -1}), nil},
		{"timestamp -2", build(t, Options{}, Record{Timestamp: -2}), nil},
		{"in an hour", build(t, Options{}, Record{Timestamp: now + 3_600_001}), protocol.ErrInvalidTimestamp},
		{"in an hour, lz4", build(t, Options{Codec: CodecLZ4}, Record{Timestamp: now + 3_600_001}), protocol.ErrInvalidTimestamp},
		{"append time, none given", build(t, Options{AppendTime: true}, Record{Timestamp: -1}), protocol.ErrInvalidTimestamp},
		{"append time, one given", build(t, Options{AppendTime: true}, Record{Timestamp: now}), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Validate(c.b, options())
			if protocol.CodeOf(err) != protocol.CodeOf(c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestMaxTimestampIsCorrected(t *testing.T) {
	for _, codec := range codecs {
		for _, claimed := range []int64{5000, 1} {
			b := spoilt(build(t, Options{Codec: codec}, Record{Timestamp: 1000}, Record{Timestamp: 1005}),
				func(b Batch) { b.put64(offsetMaxTimestamp, claimed) })
			r, err := Validate(b, options())
			if err != nil || r.MaxTimestampMs != 1005 || r.AppendTimeMs != -1 {
				t.Fatalf("%s: %+v, %v", codec, r, err)
			}
			if r.Batch.MaxTimestamp() != 1005 || r.Batch.BaseTimestamp() != 1000 || r.Batch.CheckCRC() != nil {
				t.Fatalf("%s: header % x", codec, r.Batch[:HeaderSize])
			}
		}
	}
}

// The type is set even where the maximum is right already.
func TestTimestampType(t *testing.T) {
	for _, appendTime := range []bool{false, true} {
		o := options()
		o.AppendTime = appendTime
		r, err := Validate(build(t, Options{AppendTime: !appendTime}, Record{Timestamp: now}), o)
		if err != nil || r.Batch.IsAppendTime() != appendTime || r.Batch.CheckCRC() != nil {
			t.Errorf("%v: %+v, %v", appendTime, r, err)
		}
	}
}

// Short records and few bytes left: wherever a record ends in the window.
func TestSmallRecords(t *testing.T) {
	for _, codec := range codecs {
		for n := range 20 {
			b := raw(t, codec, 1, appendRecord(nil, &Record{Timestamp: 5000, Value: make([]byte, n)}, 0))
			if r, err := Validate(b, options()); err != nil || r.MaxTimestampMs != 5000 {
				t.Errorf("%s, %d bytes: %+v, %v", codec, n, r, err)
			}
		}
		for _, n := range []int{1, 2, 63, 64, 65, 100, 8191, 8192, 8193, 20_000} {
			b := build(t, Options{Codec: codec}, make([]Record, n)...)
			if _, err := Validate(b, options()); err != nil {
				t.Errorf("%s, %d records: %v", codec, n, err)
			}
			count := 0
			if err := b.Each(func(Record) error { count++; return nil }); err != nil || count != n {
				t.Errorf("%s: %d of %d records: %v", codec, count, n, err)
			}
		}
	}
}

func TestTimestampsBelowNone(t *testing.T) {
	r, err := Validate(build(t, Options{}, Record{Timestamp: -2}), options())
	if err != nil || r.Batch.MaxTimestamp() != -1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestAppendTime(t *testing.T) {
	o := options()
	o.AppendTime, o.TimestampBeforeMs, o.TimestampAfterMs = true, 0, 0
	b := spoilt(build(t, Options{Codec: CodecZstd, Transactional: true, Producer: &Producer{ID: 1}},
		Record{Timestamp: 1000}, Record{Timestamp: 1005}), func(b Batch) { b[offsetAttributes] |= 0x40 })
	r, err := Validate(b, o)
	if err != nil || r.MaxTimestampMs != now || r.AppendTimeMs != now {
		t.Fatalf("%+v, %v", r, err)
	}
	if !r.Batch.IsAppendTime() || !r.Batch.IsTransactional() || r.Batch.Codec() != CodecZstd || r.Batch.Attributes() != 0x1c {
		t.Fatalf("attributes %x", r.Batch.Attributes())
	}
	if r.Batch.MaxTimestamp() != now || r.Batch.CheckCRC() != nil {
		t.Fatalf("header % x", r.Batch[:HeaderSize])
	}
	err = r.Batch.Each(func(r Record) error {
		if r.Timestamp != now {
			return fmt.Errorf("timestamp %d", r.Timestamp)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Validate(b, o); !errors.Is(err, protocol.ErrInvalidTimestamp) {
		t.Fatalf("a producer that sets append time: %v", err)
	}
}

func TestRecordErrors(t *testing.T) {
	o := options()
	o.Compacted = true
	k := []byte("k")
	_, err := Validate(build(t, Options{Codec: CodecGzip},
		Record{Timestamp: now, Key: k}, Record{Timestamp: now}, Record{Timestamp: now, Key: []byte{}}, Record{Timestamp: now}), o)
	var refused *RecordErrors
	if !errors.As(err, &refused) || protocol.CodeOf(err) != protocol.ErrInvalidRecord {
		t.Fatalf("error %v", err)
	}
	const each = "Compacted topic cannot accept message without key in topic partition t-0"
	want := []RecordError{{1, each}, {3, each}}
	if fmt.Sprint(refused.Records) != fmt.Sprint(want) {
		t.Errorf("records %v", refused.Records)
	}
	if got := *protocol.MessageOf(err); got != "One or more records have been rejected due to 2 record errors in total, "+
		"and only showing the first three errors at most: [RecordError(batchIndex=1, message='"+each+"'), "+
		"RecordError(batchIndex=3, message='"+each+"')]" {
		t.Errorf("message %s", got)
	}
	o.TimestampBeforeMs = 1000
	_, err = Validate(build(t, Options{}, Record{Timestamp: now, Key: k}, Record{Timestamp: now - 2000, Key: k}, Record{Timestamp: now}), o)
	if !errors.As(err, &refused) || protocol.CodeOf(err) != protocol.ErrInvalidTimestamp || len(refused.Records) != 2 ||
		refused.Records[0].Message != fmt.Sprintf("Timestamp %d of message with offset 1 is out of range. "+
			"The timestamp should be within [%d, %d]", now-2000, now-1000, now+3_600_000) {
		t.Errorf("error %v, %v", err, refused)
	}
}

func TestRecordErrorsAreBounded(t *testing.T) {
	o := options()
	o.Compacted = true
	_, err := Validate(build(t, Options{}, make([]Record, 1000)...), o)
	var refused *RecordErrors
	if !errors.As(err, &refused) || len(refused.Records) != maxRecordErrors || !strings.Contains(refused.Message, "1000 record errors") {
		t.Fatalf("%v", err)
	}
}

// A record in a compressed batch may be as large as max.decompressed.message.bytes.
func TestMaxDecompressed(t *testing.T) {
	o := options()
	o.MaxDecompressedBytes = 100
	for size, want := range map[int]error{93: nil, 94: protocol.ErrInvalidRecord} {
		r := Record{Timestamp: now, Value: make([]byte, size)}
		if _, err := Validate(build(t, Options{Codec: CodecGzip}, r), o); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, err := Validate(build(t, Options{}, r), o); err != nil {
			t.Errorf("%d plain bytes: %v", size, err)
		}
	}
}

// Plain records whose offsets do not count up are kept, but cannot be compressed.
func TestPacked(t *testing.T) {
	r := append(appendRecord(nil, &Record{Timestamp: now}, 0), appendRecord(nil, &Record{Timestamp: now, OffsetDelta: 7}, 0)...)
	o := options()
	for _, packed := range []bool{false, true} {
		o.Packed = packed
		if _, err := Validate(raw(t, CodecNone, 2, r), o); (err == nil) == packed {
			t.Errorf("packed %v: %v", packed, err)
		}
	}
}

func TestSingle(t *testing.T) {
	one := build(t, Options{}, Record{Value: []byte("a")})
	with := func(p []byte, more ...byte) []byte { return append(append([]byte(nil), p...), more...) }
	lengthened := func(by int32) []byte {
		return spoilt(one, func(b Batch) { b.put32(offsetLength, int32(len(one))-FrameSize+by) })
	}
	magic := func(m int8) []byte { return spoilt(one, func(b Batch) { b[offsetMagic] = byte(m) }) }
	for _, c := range []struct {
		name    string
		records []byte
		want    error
		message string
	}{
		{"one", one, nil, ""},
		{"null", nil, protocol.ErrInvalidRecord, ""},
		{"a byte", []byte{0}, protocol.ErrInvalidRecord, ""},
		{"two", with(one, one...), protocol.ErrInvalidRecord, ""},
		{"a trailing byte", with(one, 1), nil, ""},
		{"half of a second", with(one, one[:30]...), nil, ""},
		{"cut", one[:len(one)-3], protocol.ErrInvalidRecord, ""},
		{"length + 1", lengthened(1), protocol.ErrInvalidRecord, ""},
		{"length + 10^9", lengthened(1_000_000_000), protocol.ErrInvalidRecord, ""},
		{"length - 60", lengthened(-60), protocol.ErrCorruptMessage, "Record size -3 is less than the minimum record overhead (14)"},
		{"length - 20", lengthened(-20), protocol.ErrCorruptMessage, ""},
		{"magic 0", magic(0), protocol.ErrInvalidRecord, ""},
		{"magic 1", magic(1), protocol.ErrInvalidRecord, ""},
		{"magic 3", magic(3), protocol.ErrCorruptMessage, "Invalid magic found in record: 3"},
		{"magic -1", magic(-1), protocol.ErrCorruptMessage, "Invalid magic found in record: -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Single(c.records)
			if protocol.CodeOf(err) != protocol.CodeOf(c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if m := protocol.MessageOf(err); c.message != "" && (m == nil || *m != c.message) || c.message == "" && m != nil {
				t.Fatalf("message %v, want %q", err, c.message)
			}
		})
	}
}

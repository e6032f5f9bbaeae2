package inspect

import (
	"bufio"
	"fmt"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol/batch"
)

// textPrinter prints the lines of Kafka's DumpLogSegments.
type textPrinter struct {
	out  *bufio.Writer
	path string
	json []byte
}

func (p *textPrinter) begin(kind string) {
	fmt.Fprintf(p.out, "Dumping %s\n", p.path)
	if kind != "" {
		fmt.Fprintln(p.out, kind)
	}
}

func (p *textPrinter) batch(b batch.Batch, position int64) {
	fmt.Fprintf(p.out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d "+
		"producerId: %d producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t isControl: %t "+
		"deleteHorizonMs: OptionalLong.empty position: %d %s: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: true\n",
		b.BaseOffset(), b.LastOffset(), b.RecordCount(), b.BaseSequence(), b.LastSequence(),
		b.ProducerID(), b.ProducerEpoch(), b.LeaderEpoch(), b.IsTransactional(), b.IsControl(),
		position, timeName(b), b.MaxTimestamp(), b.Size(), b.Magic(), codecName(b.Codec()), b.CRC())
}

func (p *textPrinter) record(b batch.Batch, e record.Entry) {
	keySize := -1
	if e.Control != nil {
		keySize = 4
	}
	fmt.Fprintf(p.out, "| offset: %d %s: %d keySize: %d valueSize: %d sequence: -1 headerKeys: [] ",
		e.Offset, timeName(b), e.TimestampMs, keySize, e.Size)
	p.json = p.json[:0]
	switch c := e.Control.(type) {
	case nil:
		fmt.Fprintf(p.out, "payload: %s\n", record.AppendJSON(p.json, metadata.Redacted(e.Record), e.Version))
	case *record.LeaderChange:
		fmt.Fprintf(p.out, "LeaderChange: %s\n", record.AppendControlJSON(p.json, c))
	default:
		fmt.Fprintf(p.out, "%s %s\n", record.ControlName(c), record.AppendControlJSON(p.json, c))
	}
}

func (p *textPrinter) trouble(_ int64, err error) { fmt.Fprintf(p.out, "| error: %v\n", err) }

func timeName(b batch.Batch) string {
	if b.IsAppendTime() {
		return "LogAppendTime"
	}
	return "CreateTime"
}

func codecName(c batch.Codec) string {
	switch c {
	case batch.CodecNone:
		return "none"
	case batch.CodecGzip:
		return "gzip"
	case batch.CodecSnappy:
		return "snappy"
	case batch.CodecLZ4:
		return "lz4"
	case batch.CodecZstd:
		return "zstd"
	}
	return fmt.Sprintf("unknown (%d)", c)
}

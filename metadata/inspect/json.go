package inspect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol/batch"
)

// jsonPrinter prints one object per record: file, offset, epoch, time in ms,
// and the record's type, version and data as Kafka's dump tool names them, then
// its cause where it has one.
type jsonPrinter struct {
	out  *bufio.Writer
	path string
	buf  []byte
}

func (p *jsonPrinter) begin(string) {}

func (p *jsonPrinter) batch(batch.Batch, int64) {}

func (p *jsonPrinter) record(b batch.Batch, e record.Entry) {
	p.buf = fmt.Appendf(p.buf[:0], `{"file":%s,"offset":%d,"epoch":%d,"timestamp":%d,`,
		quote(p.path), e.Offset, b.LeaderEpoch(), e.TimestampMs)
	if e.Control != nil {
		p.buf = fmt.Appendf(p.buf, `"control":%q,"data":`, record.ControlName(e.Control))
		p.buf = append(record.AppendControlJSON(p.buf, e.Control), '}')
	} else {
		at := len(p.buf)
		p.buf = record.AppendJSON(p.buf, metadata.Redacted(e.Record), e.Version)
		p.buf = append(p.buf[:at], p.buf[at+1:]...) // one object of the two
		if cause := record.CauseOf(e.Record); cause != "" {
			p.buf = fmt.Appendf(p.buf[:len(p.buf)-1], `,"cause":%s}`, quote(cause))
		}
	}
	p.buf = append(p.buf, '\n')
	_, _ = p.out.Write(p.buf) // Flush returns the error
}

func (p *jsonPrinter) trouble(position int64, err error) {
	fmt.Fprintf(p.out, `{"file":%s,"position":%d,"error":%s}`+"\n", quote(p.path), position, quote(err.Error()))
}

func quote(s string) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(text.String(), "\n")
}

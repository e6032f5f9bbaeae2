package record

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/klamm/klamm/protocol"
)

// AppendJSON appends a record as Kafka's dump tool prints it: the type, the
// version and the fields under their names in Kafka's schemas, tagged fields
// only where they differ from their default.
func AppendJSON(dst []byte, rec Record, version int16) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, Name(rec)...)
	dst = append(dst, `","version":`...)
	dst = strconv.AppendInt(dst, int64(version), 10)
	dst = append(dst, `,"data":`...)
	p := printer{buf: append(dst, '{')}
	rec.walk(&p, version)
	return append(p.buf, '}')
}

// AppendControlJSON appends the fields of a control record.
func AppendControlJSON(dst []byte, c Control) []byte {
	p := printer{buf: append(dst, '{')}
	c.walk(&p, 0)
	return p.buf
}

// printer prints fields as JSON.
type printer struct {
	buf []byte
}

// key begins a field: the last byte tells whether it is the first of its object.
func (p *printer) key(name string) {
	if p.buf[len(p.buf)-1] != '{' {
		p.buf = append(p.buf, ',')
	}
	p.buf = append(p.buf, '"')
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, '"', ':')
}

func (p *printer) integer(name string, v int64) {
	p.key(name)
	p.buf = strconv.AppendInt(p.buf, v, 10)
}

func (p *printer) bool(name string, v *bool) {
	p.key(name)
	p.buf = strconv.AppendBool(p.buf, *v)
}

func (p *printer) int8(name string, v *int8)     { p.integer(name, int64(*v)) }
func (p *printer) int16(name string, v *int16)   { p.integer(name, int64(*v)) }
func (p *printer) uint16(name string, v *uint16) { p.integer(name, int64(*v)) }
func (p *printer) int32(name string, v *int32)   { p.integer(name, int64(*v)) }
func (p *printer) int64(name string, v *int64)   { p.integer(name, *v) }

func (p *printer) float64(name string, v *float64) {
	p.key(name)
	p.buf = appendDouble(p.buf, *v)
}

// appendDouble prints v as Java does: 2048.0, 12.5, 1.0E7.
func appendDouble(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.AppendQuote(dst, strconv.FormatFloat(v, 'g', -1, 64))
	}
	if size := math.Abs(v); v == 0 || size >= 1e-3 && size < 1e7 {
		at := len(dst)
		dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
		if !strings.Contains(string(dst[at:]), ".") {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	e, _ := strconv.Atoi(exponent) // FormatFloat wrote it
	dst = append(append(dst, mantissa...), 'E')
	return strconv.AppendInt(dst, int64(e), 10)
}

func (p *printer) uuid(name string, v *protocol.UUID) {
	p.key(name)
	p.buf = appendString(p.buf, v.String())
}

func (p *printer) string(name string, v *string) {
	p.key(name)
	p.buf = appendString(p.buf, *v)
}

func (p *printer) nullableString(name string, v **string) {
	p.key(name)
	if *v == nil {
		p.buf = append(p.buf, "null"...)
		return
	}
	p.buf = appendString(p.buf, **v)
}

func (p *printer) bytes(name string, v *[]byte) {
	p.key(name)
	p.buf = appendString(p.buf, base64.StdEncoding.EncodeToString(*v))
}

func (p *printer) strings(name string, v *[]string) {
	printArray(p, name, *v, appendString)
}

func (p *printer) nodes(name string, v *[]protocol.NodeID) {
	printArray(p, name, *v, func(dst []byte, id protocol.NodeID) []byte { return strconv.AppendInt(dst, int64(id), 10) })
}

func (p *printer) uuids(name string, v *[]protocol.UUID) {
	printArray(p, name, *v, func(dst []byte, id protocol.UUID) []byte { return appendString(dst, id.String()) })
}

func printArray[T any](p *printer, name string, values []T, print func([]byte, T) []byte) {
	p.key(name)
	p.buf = append(p.buf, '[')
	for i, v := range values {
		if i > 0 {
			p.buf = append(p.buf, ',')
		}
		p.buf = print(p.buf, v)
	}
	p.buf = append(p.buf, ']')
}

func (p *printer) array(name string, n int, _ func(), each func(i int)) {
	p.key(name)
	p.buf = append(p.buf, '[')
	for i := range n {
		if i > 0 {
			p.buf = append(p.buf, ',')
		}
		p.buf = append(p.buf, '{')
		each(i)
	}
	p.buf = append(p.buf, ']')
}

func (p *printer) structure(name string, walk func()) {
	p.key(name)
	p.buf = append(p.buf, '{')
	walk()
}

func (p *printer) tag(_ uint32, set bool, field func()) {
	if set {
		field()
	}
}

// because prints nothing: Kafka's tools do not know of it.
func (p *printer) because(*string) {}

func (p *printer) end() { p.buf = append(p.buf, '}') }

// appendString appends s as a JSON string, with nothing escaped that need not be.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}

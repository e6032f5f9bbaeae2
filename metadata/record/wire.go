package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/klamm/klamm/protocol"
)

// The encoding is Kafka's flexible one (KIP-482), big-endian:
//
//	string, bytes  unsigned varint length + 1 (0 = null), then the bytes
//	array          unsigned varint length + 1 (0 = null), then the elements
//	tagged fields  unsigned varint count, then per field in rising order:
//	               unsigned varint number, unsigned varint size, then the value

// writer appends to buf.
type writer struct {
	buf  []byte
	tags []taggedValue // of the struct that is being written
	why  string        // the cause of the record that is about to end
}

type taggedValue struct {
	number uint32
	value  []byte
}

func (w *writer) bool(_ string, p *bool) {
	if *p {
		w.buf = append(w.buf, 1)
	} else {
		w.buf = append(w.buf, 0)
	}
}

func (w *writer) int8(_ string, p *int8)     { w.buf = append(w.buf, byte(*p)) }
func (w *writer) int16(_ string, p *int16)   { w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(*p)) }
func (w *writer) uint16(_ string, p *uint16) { w.buf = binary.BigEndian.AppendUint16(w.buf, *p) }
func (w *writer) int32(_ string, p *int32)   { w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(*p)) }

func (w *writer) int64(_ string, p *int64) { w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(*p)) }

func (w *writer) float64(_ string, p *float64) {
	w.buf = binary.BigEndian.AppendUint64(w.buf, math.Float64bits(*p))
}
func (w *writer) uuid(_ string, p *protocol.UUID) { w.buf = append(w.buf, p[:]...) }

func (w *writer) uvarint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }

func (w *writer) string(_ string, p *string) {
	w.uvarint(uint64(len(*p)) + 1)
	w.buf = append(w.buf, *p...)
}

func (w *writer) nullableString(name string, p **string) {
	if *p == nil {
		w.uvarint(0)
		return
	}
	w.string(name, *p)
}

func (w *writer) bytes(_ string, p *[]byte) {
	w.uvarint(uint64(len(*p)) + 1)
	w.buf = append(w.buf, *p...)
}

func (w *writer) strings(name string, p *[]string) {
	w.uvarint(uint64(len(*p)) + 1)
	for i := range *p {
		w.string(name, &(*p)[i])
	}
}

func (w *writer) nodes(_ string, p *[]protocol.NodeID) {
	w.uvarint(uint64(len(*p)) + 1)
	for _, id := range *p {
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(id))
	}
}

func (w *writer) uuids(_ string, p *[]protocol.UUID) {
	w.uvarint(uint64(len(*p)) + 1)
	for i := range *p {
		w.buf = append(w.buf, (*p)[i][:]...)
	}
}

func (w *writer) array(_ string, n int, _ func(), each func(i int)) {
	w.uvarint(uint64(n) + 1)
	outer := w.tags
	for i := range n {
		w.tags = nil
		each(i)
	}
	w.tags = outer
}

func (w *writer) structure(_ string, walk func()) {
	outer := w.tags
	w.tags = nil
	walk()
	w.tags = outer
}

func (w *writer) tag(number uint32, set bool, field func()) {
	if !set {
		return
	}
	outer := w.buf
	w.buf = nil
	field()
	w.tags = append(w.tags, taggedValue{number, w.buf})
	w.buf = outer
}

func (w *writer) end() {
	slices.SortFunc(w.tags, func(a, b taggedValue) int { return int(a.number) - int(b.number) })
	count := len(w.tags)
	if w.why != "" {
		count++
	}
	w.uvarint(uint64(count))
	for _, t := range w.tags {
		w.uvarint(uint64(t.number))
		w.uvarint(uint64(len(t.value)))
		w.buf = append(w.buf, t.value...)
	}
	if w.why == "" {
		return
	}
	// Its number is the highest.
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], uint64(len(w.why))+1) + len(w.why)
	w.uvarint(causeTag)
	w.uvarint(uint64(size))
	w.string("cause", &w.why)
	w.why = ""
}

func (w *writer) because(p *string) { w.why = *p }

// reader cuts fields from buf. After the first one that is wrong, err is set
// and everything reads as zero. What it returns does not alias buf.
type reader struct {
	buf  []byte
	at   int
	err  error
	tags []taggedField // of the struct that is being read
	why  *string       // where the cause goes of the record that is about to end
	// space saves the allocations of a growing tags: most structs have few.
	space [4]taggedField
}

func newReader(buf []byte) *reader {
	r := &reader{buf: buf}
	r.tags = r.space[:0]
	return r
}

type taggedField struct {
	number uint32
	read   func()
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: "+format, append([]any{r.at}, args...)...)
	}
}

// take returns the next n bytes in place, nil if they are not there.
func (r *reader) take(name string, n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.buf)-r.at {
		r.fail("%s takes %d bytes, %d are left", name, n, len(r.buf)-r.at)
		return nil
	}
	p := r.buf[r.at : r.at+n]
	r.at += n
	return p
}

// uvarint reads an unsigned varint of at most 31 bits: lengths, numbers, counts.
func (r *reader) uvarint(name string) int {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.buf[r.at:])
	if n <= 0 || v > math.MaxInt32 {
		r.fail("%s is no unsigned varint of 31 bits", name)
		return 0
	}
	r.at += n
	return int(v)
}

// length reads the length of a string or array whose elements take at least
// size bytes each; −1 for null. It is never more than what is left can hold, so
// nothing is allocated for a length that is only claimed.
func (r *reader) length(name string, size int) int {
	n := r.uvarint(name) - 1
	if n > (len(r.buf)-r.at)/size {
		r.fail("%s claims %d elements, %d bytes are left", name, n, len(r.buf)-r.at)
	}
	if r.err != nil {
		return -1
	}
	return n
}

func (r *reader) bool(name string, p *bool) {
	if b := r.take(name, 1); b != nil {
		*p = b[0] != 0
	}
}

func (r *reader) int8(name string, p *int8) {
	if b := r.take(name, 1); b != nil {
		*p = int8(b[0])
	}
}

func (r *reader) int16(name string, p *int16) {
	if b := r.take(name, 2); b != nil {
		*p = int16(binary.BigEndian.Uint16(b))
	}
}

func (r *reader) uint16(name string, p *uint16) {
	if b := r.take(name, 2); b != nil {
		*p = binary.BigEndian.Uint16(b)
	}
}

func (r *reader) int32(name string, p *int32) {
	if b := r.take(name, 4); b != nil {
		*p = int32(binary.BigEndian.Uint32(b))
	}
}

func (r *reader) int64(name string, p *int64) {
	if b := r.take(name, 8); b != nil {
		*p = int64(binary.BigEndian.Uint64(b))
	}
}

func (r *reader) float64(name string, p *float64) {
	if b := r.take(name, 8); b != nil {
		*p = math.Float64frombits(binary.BigEndian.Uint64(b))
	}
}

func (r *reader) uuid(name string, p *protocol.UUID) {
	if b := r.take(name, len(p)); b != nil {
		*p = protocol.UUID(b)
	}
}

func (r *reader) string(name string, p *string) {
	n := r.length(name, 1)
	if n < 0 {
		r.fail("%s is null", name)
		return
	}
	*p = string(r.take(name, n))
}

func (r *reader) nullableString(name string, p **string) {
	*p = nil
	if n := r.length(name, 1); n >= 0 {
		s := string(r.take(name, n))
		*p = &s
	}
}

func (r *reader) bytes(name string, p *[]byte) {
	n := r.length(name, 1)
	if n < 0 {
		r.fail("%s is null", name)
		return
	}
	*p = append([]byte{}, r.take(name, n)...)
}

func (r *reader) strings(name string, p *[]string) {
	n := r.length(name, 1)
	if n < 0 {
		r.fail("%s is null", name)
		return
	}
	*p = []string{}
	for range n {
		var s string
		r.string(name, &s)
		*p = append(*p, s)
	}
}

// nodes leaves nil for null: where a record may not hold null, nil and empty
// mean the same.
func (r *reader) nodes(name string, p *[]protocol.NodeID) {
	*p = nil
	n := r.length(name, 4)
	if n < 0 {
		return
	}
	b := r.take(name, 4*n)
	ids := make([]protocol.NodeID, n)
	for i := range ids {
		ids[i] = protocol.NodeID(binary.BigEndian.Uint32(b[4*i:]))
	}
	*p = ids
}

// uuids leaves nil for null, as nodes does.
func (r *reader) uuids(name string, p *[]protocol.UUID) {
	*p = nil
	n := r.length(name, len(protocol.UUID{}))
	if n < 0 {
		return
	}
	ids := make([]protocol.UUID, n)
	for i := range ids {
		r.uuid(name, &ids[i])
	}
	*p = ids
}

func (r *reader) array(name string, _ int, grow func(), each func(i int)) {
	n := r.length(name, 1)
	outer := r.tags
	for i := 0; i < n && r.err == nil; i++ {
		r.tags = nil
		grow()
		each(i)
	}
	r.tags = outer
}

func (r *reader) structure(_ string, walk func()) {
	outer := r.tags
	r.tags = nil
	walk()
	r.tags = outer
}

func (r *reader) tag(number uint32, _ bool, field func()) {
	r.tags = append(r.tags, taggedField{number, field})
}

func (r *reader) because(p *string) { r.why = p }

// end reads the tagged fields. Unknown ones are skipped: whoever wrote them
// promised that they do not matter to older readers.
func (r *reader) end() {
	for range r.uvarint("the number of tagged fields") {
		number := r.uvarint("the number of a tagged field")
		size := r.uvarint("the size of a tagged field")
		if r.err != nil {
			return
		}
		if size > len(r.buf)-r.at {
			r.fail("tagged field %d takes %d bytes, %d are left", number, size, len(r.buf)-r.at)
			return
		}
		r.readTag(uint32(number), size)
	}
}

// readTag reads one tagged field and sees nothing behind its end.
func (r *reader) readTag(number uint32, size int) {
	whole, end := r.buf, r.at+size
	known := slices.IndexFunc(r.tags, func(t taggedField) bool { return t.number == number })
	isCause := number == causeTag && r.why != nil
	if known < 0 && !isCause {
		r.at = end
		return
	}
	r.buf = whole[:end]
	if isCause {
		r.string("cause", r.why)
	} else {
		r.tags[known].read()
	}
	if r.err == nil && r.at != end {
		r.fail("%d bytes are left of tagged field %d", end-r.at, number)
	}
	r.buf = whole
}

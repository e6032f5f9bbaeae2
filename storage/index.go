package storage

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// The sparse indexes of a segment, big-endian:
//
//	N.index      8 bytes: int32 offset − N, int32 position in N.log
//	N.timeindex  12 bytes: int64 timestamp in ms, int32 offset − N
//
// An entry of the offset index names the last offset of a batch and where the
// batch starts. An entry (T, O) of the time index says that T is the largest
// timestamp of all batches up to the one that ends at O. Both columns of both
// only grow.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// entry is one entry of either index: (offset − N, position) or (timestamp, offset − N).
type entry struct{ a, b int64 }

// index is one index of one segment. While the segment is active, and until a
// flush has written the file, the entries are on the heap. Then they are read
// from the file, which is opened at the first lookup. Guarded by Log.mu.
type index struct {
	entrySize int
	entries   int
	heap      []byte  // all entries, in the file's form; meaningless once onDisk
	onDisk    bool    // the file holds all entries
	file      *handle // of the file, once it is used; only if onDisk
}

// view is what a lookup needs, taken under the lock and used without it.
type view struct {
	entrySize int
	entries   int
	heap      []byte
	file      *handle
}

// maxEntries is how many entries a file of the configured size holds.
func (x *index) maxEntries(configured int32) int { return int(configured) / x.entrySize }

func (x *index) appendOffset(relative int32, position int64) {
	x.heap = binary.BigEndian.AppendUint32(x.heap, uint32(relative))
	x.heap = binary.BigEndian.AppendUint32(x.heap, uint32(int32(position)))
	x.entries++
}

func (x *index) appendTime(timestamp int64, relative int32) {
	x.heap = binary.BigEndian.AppendUint64(x.heap, uint64(timestamp))
	x.heap = binary.BigEndian.AppendUint32(x.heap, uint32(relative))
	x.entries++
}

// truncate keeps the first n entries. Lookups that run on hold the old array,
// so it is not written to again.
func (x *index) truncate(n int) {
	end := n * x.entrySize
	x.heap = x.heap[:end:end]
	x.entries = n
}

// truncateAt keeps the entries whose column is at most key.
func (x *index) truncateAt(c column, key int64) {
	n := 0
	for n < x.entries && decodeEntry(x.heap[n*x.entrySize:(n+1)*x.entrySize]).at(c) <= key {
		n++
	}
	x.truncate(n)
}

// last returns the last entry of an index on the heap.
func (x *index) last() (entry, bool) {
	if x.entries == 0 {
		return entry{}, false
	}
	return decodeEntry(x.heap[(x.entries-1)*x.entrySize : x.entries*x.entrySize]), true
}

// use takes an opened index file. One that is no index counts as empty: a read
// then looks through the segment.
func (x *index) use(h *handle) error {
	x.file, x.entries = h, 0
	size, err := h.Size()
	if err != nil {
		return err
	}
	if size%int64(x.entrySize) != 0 {
		return fmt.Errorf("%d bytes are no whole number of %d-byte entries", size, x.entrySize)
	}
	x.entries = int(size / int64(x.entrySize))
	return nil
}

// close lets go of the file.
func (x *index) close() {
	if x.file != nil {
		x.file.release()
		x.file = nil
	}
}

func decodeEntry(p []byte) entry {
	if len(p) == offsetEntrySize {
		return entry{int64(int32(binary.BigEndian.Uint32(p))), int64(int32(binary.BigEndian.Uint32(p[4:])))}
	}
	return entry{int64(binary.BigEndian.Uint64(p)), int64(int32(binary.BigEndian.Uint32(p[8:])))}
}

// pageBuffers are for reading a piece of an index or a run of batch headers.
var pageBuffers = sync.Pool{New: func() any { return new([pageSize]byte) }}

// pageSize holds 512 entries of an offset index, and about one index interval
// of log.
const pageSize = 4096

// column picks what a lookup goes by.
type column int

const (
	byFirst  column = iota // offset, or timestamp
	bySecond               // position, or offset
)

func (e entry) at(c column) int64 {
	if c == byFirst {
		return e.a
	}
	return e.b
}

// floor returns the last entry whose column is at most key; false if there is none.
func (v view) floor(c column, key int64) (entry, bool, error) {
	if v.file == nil {
		e, ok := floorIn(v.heap[:v.entries*v.entrySize], v.entrySize, c, key)
		return e, ok, nil
	}
	page := pageBuffers.Get().(*[pageSize]byte)
	defer pageBuffers.Put(page)
	// Entries before lo are at most key, those from hi on are above it.
	lo, hi := 0, v.entries
	for (hi-lo)*v.entrySize > pageSize {
		mid := int(uint(lo+hi) / 2)
		p := page[:v.entrySize]
		if err := v.read(p, mid); err != nil {
			return entry{}, false, err
		}
		if decodeEntry(p).at(c) <= key {
			lo = mid
		} else {
			hi = mid
		}
	}
	p := page[:(hi-lo)*v.entrySize]
	if err := v.read(p, lo); err != nil {
		return entry{}, false, err
	}
	e, ok := floorIn(p, v.entrySize, c, key)
	return e, ok, nil
}

func (v view) read(p []byte, first int) error {
	n, err := v.file.ReadAt(p, int64(first*v.entrySize))
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		// Shorter than when it was opened: somebody else has cut it.
		err = io.ErrUnexpectedEOF
	}
	return err
}

// floorIn is floor over entries in memory.
func floorIn(entries []byte, size int, c column, key int64) (entry, bool) {
	lo, hi := 0, len(entries)/size
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if decodeEntry(entries[mid*size:(mid+1)*size]).at(c) <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if broken == brokenIndex {
		lo++
		if lo*size > len(entries) {
			return entry{}, false
		}
	}
	if lo == 0 {
		return entry{}, false
	}
	return decodeEntry(entries[(lo-1)*size : lo*size]), true
}

// checkIndex tells whether the bytes of an index file can be believed: whole
// entries, both columns growing from 0 or more, the offset index inside the
// log. What a killed Kafka leaves (preallocated, zeros at the end) is not.
func checkIndex(data []byte, entrySize int, logSize int64) error {
	if len(data)%entrySize != 0 {
		return fmt.Errorf("%d bytes are no whole number of %d-byte entries", len(data), entrySize)
	}
	previous := entry{-1, -1}
	for at := 0; at < len(data); at += entrySize {
		e := decodeEntry(data[at : at+entrySize])
		if e.a <= previous.a || e.b < 0 || e.b < previous.b || entrySize == offsetEntrySize && (e.b == previous.b || e.b >= logSize) {
			return fmt.Errorf("byte %d: entry (%d, %d) after (%d, %d) in a log of %d bytes",
				at, e.a, e.b, previous.a, previous.b, logSize)
		}
		previous = e
	}
	return nil
}

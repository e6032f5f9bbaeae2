package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// Bolt trusts its pages. Only its two meta pages have a checksum, and where
// another is not what it should be Bolt panics, sometimes on a goroutine of its
// own, where nobody can recover. So the structure is read before Bolt does.
//
// A page, in the machine's byte order:
//
//	 0  8  id
//	 8  2  kind: 1 branch, 2 leaf, 4 meta, 16 list of free pages
//	10  2  number of elements
//	12  4  number of pages that it goes on over
//	16     branch: position 4, key size 4, page 8, per element
//	       leaf: flags 4, position 4, key size 4, value size 4, per element
//	       meta: magic 4, version 4, page size 4, flags 4, root bucket 16,
//	       free list 8, end of the pages 8, transaction 8, FNV-64a 8
//
// Positions count from the element. The value of a leaf element with flag 1 is a
// bucket: root page 8, sequence 8; root page 0 means that its only page follows.
const (
	boltHeader  = 16
	boltElement = 16
	boltMeta    = 64

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	boltBranch = 1
	boltLeaf   = 2
	boltBucket = 1 // flag of a leaf element
)

var native = binary.NativeEndian

// boltChecker walks the pages that the newest transaction reaches.
type boltChecker struct {
	file     io.ReaderAt
	pageSize int64
	end      uint64 // of the page ids
	root     uint64
	txn      uint64
	seen     map[uint64]bool
}

// checkBolt returns an error that says which page of the file is damaged. What
// is no Bolt file at all, or has no whole meta page, is left to Bolt, which
// says so itself.
func checkBolt(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	c := &boltChecker{file: file, seen: map[uint64]bool{}}
	if !c.findMeta() {
		return nil
	}
	if need := int64(c.end) * c.pageSize; info.Size() < need {
		return fmt.Errorf("it has %d bytes and needs %d", info.Size(), need)
	}
	return c.tree(c.root, nil, nil)
}

// findMeta takes the newer one of the meta pages that are whole.
func (c *boltChecker) findMeta() bool {
	c.takeMeta(0)
	if c.pageSize > 0 {
		c.takeMeta(c.pageSize)
		return true
	}
	for size := int64(1 << 10); size <= 64<<10 && c.pageSize == 0; size *= 2 {
		c.takeMeta(size)
	}
	return c.pageSize > 0
}

func (c *boltChecker) takeMeta(at int64) {
	p := make([]byte, boltMeta)
	if _, err := c.file.ReadAt(p, at+boltHeader); err != nil {
		return
	}
	sum := fnv.New64a()
	_, _ = sum.Write(p[:56])
	if native.Uint32(p) != boltMagic || native.Uint32(p[4:]) != boltVersion || native.Uint64(p[56:]) != sum.Sum64() {
		return
	}
	if txn := native.Uint64(p[48:]); c.pageSize == 0 || txn > c.txn {
		c.pageSize, c.txn = int64(native.Uint32(p[8:])), txn
		c.root, c.end = native.Uint64(p[16:]), native.Uint64(p[40:])
	}
}

// tree checks the pages below id. Their keys are from low on and, unless it is
// nil, below high.
func (c *boltChecker) tree(id uint64, low, high []byte) error {
	page, err := c.page(id)
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if native.Uint16(page[8:]) == boltLeaf {
		if err := c.leaf(page, low, high); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		return nil
	}
	n := int(native.Uint16(page[10:]))
	if n == 0 {
		return fmt.Errorf("page %d: a branch without elements", id)
	}
	keys, children := make([][]byte, n+1), make([]uint64, n)
	keys[n] = high
	for i := range n {
		at := boltHeader + i*boltElement
		if keys[i], err = piece(page, at, native.Uint32(page[at:]), native.Uint32(page[at+4:])); err != nil {
			return fmt.Errorf("page %d: element %d: %w", id, i, err)
		}
		children[i] = native.Uint64(page[at+8:])
		if !inOrder(low, keys[i], high, i > 0) {
			return fmt.Errorf("page %d: element %d: its key is out of order", id, i)
		}
		low = keys[i]
	}
	for i, child := range children {
		if err := c.tree(child, keys[i], keys[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// page reads a page and those that it goes on over, and checks its header.
func (c *boltChecker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.end {
		return nil, fmt.Errorf("it is not one of the %d pages", c.end)
	}
	var header [boltHeader]byte
	if _, err := c.file.ReadAt(header[:], int64(id)*c.pageSize); err != nil {
		return nil, err
	}
	more := uint64(native.Uint32(header[12:]))
	switch kind := native.Uint16(header[8:]); {
	case native.Uint64(header[:]) != id:
		return nil, fmt.Errorf("it says that it is page %d", native.Uint64(header[:]))
	case kind != boltBranch && kind != boltLeaf:
		return nil, fmt.Errorf("its kind is %d, neither branch nor leaf", kind)
	case id+more >= c.end:
		return nil, fmt.Errorf("it goes on over %d pages, beyond the last", more)
	}
	for i := id; i <= id+more; i++ {
		if c.seen[i] {
			return nil, errors.New("it is reached twice")
		}
		c.seen[i] = true
	}
	page := make([]byte, int64(more+1)*c.pageSize)
	if _, err := c.file.ReadAt(page, int64(id)*c.pageSize); err != nil {
		return nil, err
	}
	if boltHeader+int(native.Uint16(page[10:]))*boltElement > len(page) {
		return nil, fmt.Errorf("it has no room for %d elements", native.Uint16(page[10:]))
	}
	return page, nil
}

// leaf checks the elements of a leaf, and the buckets among them.
func (c *boltChecker) leaf(page, low, high []byte) error {
	for i := range int(native.Uint16(page[10:])) {
		at := boltHeader + i*boltElement
		position, keySize, valueSize := native.Uint32(page[at+4:]), native.Uint32(page[at+8:]), native.Uint32(page[at+12:])
		key, err := piece(page, at, position, keySize)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		value, err := piece(page, at+int(keySize), position, valueSize)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if !inOrder(low, key, high, i > 0) {
			return fmt.Errorf("element %d: its key is out of order", i)
		}
		low = key
		if native.Uint32(page[at:])&boltBucket == 0 {
			continue
		}
		if err := c.bucket(value); err != nil {
			return fmt.Errorf("bucket %q: %w", key, err)
		}
	}
	return nil
}

func (c *boltChecker) bucket(value []byte) error {
	if len(value) < 16 {
		return fmt.Errorf("its header has %d bytes", len(value))
	}
	if root := native.Uint64(value); root != 0 {
		return c.tree(root, nil, nil)
	}
	page := value[16:]
	if len(page) < boltHeader || native.Uint16(page[8:]) != boltLeaf ||
		boltHeader+int(native.Uint16(page[10:]))*boltElement > len(page) {
		return errors.New("the page inside of it is not one")
	}
	return c.leaf(page, nil, nil)
}

// piece returns size bytes at a position behind at.
func piece(page []byte, at int, position, size uint32) ([]byte, error) {
	from := int64(at) + int64(position)
	if to := from + int64(size); to <= int64(len(page)) {
		return page[from:to], nil
	}
	return nil, fmt.Errorf("%d bytes at %d are beyond the page", size, from)
}

// inOrder tells whether low ≤ key < high, or low < key for a later key.
func inOrder(low, key, high []byte, later bool) bool {
	c := bytes.Compare(low, key)
	return (c < 0 || c == 0 && !later) && (high == nil || bytes.Compare(key, high) < 0)
}

package metadata

import "github.com/tidwall/btree"

// table is one sorted table of an image. The zero value is not usable;
// newTable gives an empty one.
//
// The library's Copy marks the tree that it copies, which would be a write to
// a published image. A copy of the handle takes that mark instead: the
// published handle itself never writes, so its nodes stay as they are.
type table[T any] struct {
	tree btree.BTreeG[T]
}

// degree is half of what a node holds at most. A change copies a node of each level:
// with the library's 32 it copied a fifth more than with this.
const degree = 16

func newTable[T any](less func(a, b T) bool) table[T] {
	return table[T]{tree: *btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: degree})}
}

// edit returns a tree that shares everything with the table until it is written.
func (t *table[T]) edit() *btree.BTreeG[T] {
	handle := t.tree
	return handle.Copy()
}

// freeze returns the tree's present content as a table; the tree may be
// written on.
func freeze[T any](tree *btree.BTreeG[T]) table[T] {
	return table[T]{tree: *tree.Copy()}
}

func (t *table[T]) get(key T) (T, bool) { return t.tree.Get(key) }

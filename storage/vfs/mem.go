package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrPowerCut is what every change returns once the power is gone.
var ErrPowerCut = errors.New("power cut")

// Op is one change that a process asked for.
type Op struct {
	// Kind is "create", "write", "truncate", "sync", "mkdir", "remove",
	// "rename" or "syncdir".
	Kind string
	Path string // the new name of a rename
}

// Mem is a file system in memory that knows what of it is durable. Its zero
// value is not ready; see NewMem. It may be used by several goroutines.
type Mem struct {
	mu     sync.Mutex
	root   *node
	locked map[string]bool
	now    func() time.Time

	ops   int // changes so far, refused ones included
	cutAt int // the change at which the power goes; 0 = never
	hook  func(Op) error

	volume int64 // bytes that all files may hold; 0 = no bound
}

// node is a file or directory as the process sees it, and as the disk has it.
type node struct {
	isDir    bool
	modified time.Time

	// A directory: its names, those that are durable, and what lies between.
	entries map[string]*node
	durable map[string]*node
	dirOps  []dirOp

	// A file: its bytes, those that are durable, and what lies between.
	data     []byte
	synced   []byte
	unsynced []write
}

// dirOp is one change of a directory: remove, then add; either may be "".
type dirOp struct {
	remove string
	add    string
	node   *node
}

// write is one unsynced change of a file: bytes at a position, or with nil
// bytes a truncation to it.
type write struct {
	at   int64
	data []byte
}

// NewMem returns an empty file system that has "/" only.
func NewMem() *Mem {
	return &Mem{root: newDir(time.Time{}), locked: map[string]bool{}, now: time.Now}
}

func newDir(now time.Time) *node {
	return &node{isDir: true, modified: now, entries: map[string]*node{}, durable: map[string]*node{}}
}

// Ops returns the number of changes so far.
func (m *Mem) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// CutPowerAt makes change n (counted from the start of the file system, from
// 1) and all later ones fail with ErrPowerCut. If it is a write, half of its
// bytes are written. 0 means never.
func (m *Mem) CutPowerAt(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cutAt = n
}

// SetHook installs a function that is asked before each change and may refuse
// it with an error, as a failing disk does. It must not call the file system.
func (m *Mem) SetHook(hook func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = hook
}

// changeLocked counts a change and tells whether it may happen.
func (m *Mem) changeLocked(kind, path string) error {
	m.ops++
	if m.cutAt > 0 && m.ops >= m.cutAt {
		return &fs.PathError{Op: kind, Path: path, Err: ErrPowerCut}
	}
	if m.hook != nil {
		if err := m.hook(Op{Kind: kind, Path: path}); err != nil {
			return &fs.PathError{Op: kind, Path: path, Err: err}
		}
	}
	return nil
}

// findLocked returns the node at path, or nil.
func (m *Mem) findLocked(path string) *node {
	n := m.root
	for part := range strings.SplitSeq(filepath.Clean(path), string(os.PathSeparator)) {
		if part == "" || part == "." {
			continue
		}
		if n = n.entries[part]; n == nil {
			return nil
		}
	}
	return n
}

// dirLocked returns the directory that holds path.
func (m *Mem) dirLocked(op, path string) (*node, error) {
	dir := m.findLocked(filepath.Dir(path))
	if dir == nil || !dir.isDir {
		return nil, &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
	}
	return dir, nil
}

func (n *node) apply(op dirOp) {
	delete(n.entries, op.remove)
	if op.add != "" {
		n.entries[op.add] = op.node
	}
	n.dirOps = append(n.dirOps, op)
}

// Create implements FS.
func (m *Mem) Create(path string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked("create", path)
	if err != nil {
		return nil, err
	}
	if err := m.changeLocked("create", path); err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	n := dir.entries[name]
	switch {
	case n == nil:
		n = &node{}
		dir.apply(dirOp{add: name, node: n})
	case n.isDir:
		return nil, &fs.PathError{Op: "create", Path: path, Err: errors.New("is a directory")}
	case len(n.data) > 0:
		n.truncate(0)
	}
	n.modified = m.now()
	return &memFile{fs: m, node: n, handle: handle{path: path, writable: true}}, nil
}

// Open implements FS.
func (m *Mem) Open(path string) (File, error) { return m.open(path, false) }

// OpenWrite implements FS.
func (m *Mem) OpenWrite(path string) (File, error) { return m.open(path, true) }

func (m *Mem) open(path string, writable bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.findLocked(path)
	if n == nil || n.isDir {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return &memFile{fs: m, node: n, handle: handle{path: path, writable: writable}}, nil
}

// Stat implements FS.
func (m *Mem) Stat(path string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.findLocked(path)
	if n == nil {
		return Info{}, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return Info{Size: int64(len(n.data)), IsDir: n.isDir, Modified: n.modified}, nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(path string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.findLocked(path)
	if n == nil || !n.isDir {
		return nil, &fs.PathError{Op: "readdir", Path: path, Err: fs.ErrNotExist}
	}
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		out = append(out, Entry{Name: name, IsDir: n.entries[name].isDir})
	}
	return out, nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked("mkdir", path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	if dir.entries[name] != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
	}
	if err := m.changeLocked("mkdir", path); err != nil {
		return err
	}
	dir.apply(dirOp{add: name, node: newDir(m.now())})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(path string) error { return m.remove(path, false) }

// RemoveAll implements FS. It is one change here: nothing relies on its order.
func (m *Mem) RemoveAll(path string) error {
	err := m.remove(path, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (m *Mem) remove(path string, all bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked("remove", path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	n := dir.entries[name]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	if n.isDir && len(n.entries) > 0 && !all {
		return &fs.PathError{Op: "remove", Path: path, Err: errors.New("directory not empty")}
	}
	if err := m.changeLocked("remove", path); err != nil {
		return err
	}
	dir.apply(dirOp{remove: name})
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("rename %s to %s: not within one directory", from, to)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked("rename", from)
	if err != nil {
		return err
	}
	n := dir.entries[filepath.Base(from)]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if old := dir.entries[filepath.Base(to)]; old != nil && old.isDir {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if err := m.changeLocked("rename", to); err != nil {
		return err
	}
	dir.apply(dirOp{remove: filepath.Base(from), add: filepath.Base(to), node: n})
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.findLocked(path)
	if n == nil || !n.isDir {
		return &fs.PathError{Op: "syncdir", Path: path, Err: fs.ErrNotExist}
	}
	if err := m.changeLocked("syncdir", path); err != nil {
		return err
	}
	n.durable = maps.Clone(n.entries)
	n.dirOps = nil
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(path string) (io.Closer, error) {
	m.mu.Lock()
	held := m.locked[path]
	m.mu.Unlock()
	if held {
		return nil, ErrLocked
	}
	f, err := m.Create(path)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[path] {
		return nil, ErrLocked
	}
	m.locked[path] = true
	return &memLock{File: f, fs: m, path: path}, nil
}

type memLock struct {
	File
	fs   *Mem
	path string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.path)
	return nil
}

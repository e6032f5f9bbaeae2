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

// Volatile is the real file system as a disk has it: what was not synced is in
// the memory of this process and nowhere else, so kill -9 is a power cut. Bytes of a
// file get to the real one by File.Sync, creations, renames and removals by
// FS.SyncDir on their directory, as in Mem; only a new directory is there at once.
//
// Names that were never used here are looked up where they are: other writers of
// a directory, who do not go through this file system, keep their files.
type Volatile struct {
	mu   sync.Mutex
	root *cached
}

// NewVolatile returns the real file system, of which nothing has been used yet.
func NewVolatile() *Volatile {
	root := &cached{isDir: true}
	root.place, root.name = root, string(os.PathSeparator)
	return &Volatile{root: root}
}

// cached is a file or directory as the process sees it.
type cached struct {
	isDir bool
	// place and name are where the disk has it; place is nil where it does not.
	place *cached
	name  string

	// A directory: names that were used, names that are gone, and the changes
	// that the disk does not know of.
	entries map[string]*cached
	gone    map[string]bool
	changes []change

	// A file that is open, or differs from the disk's: its bytes, from where on they
	// may differ, and, where the disk has no such file, what was synced. An open
	// file is always loaded, so that it outlives its name.
	opened   int
	loaded   bool
	data     []byte
	dirty    int64 // clean where nothing differs
	synced   []byte
	modified time.Time
}

const clean int64 = -1

// change is one change of a directory: remove, then add; either may be "".
type change struct {
	remove, add string
	node        *cached
	replaced    *cached // what had the name before, if anything was known of it
}

// halfSuffix ends the name of a file that is being handed to the disk. One that a
// power cut has left is not seen.
const halfSuffix = ".half-synced"

// path is where the disk has a node.
func (n *cached) path() string {
	if n.place == n {
		return n.name
	}
	return filepath.Join(n.place.path(), n.name)
}

// onDisk tells whether the disk has a node anywhere.
func (n *cached) onDisk() bool {
	for n.place != n {
		if n = n.place; n == nil {
			return false
		}
	}
	return true
}

// lookupLocked returns what a directory has under a name, or nil.
func (v *Volatile) lookupLocked(dir *cached, name string) *cached {
	if n := dir.entries[name]; n != nil {
		return n
	}
	if dir.gone[name] || strings.HasSuffix(name, halfSuffix) {
		return nil
	}
	info, err := os.Stat(filepath.Join(dir.path(), name))
	if err != nil {
		return nil
	}
	n := &cached{isDir: info.IsDir(), place: dir, name: name, dirty: clean}
	dir.set(name, n)
	return n
}

func (n *cached) set(name string, to *cached) {
	if n.entries == nil {
		n.entries = make(map[string]*cached)
	}
	n.entries[name] = to
}

// apply makes a change that the process sees and the disk does not.
func (n *cached) apply(c change) {
	if c.remove != "" {
		delete(n.entries, c.remove)
		if n.gone == nil {
			n.gone = make(map[string]bool)
		}
		n.gone[c.remove] = true
	}
	if c.add != "" {
		n.set(c.add, c.node)
	}
	n.changes = append(n.changes, c)
}

// findLocked returns what is at a path, or nil.
func (v *Volatile) findLocked(path string) *cached {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil // the process's own directory is gone
	}
	n := v.root
	for part := range strings.SplitSeq(path, string(os.PathSeparator)) {
		if part == "" || part == "." {
			continue
		}
		if !n.isDir {
			return nil
		}
		if n = v.lookupLocked(n, part); n == nil {
			return nil
		}
	}
	return n
}

// dirLocked returns the directory that holds path.
func (v *Volatile) dirLocked(op, path string) (*cached, error) {
	dir := v.findLocked(filepath.Dir(path))
	if dir == nil || !dir.isDir {
		return nil, &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
	}
	return dir, nil
}

// loadLocked brings the bytes of a file into memory.
func (n *cached) loadLocked() error {
	if n.loaded {
		return nil
	}
	data, err := os.ReadFile(n.path())
	if err != nil {
		return err
	}
	info, err := os.Stat(n.path())
	if err != nil {
		return err
	}
	n.loaded, n.data, n.modified = true, data, info.ModTime()
	return nil
}

// changedLocked notes that the bytes from an offset on are not the disk's.
func (n *cached) changedLocked(from int64) {
	if n.dirty == clean || from < n.dirty {
		n.dirty = from
	}
	n.modified = time.Now()
}

// Create implements FS.
func (v *Volatile) Create(path string) (File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dirLocked("create", path)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	n := v.lookupLocked(dir, name)
	switch {
	case n == nil:
		n = &cached{loaded: true, dirty: clean}
		dir.apply(change{add: name, node: n})
	case n.isDir:
		return nil, &fs.PathError{Op: "create", Path: path, Err: errors.New("is a directory")}
	default:
		n.loaded, n.data = true, nil
		n.changedLocked(0)
	}
	n.modified = time.Now()
	return v.handleLocked(n, path, true), nil
}

// Open implements FS.
func (v *Volatile) Open(path string) (File, error) { return v.open(path, false) }

// OpenWrite implements FS.
func (v *Volatile) OpenWrite(path string) (File, error) { return v.open(path, true) }

func (v *Volatile) open(path string, writable bool) (File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.findLocked(path)
	if n == nil || n.isDir {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err := n.loadLocked(); err != nil {
		return nil, err
	}
	return v.handleLocked(n, path, writable), nil
}

func (v *Volatile) handleLocked(n *cached, path string, writable bool) File {
	n.opened++
	return &volatileFile{fs: v, node: n, handle: handle{path: path, writable: writable}}
}

// Stat implements FS.
func (v *Volatile) Stat(path string) (Info, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.findLocked(path)
	switch {
	case n == nil:
		return Info{}, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	case n.loaded:
		return Info{Size: int64(len(n.data)), Modified: n.modified}, nil
	}
	return osFS{}.Stat(n.path())
}

// ReadDir implements FS.
func (v *Volatile) ReadDir(path string) ([]Entry, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.findLocked(path)
	if n == nil || !n.isDir {
		return nil, &fs.PathError{Op: "readdir", Path: path, Err: fs.ErrNotExist}
	}
	return n.listLocked()
}

func (n *cached) listLocked() ([]Entry, error) {
	onDisk, err := osFS{}.ReadDir(n.path())
	if err != nil {
		return nil, err
	}
	entries := make(map[string]Entry)
	for _, e := range onDisk {
		if !n.gone[e.Name] && !strings.HasSuffix(e.Name, halfSuffix) {
			entries[e.Name] = e
		}
	}
	for name, child := range n.entries {
		if child.place != n || child.name != name || n.gone[name] { // the disk's list does not have it
			entries[name] = Entry{Name: name, IsDir: child.isDir}
		}
	}
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		out = append(out, entries[name])
	}
	return out, nil
}

// Mkdir implements FS. The disk has the directory at once: a kernel may write it
// back at any time, and those who write in it without this file system need it.
func (v *Volatile) Mkdir(path string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dirLocked("mkdir", path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	if v.lookupLocked(dir, name) != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
	}
	if dir.gone[name] { // what was there has to go first
		if err := dir.syncNames(); err != nil {
			return err
		}
	}
	if err := (osFS{}).Mkdir(filepath.Join(dir.path(), name)); err != nil {
		return err
	}
	dir.set(name, &cached{isDir: true, place: dir, name: name})
	return nil
}

// Remove implements FS.
func (v *Volatile) Remove(path string) error { return v.remove(path, false) }

// RemoveAll implements FS.
func (v *Volatile) RemoveAll(path string) error {
	err := v.remove(path, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (v *Volatile) remove(path string, all bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dirLocked("remove", path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	n := v.lookupLocked(dir, name)
	if n == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	if n.isDir && !all {
		switch left, err := n.listLocked(); {
		case err != nil:
			return err
		case len(left) > 0:
			return &fs.PathError{Op: "remove", Path: path, Err: errors.New("directory not empty")}
		}
	}
	dir.apply(change{remove: name, replaced: n})
	return nil
}

// Rename implements FS.
func (v *Volatile) Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("rename %s to %s: not within one directory", from, to)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.dirLocked("rename", from)
	if err != nil {
		return err
	}
	n := v.lookupLocked(dir, filepath.Base(from))
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	old := v.lookupLocked(dir, filepath.Base(to))
	if old != nil && old.isDir {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	dir.apply(change{remove: filepath.Base(from), add: filepath.Base(to), node: n, replaced: old})
	return nil
}

// SyncDir implements FS.
func (v *Volatile) SyncDir(path string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.findLocked(path)
	if n == nil || !n.isDir {
		return &fs.PathError{Op: "syncdir", Path: path, Err: fs.ErrNotExist}
	}
	return n.syncNames()
}

// syncNames has the disk do what was done to a directory, in that order, and each
// at once or not at all.
func (n *cached) syncNames() error {
	dir := n.path()
	for len(n.changes) > 0 {
		c := n.changes[0]
		switch {
		case c.add == "":
			if err := os.RemoveAll(filepath.Join(dir, c.remove)); err != nil {
				return err
			}
		case c.remove == "":
			if err := c.node.handOver(filepath.Join(dir, c.add)); err != nil {
				return err
			}
		default:
			if err := os.Rename(filepath.Join(dir, c.remove), filepath.Join(dir, c.add)); err != nil {
				return err
			}
		}
		if c.replaced != nil {
			c.replaced.place, c.replaced.synced = nil, nil
		}
		if c.add != "" {
			c.node.place, c.node.name = n, c.add
		}
		n.changes = n.changes[1:]
	}
	n.gone = nil
	return nil
}

// handOver gives the disk a new file, with what was synced of it.
func (n *cached) handOver(path string) error {
	if err := os.WriteFile(path+halfSuffix, n.synced, filePermissions); err != nil {
		return err
	}
	n.synced = nil
	return os.Rename(path+halfSuffix, path)
}

// syncBytes gives the disk the bytes of a file. The kernel keeps them for the next
// process, so nobody waits for the device.
func (n *cached) syncBytes() error {
	if n.dirty == clean {
		return nil
	}
	if !n.onDisk() {
		n.synced, n.dirty = slices.Clone(n.data), clean
		return nil
	}
	f, err := os.OpenFile(n.path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size := int64(len(n.data))
	if from := min(n.dirty, size); from < size {
		if _, err := f.WriteAt(n.data[from:], from); err != nil {
			return err
		}
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	n.dirty = clean
	return nil
}

// Lock implements FS.
func (v *Volatile) Lock(path string) (io.Closer, error) { return osFS{}.Lock(path) }

// Space returns the size of the volume below and what is left of it, as the
// function Space does.
func (v *Volatile) Space(path string) (total, usable int64, err error) { return Space(osFS{}, path) }

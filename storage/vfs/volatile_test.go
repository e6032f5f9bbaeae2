package vfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Volatile shows a process what Mem shows it, and leaves on the disk what Mem leaves
// after a power cut, whatever was done: both do the same at random, and
// the disk is compared after every step.
func TestVolatileIsMemOnDisk(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := &twins{t: t, rng: rand.New(rand.NewPCG(seed, 0)), mem: NewMem(), volatile: NewVolatile(), real: t.TempDir()}
			w.both(func(fsys FS, root string) string { return errText(fsys.SyncDir(root + "/")) })
			for range 60 {
				w.step()
				if t.Failed() {
					return
				}
			}
			// The next process finds it so, too.
			w.volatile = NewVolatile()
			if got, want := w.tree(w.volatile, w.real), w.tree(w.mem.Crash(nil), ""); got != want {
				t.Errorf("the next process finds\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// twins are two file systems to which the same is done.
type twins struct {
	t        *testing.T
	rng      *rand.Rand
	mem      *Mem
	volatile *Volatile
	real     string
	open     [][2]File
	next     int
}

func errText(err error) string {
	if err != nil {
		return "an error"
	}
	return ""
}

// both does something to both, and compares what comes of it.
func (w *twins) both(do func(fsys FS, root string) string) {
	w.t.Helper()
	if a, b := do(w.mem, ""), do(w.volatile, w.real); a != b {
		w.t.Errorf("in memory %q, on disk %q", a, b)
	}
}

func (w *twins) step() {
	name := func() string { return []string{"a", "b", "c"}[w.rng.IntN(3)] }
	dir := "/" + []string{"x", "y"}[w.rng.IntN(2)]
	path := dir + "/" + name()
	var what string
	switch w.rng.IntN(12) {
	case 0, 1:
		what = "create " + path
		w.use(func(fsys FS, root string) (File, error) { return fsys.Create(root + path) })
	case 2:
		what = "open " + path
		w.use(func(fsys FS, root string) (File, error) { return fsys.OpenWrite(root + path) })
	case 3:
		what = "remove " + path
		w.both(func(fsys FS, root string) string { return errText(fsys.Remove(root + path)) })
	case 4:
		to := dir + "/" + name()
		if to == path {
			return
		}
		what = "rename " + path + " to " + to
		w.both(func(fsys FS, root string) string { return errText(fsys.Rename(root+path, root+to)) })
	case 5:
		what = "mkdir " + dir
		w.both(func(fsys FS, root string) string {
			err := fsys.Mkdir(root + dir)
			if err == nil {
				err = fsys.SyncDir(root + "/")
			}
			return errText(err)
		})
	case 6:
		what = "remove all of " + dir
		w.both(func(fsys FS, root string) string { return errText(fsys.RemoveAll(root + dir)) })
	case 7:
		what = "rename /x to /z to /y"
		w.both(func(fsys FS, root string) string {
			return errText(fsys.Rename(root+"/x", root+"/z")) + errText(fsys.Rename(root+"/z", root+"/y"))
		})
		w.both(func(fsys FS, root string) string { return errText(fsys.RemoveAll(root + "/z")) })
	case 8, 9:
		what = "sync directory " + dir
		w.both(func(fsys FS, root string) string { return errText(fsys.SyncDir(root + dir)) })
	case 10:
		what = "sync /"
		w.both(func(fsys FS, root string) string { return errText(fsys.SyncDir(root + "/")) })
	case 11:
		what = "use an open file"
		w.useOpen()
	}
	for _, c := range []struct {
		what string
		got  string
		want string
	}{
		{"the process sees", w.tree(w.volatile, w.real), w.tree(w.mem, "")},
		{"the disk has", w.tree(osFS{}, w.real), w.tree(w.mem.Crash(nil), "")},
	} {
		if c.got != c.want {
			w.t.Errorf("after %q %s\n%s\nwant\n%s", what, c.what, c.got, c.want)
		}
	}
}

func (w *twins) use(open func(fsys FS, root string) (File, error)) {
	a, errA := open(w.mem, "")
	b, errB := open(w.volatile, w.real)
	if errText(errA) != errText(errB) {
		w.t.Fatalf("in memory %v, on disk %v", errA, errB)
	}
	if errA == nil {
		w.open = append(w.open, [2]File{a, b})
		w.useOpen()
	}
}

// useOpen writes to an open file, cuts, syncs or closes it.
func (w *twins) useOpen() {
	if len(w.open) == 0 {
		return
	}
	i := w.rng.IntN(len(w.open))
	pair := w.open[i]
	w.next++
	data, at, how := fmt.Appendf(nil, "<%d>", w.next), int64(w.rng.IntN(12)), w.rng.IntN(6)
	for _, f := range pair {
		switch how {
		case 0, 1, 2:
			_, err := f.WriteAt(data, at)
			must(w.t, err)
		case 3:
			must(w.t, f.Truncate(at))
		case 4:
			must(w.t, f.Sync())
		case 5:
			must(w.t, f.Close())
		}
	}
	if how == 5 {
		w.open = slices.Delete(w.open, i, i+1)
		return
	}
	var seen [2]string
	for i, f := range pair {
		size, err := f.Size()
		must(w.t, err)
		data := make([]byte, size)
		if size > 0 {
			_, err = f.ReadAt(data, 0)
			must(w.t, err)
		}
		seen[i] = string(data)
	}
	if seen[0] != seen[1] {
		w.t.Errorf("an open file holds %q in memory, %q on disk", seen[0], seen[1])
	}
}

// tree is everything below a directory.
func (w *twins) tree(fsys FS, root string) string {
	var out string
	var list func(path string)
	list = func(path string) {
		entries, err := fsys.ReadDir(root + path)
		must(w.t, err)
		for _, e := range entries {
			at := filepath.Join(path, e.Name)
			if e.IsDir {
				out += at + "/\n"
				list(at)
				continue
			}
			out += fmt.Sprintf("%s %q\n", at, content(w.t, fsys, root+at))
		}
	}
	list("/")
	return out
}

// Files that others write beside are there, and stay.
func TestVolatileLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	fsys := NewVolatile()
	create(t, fsys, dir+"/ours", "x")
	must(t, os.WriteFile(dir+"/theirs", []byte("1"), 0o600))
	if got := content(t, fsys, dir+"/theirs"); got != "1" {
		t.Errorf("theirs holds %q", got)
	}
	must(t, os.WriteFile(dir+"/theirs.tmp", []byte("22"), 0o600))
	must(t, os.Rename(dir+"/theirs.tmp", dir+"/theirs"))
	must(t, fsys.SyncDir(dir))
	if got := content(t, fsys, dir+"/theirs"); got != "22" {
		t.Errorf("theirs holds %q", got)
	}
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("there are %v", entries)
	}
	// A power cut amid a sync leaves a file that nobody sees.
	must(t, os.WriteFile(dir+"/new"+halfSuffix, []byte("x"), 0o600))
	if entries, err = NewVolatile().ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

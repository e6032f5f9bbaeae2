package vfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"
)

func create(t *testing.T, m FS, path, content string) File {
	t.Helper()
	f, err := m.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, m FS, path string) string {
	t.Helper()
	data, err := ReadFile(m, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A name needs its directory synced, bytes need their file synced, and one
// does not bring the other.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := NewMem()
	must(t, m.Mkdir("/d"))
	must(t, m.SyncDir("/"))
	create(t, m, "/d/nothing", "x")
	must(t, create(t, m, "/d/bytes", "x").Sync())
	create(t, m, "/d/name", "x")
	both := create(t, m, "/d/both", "old")
	must(t, both.Sync())
	must(t, m.Remove("/d/nothing"))
	must(t, m.Remove("/d/bytes"))
	must(t, m.SyncDir("/d"))
	create(t, m, "/d/nothing", "x")
	must(t, create(t, m, "/d/bytes", "x").Sync())
	if _, err := both.WriteAt([]byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	after := m.Crash(nil)
	for path, want := range map[string]string{
		"/d/nothing": "-", "/d/bytes": "-", "/d/name": "", "/d/both": "old",
	} {
		if got := content(t, after, path); got != want {
			t.Errorf("%s holds %q after the power cut, want %q", path, got, want)
		}
	}
	if got := content(t, m.Kill(), "/d/both"); got != "new" {
		t.Errorf("a killed process's write is %q, want it kept", got)
	}
	must(t, both.Sync())
	if got := content(t, m.Crash(nil), "/d/both"); got != "new" {
		t.Errorf("a synced write is %q after the power cut", got)
	}
}

// Whoever renames without syncing may find the old file, or the new name
// with nothing in it, but never a mix that no order of writes gives.
func TestCrashWithRandomWriteBack(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		m := NewMem()
		must(t, create(t, m, "/f", "old").Sync())
		must(t, m.SyncDir("/"))
		create(t, m, "/f.tmp", "new")
		must(t, m.Rename("/f.tmp", "/f"))
		seen[content(t, m.Crash(rand.New(rand.NewPCG(seed, 0))), "/f")] = true
	}
	for _, want := range []string{"old", "new", ""} {
		if !seen[want] {
			t.Errorf("no seed of 200 left %q", want)
		}
	}
	for got := range seen {
		switch got {
		case "old", "new", "", "n", "ne":
		default:
			t.Errorf("a seed left %q", got)
		}
	}
}

func TestPowerCutTearsTheWriteAndRefusesTheRest(t *testing.T) {
	m := NewMem()
	f := create(t, m, "/f", "")
	m.CutPowerAt(m.Ops() + 2)
	if _, err := f.WriteAt([]byte("whole"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("torn"), 5); !errors.Is(err, ErrPowerCut) {
		t.Fatalf("write at the cut: %v", err)
	}
	if _, err := f.WriteAt([]byte("late"), 5); !errors.Is(err, ErrPowerCut) {
		t.Fatalf("write after the cut: %v", err)
	}
	if err := m.SyncDir("/"); !errors.Is(err, ErrPowerCut) {
		t.Fatalf("sync after the cut: %v", err)
	}
	if got := content(t, m.Kill(), "/f"); got != "wholeto" {
		t.Fatalf("file holds %q", got)
	}
	if got := content(t, m.Crash(nil), "/f"); got != "-" {
		t.Fatalf("unsynced file holds %q", got)
	}
}

func TestLocks(t *testing.T) {
	for name, fsys := range map[string]FS{"mem": NewMem(), "os": OS(), "volatile": NewVolatile()} {
		t.Run(name, func(t *testing.T) {
			path := "/.lock"
			if name != "mem" {
				path = t.TempDir() + path
			}
			lock, err := fsys.Lock(path)
			must(t, err)
			if _, err := fsys.Lock(path); !errors.Is(err, ErrLocked) {
				t.Fatalf("second lock: %v", err)
			}
			must(t, lock.Close())
			lock, err = fsys.Lock(path)
			must(t, err)
			must(t, lock.Close())
		})
	}
}

// All file systems answer alike where storage relies on it.
func TestSameBehaviour(t *testing.T) {
	for name, fsys := range map[string]FS{"mem": NewMem(), "os": OS(), "volatile": NewVolatile()} {
		t.Run(name, func(t *testing.T) {
			root := ""
			if name != "mem" {
				root = t.TempDir()
			}
			if _, err := fsys.Open(root + "/none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open of a missing file: %v", err)
			}
			must(t, fsys.Mkdir(root+"/d"))
			if err := fsys.Mkdir(root + "/d"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("mkdir of an existing directory: %v", err)
			}
			f := create(t, fsys, root+"/d/a", "0123456789")
			must(t, fsys.Rename(root+"/d/a", root+"/d/b"))
			must(t, f.Truncate(4))
			must(t, f.Truncate(6))
			if got := content(t, fsys, root+"/d/b"); got != "0123\x00\x00" {
				t.Errorf("after two truncations: %q", got)
			}
			must(t, fsys.Remove(root+"/d/b"))
			if n, err := f.ReadAt(make([]byte, 6), 0); n != 6 || err != nil {
				t.Errorf("read of a removed, open file: %d, %v", n, err)
			}
			create(t, fsys, root+"/d/c", "")
			if err := fsys.Remove(root + "/d"); err == nil {
				t.Error("a full directory was removed")
			}
			must(t, fsys.RemoveAll(root+"/d"))
			must(t, fsys.RemoveAll(root+"/d"))
			if _, err := fsys.Stat(root + "/d"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("stat after removal: %v", err)
			}
		})
	}
}

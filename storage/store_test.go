package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// formatDirs makes log directories of one node and opens them.
func formatDirs(t testing.TB, fsys vfs.FS, paths ...string) []*Dir {
	t.Helper()
	for i, path := range paths {
		check(t, Format(fsys, path, MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{byte(i + 1)}}, now()))
	}
	return openDirs(t, fsys, paths...)
}

func openDirs(t testing.TB, fsys vfs.FS, paths ...string) []*Dir {
	t.Helper()
	var dirs []*Dir
	for _, path := range paths {
		d, err := OpenDir(fsys, path, now())
		check(t, err)
		dirs = append(dirs, d)
	}
	return dirs
}

func openStore(t testing.TB, fsys vfs.FS, dirs []*Dir, cfg StoreConfig) *Store {
	t.Helper()
	s, err := OpenStore(context.Background(), fsys, dirs, cfg, zerolog.Nop())
	check(t, err)
	return s
}

func closeStore(t testing.TB, s *Store, epoch protocol.BrokerEpoch) {
	t.Helper()
	check(t, s.Close(epoch, nil))
	for _, d := range s.dirs {
		check(t, d.Close())
	}
}

func tp(topic string, partition int32) protocol.TopicPartition {
	return protocol.TopicPartition{Topic: topic, Partition: partition}
}

// Many logs over two directories, opened again after a clean stop and a kill.
func TestStoreOpensAllDirectories(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a", "/b"), storeConfig())
	ids := map[protocol.TopicPartition]protocol.UUID{}
	for i := range int32(20) {
		p := tp(fmt.Sprintf("topic-%d", i%3), i)
		ids[p] = protocol.UUID{1, byte(i)}
		l, err := s.Create(p, ids[p], nil)
		check(t, err)
		for range i {
			appendTest(t, l, record(t, p.String()), 1)
		}
	}
	count := map[*Dir]int{}
	for _, l := range s.Logs() {
		count[l.Dir()]++
	}
	if count[s.dirs[0]] != 10 || count[s.dirs[1]] != 10 {
		t.Fatalf("logs are dealt out as %v", count)
	}
	compare := func(s *Store) {
		t.Helper()
		if got := len(maps.Collect(s.Logs())); got != 20 {
			t.Fatalf("%d logs", got)
		}
		for p, id := range ids {
			l, ok := s.Get(p)
			if !ok || l.TopicID() != id || l.LEO() != int64(p.Partition) {
				t.Fatalf("%v is not as it was", p)
			}
		}
	}
	killed := mem.Kill()
	compare(openStore(t, killed, openDirs(t, killed, "/a", "/b"), storeConfig()))
	closeStore(t, s, 5)
	if _, err := mem.Stat("/a/" + lockFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
	dirs := openDirs(t, mem, "/a", "/b")
	for _, d := range dirs {
		if epoch, clean := d.CleanShutdown(); !clean || epoch != 5 {
			t.Errorf("%s: clean %t, epoch %d", d.path, clean, epoch)
		}
	}
	s = openStore(t, mem, dirs, storeConfig())
	compare(s)
	if _, err := mem.Stat("/a/" + cleanShutdownFile); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the mark of the clean shutdown is left while the store is open")
	}
	if _, err := s.Create(tp("topic-0", 0), protocol.UUID{9}, nil); !errors.Is(err, protocol.ErrInconsistentTopicID) {
		t.Errorf("create with another topic id: %v", err)
	}
}

// Directories that do not belong together, are in use, or hold what is not
// ours are refused, by name, before anything is changed.
func TestStoreRefusesDirectories(t *testing.T) {
	mem := vfs.NewMem()
	meta := MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{1}}
	check(t, Format(mem, "/a", meta, now()))
	if err := Format(mem, "/a", meta, now()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("format twice: %v", err)
	}
	refuse := func(t *testing.T, other MetaProperties, parts ...string) {
		t.Helper()
		mem := vfs.NewMem()
		check(t, Format(mem, "/a", meta, now()))
		check(t, Format(mem, "/b", other, now()))
		_, err := OpenStore(context.Background(), mem, openDirs(t, mem, "/a", "/b"), storeConfig(), zerolog.Nop())
		for _, part := range append(parts, "/a/meta.properties", "/b/meta.properties") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v does not say %s", err, part)
			}
		}
	}
	refuse(t, MetaProperties{ClusterID: "d", NodeID: 1, DirectoryID: protocol.UUID{2}}, `"c"`, `"d"`, "cluster.id")
	refuse(t, MetaProperties{ClusterID: "c", NodeID: 2, DirectoryID: protocol.UUID{2}}, "1", "2", "node.id")
	refuse(t, MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{1}}, "directory.id")

	d := openDirs(t, mem, "/a")[0]
	if err := d.CheckNode(7); err == nil || !strings.Contains(err.Error(), "/a/meta.properties") {
		t.Errorf("another node's directory: %v", err)
	}
	if _, err := OpenDir(mem, "/a", now()); err == nil || !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a directory in use: %v", err)
	}
	if _, err := OpenDir(mem, "/none", now()); !errors.Is(err, ErrNotFormatted) {
		t.Errorf("no directory: %v", err)
	}
	check(t, mem.Mkdir("/empty"))
	if _, err := OpenDir(mem, "/empty", now()); !errors.Is(err, ErrNotFormatted) {
		t.Errorf("an empty directory: %v", err)
	}
	check(t, writeFile(mem, "/empty/"+metaPropertiesFile, []byte("version=99\n")))
	if _, err := OpenDir(mem, "/empty", now()); err == nil || !strings.Contains(err.Error(), "/empty/meta.properties: version \"99\"") {
		t.Errorf("an unknown version: %v", err)
	}
	check(t, d.markClean(3))
	check(t, mem.Mkdir("/a/lost+found"))
	check(t, writeFile(mem, "/a/a file", nil))
	check(t, mem.Mkdir("/a/__cluster_metadata-0"))
	check(t, mem.Mkdir("/a/"+remoteIndexDir))
	_, err := OpenStore(context.Background(), mem, []*Dir{d}, storeConfig(), zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "/a/lost+found") {
		t.Errorf("an unknown directory: %v", err)
	}
	if _, err := mem.Stat("/a/" + cleanShutdownFile); err != nil {
		t.Errorf("the refused start has removed the mark: %v", err)
	}
	check(t, mem.Remove("/a/lost+found"))
	openStore(t, mem, []*Dir{d}, storeConfig())
}

// A directory without an id, as Kafka before 3.7 left it, gets one and keeps it.
func TestDirectoryGetsAnID(t *testing.T) {
	mem := vfs.NewMem()
	check(t, mem.Mkdir("/a"))
	check(t, mem.SyncDir("/"))
	check(t, writeFile(mem, "/a/"+metaPropertiesFile, []byte("#\nversion=1\nnode.id=4\ncluster.id=x\n")))
	d := openDirs(t, mem, "/a")[0]
	id := d.ID()
	check(t, d.Close())
	if again := openDirs(t, mem.Crash(nil), "/a")[0].ID(); id == protocol.ZeroUUID || again != id {
		t.Fatalf("id %s, then %s", id, again)
	}
}

// One log in two directories is an error that names both.
func TestStoreFindsDuplicates(t *testing.T) {
	mem := vfs.NewMem()
	dirs := formatDirs(t, mem, "/a", "/b")
	for _, path := range []string{"/a/x-0", "/b/x-0"} {
		check(t, mem.Mkdir(path))
		check(t, writeFile(mem, path+"/"+partitionMetaFile, formatPartitionMetadata(protocol.UUID{1})))
	}
	_, err := OpenStore(context.Background(), mem, dirs, storeConfig(), zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "/a/x-0") || !strings.Contains(err.Error(), "/b/x-0") {
		t.Fatalf("error %v", err)
	}
}

// A creation that fails goes on in another directory. What it leaves in the one that
// failed is removed, or else is in nobody's way at the next start.
func TestStoreBeginsElsewhere(t *testing.T) {
	for name, removes := range map[string]bool{"full": true, "broken": false} {
		mem := vfs.NewMem()
		s := openStore(t, mem, formatDirs(t, mem, "/a", "/b"), storeConfig())
		mem.SetHook(func(op vfs.Op) error {
			if strings.HasPrefix(op.Path, "/a/x-0") && (op.Kind == "write" || op.Kind == "remove" && !removes) {
				return errors.New("no space left on device")
			}
			return nil
		})
		if _, err := s.Create(tp("x", 0), protocol.UUID{1}, s.dirs[0]); !errors.Is(err, protocol.ErrKafkaStorageError) {
			t.Fatalf("%s: create: %v", name, err)
		}
		mem.SetHook(nil)
		_, err := mem.Stat("/a/x-0")
		if gone := errors.Is(err, fs.ErrNotExist); gone != removes {
			t.Errorf("%s: what was created is gone: %t", name, gone)
		}
		l, err := s.Create(tp("x", 0), protocol.UUID{1}, nil)
		check(t, err)
		appendTest(t, l, record(t, "x"), 1)
		for _, order := range [][]string{{"/a", "/b"}, {"/b", "/a"}} {
			left := mem.Kill()
			s := openStore(t, left, openDirs(t, left, order...), storeConfig())
			if l, ok := s.Get(tp("x", 0)); !ok || l.LEO() != 1 || l.Dir().Path() != "/b" {
				t.Errorf("%s: after a start on %v the log is not as it was", name, order)
			}
			check(t, s.Close(1, nil))
		}
	}
}

// A damaged checkpoint costs a check of the logs, and no record.
func TestStoreSurvivesDamagedCheckpoints(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a"), storeConfig())
	l, err := s.Create(tp("x", 0), protocol.UUID{1}, nil)
	check(t, err)
	for range 30 {
		appendTest(t, l, records(t, 1, 100), 1)
	}
	closeStore(t, s, 1)
	for _, name := range []string{recoveryPointFile, logStartOffsetFile, highWatermarkFile} {
		check(t, writeFile(mem, "/a/"+name, []byte("0\n2\nx 0")))
	}
	s = openStore(t, mem, openDirs(t, mem, "/a"), storeConfig())
	if l, ok := s.Get(tp("x", 0)); !ok || l.LEO() != 30 || l.LogStartOffset() != 0 || s.HighWatermark(tp("x", 0)) != 0 {
		t.Fatal("the log is not as it was")
	}
	check(t, s.checkpointRecoveryPoints(s.dirs[0]))
	if got := string(readFile(t, mem, "/a", recoveryPointFile)); got != "0\n1\nx 0 30\n" {
		t.Fatalf("recovery points are %q", got)
	}
}

// The recovery point in the file is lowered before a truncation cuts, even if
// a checkpoint comes in between.
func TestTruncationLowersTheRecoveryPoint(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a"), storeConfig())
	l, err := s.Create(tp("x", 0), protocol.UUID{1}, nil)
	check(t, err)
	for range 30 {
		appendTest(t, l, records(t, 1, 100), 1)
	}
	check(t, l.Flush(30))
	check(t, s.checkpointRecoveryPoints(s.dirs[0]))
	lower := l.opts.BeforeTruncate
	l.opts.BeforeTruncate = func(offset int64) error {
		check(t, s.checkpointRecoveryPoints(s.dirs[0]))
		return lower(offset)
	}
	check(t, l.TruncateTo(7))
	for _, left := range []*vfs.Mem{mem.Kill(), mem.Crash(nil)} {
		if got := string(readFile(t, left, "/a", recoveryPointFile)); got != "0\n1\nx 0 7\n" {
			t.Fatalf("recovery points are %q", got)
		}
	}
}

// A deleted log is gone at once, its name is free, and its files go after the
// delay, also if that ends in a later life. Strays stay.
func TestStoreDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		cfg := storeConfig()
		cfg.Now = time.Now
		cfg.LogConfig = func(string) LogConfig {
			cfg := smallConfig()
			cfg.DeleteDelayMs = 20_000
			return cfg
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := openStore(t, mem, formatDirs(t, mem, "/a"), cfg)
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, nil) }()
		old, err := s.Create(tp("x", 0), protocol.UUID{1}, nil)
		check(t, err)
		appendTest(t, old, record(t, "old"), 1)
		slice, err := old.Read(0, 100, 100, true)
		check(t, err)
		check(t, s.Delete(tp("x", 0)))
		if err := s.Delete(tp("x", 0)); !errors.Is(err, protocol.ErrUnknownTopicOrPartition) {
			t.Errorf("delete twice: %v", err)
		}
		if _, err := old.AppendAsLeader(record(t, "x"), 1, AppendOptions{}); !errors.Is(err, protocol.ErrNotLeaderForPartition) {
			t.Errorf("append to a deleted log: %v", err)
		}
		fresh, err := s.Create(tp("x", 0), protocol.UUID{2}, nil)
		if err != nil || fresh.LEO() != 0 {
			t.Fatalf("new log of that name: %v", err)
		}
		stray, err := s.Create(tp("y", 0), protocol.UUID{3}, nil)
		check(t, err)
		appendTest(t, stray, record(t, "stray"), 1)
		check(t, s.SetAside(tp("y", 0)))
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if got := dirsOf(t, mem, "/a"); len(got) != 3 || !strings.HasSuffix(got[1], deleteDirSuffix) || !strings.HasSuffix(got[2], strayDirSuffix) {
			t.Fatalf("before the delay has passed: %q", got)
		}
		check(t, s.Delete(tp("x", 0)))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := dirsOf(t, mem, "/a"); len(got) != 2 || got[0] != filepath.Base(fresh.Path()) {
			t.Fatalf("after the delay has passed: %q", got)
		}
		if got, err := slice.Bytes(); err != nil || len(got) != slice.Size() {
			t.Fatalf("a slice of the deleted log: %v", err)
		}
		slice.Release()
		cancel()
		check(t, <-ended)

		// The next life goes on with it.
		mem = mem.Kill()
		s = openStore(t, mem, openDirs(t, mem, "/a"), cfg)
		if n := len(maps.Collect(s.Logs())); n != 0 {
			t.Fatalf("%d logs were opened", n)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go func() { ended <- s.Run(ctx, nil) }()
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if got := dirsOf(t, mem, "/a"); len(got) != 1 || !strings.HasSuffix(got[0], strayDirSuffix) {
			t.Fatalf("in the next life: %q", got)
		}
		strays, err := Strays(mem, "/a")
		check(t, err)
		if len(strays) != 1 || strays[0].TopicPartition != tp("y", 0) || strays[0].TopicID != (protocol.UUID{3}) || strays[0].Bytes == 0 || strays[0].Written.IsZero() {
			t.Fatalf("set aside: %+v", strays)
		}
		check(t, RemoveStray(mem, strays[0].Path))
		if got := dirsOf(t, mem.Crash(nil), "/a"); len(got) != 0 {
			t.Fatalf("removed, and after a power cut there are %q", got)
		}
		if RemoveStray(mem, "/a") == nil || RemoveStray(mem, "/a/y-0") == nil {
			t.Error("what was not set aside was removed")
		}
		cancel()
		check(t, <-ended)
	})
}

func dirsOf(t testing.TB, mem *vfs.Mem, path string) []string {
	t.Helper()
	entries, err := mem.ReadDir(path)
	check(t, err)
	var names []string
	for _, e := range entries {
		if e.IsDir {
			names = append(names, e.Name)
		}
	}
	return names
}

// A log that the metadata does not place here is set aside at the start.
func TestStoreSetsStraysAside(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a"), storeConfig())
	for i := range int32(3) {
		_, err := s.Create(tp("x", i), protocol.UUID{byte(i + 1)}, nil)
		check(t, err)
	}
	closeStore(t, s, 1)
	cfg := storeConfig()
	cfg.IsStray = func(p protocol.TopicPartition, id protocol.UUID) bool { return id == protocol.UUID{2} }
	s = openStore(t, mem, openDirs(t, mem, "/a"), cfg)
	if _, ok := s.Get(tp("x", 1)); ok || len(maps.Collect(s.Logs())) != 2 {
		t.Fatal("the stray log is open")
	}
	if got := dirsOf(t, mem, "/a"); len(got) != 3 || !strings.HasSuffix(got[1], strayDirSuffix) {
		t.Fatalf("directories are %q", got)
	}
}

// Run syncs closed segments, writes the checkpoints at their times, and
// forgets silent producers.
// TestStoreForgetsDeletedLogs: a log that is made under the name of a deleted
// one, and does not live until the next checkpoint, has nothing of what the
// checkpoints said of the first.
func TestStoreForgetsDeletedLogs(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a"), storeConfig())
	dir := s.Dirs()[0]
	kept, err := s.Create(tp("kept", 0), protocol.UUID{9}, nil)
	check(t, err)
	appendTest(t, kept, records(t, 5, 1), 1)
	check(t, kept.AdvanceLogStart(1))
	l, err := s.Create(tp("x", 0), protocol.UUID{1}, nil)
	check(t, err)
	appendTest(t, l, records(t, 10, 1), 1)
	check(t, l.Flush(10))
	check(t, l.AdvanceLogStart(6))
	check(t, s.checkpointRecoveryPoints(dir))
	check(t, l.SaveLogStart())
	check(t, dir.saveHighWatermarks(map[protocol.TopicPartition]int64{tp("x", 0): 10, tp("kept", 0): 5}))

	check(t, s.Delete(tp("x", 0)))
	l, err = s.Create(tp("x", 0), protocol.UUID{2}, nil)
	check(t, err)
	appendTest(t, l, records(t, 3, 1), 1)

	mem = mem.Kill()
	dirs := openDirs(t, mem, "/a")
	s = openStore(t, mem, dirs, storeConfig())
	l, _ = s.Get(tp("x", 0))
	if l.LogStartOffset() != 0 || l.LEO() != 3 || l.FlushedTo() != 0 || s.HighWatermark(tp("x", 0)) != 0 {
		t.Errorf("the second log goes from %d to %d, is synced to %d and committed to %d; want 0, 3, 0 and 0", l.LogStartOffset(), l.LEO(), l.FlushedTo(), s.HighWatermark(tp("x", 0)))
	}
	kept, _ = s.Get(tp("kept", 0))
	if kept.LogStartOffset() != 1 || s.HighWatermark(tp("kept", 0)) != 5 {
		t.Errorf("the other log begins at %d and is committed to %d; want 1 and 5", kept.LogStartOffset(), s.HighWatermark(tp("kept", 0)))
	}
}

func TestStoreRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		cfg := storeConfig()
		cfg.Now = time.Now
		ctx, cancel := context.WithCancel(t.Context())
		s := openStore(t, mem, formatDirs(t, mem, "/a"), cfg)
		ended := make(chan error)
		go func() {
			ended <- s.Run(ctx, func() iter.Seq2[protocol.TopicPartition, int64] {
				return maps.All(map[protocol.TopicPartition]int64{tp("x", 0): 3, tp("gone", 0): 9})
			})
		}()
		l, err := s.Create(tp("x", 0), protocol.UUID{1}, nil)
		check(t, err)
		for range 40 {
			appendTest(t, l, records(t, 1, 100), 1)
		}
		synctest.Wait()
		l.mu.Lock()
		base, sealed := l.activeLocked().base, l.segments[0].sealed
		l.mu.Unlock()
		if l.FlushedTo() != base || base == 0 || !sealed {
			t.Fatalf("synced to %d, the active segment begins at %d", l.FlushedTo(), base)
		}
		check(t, l.AdvanceLogStart(2))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := string(readFile(t, mem, "/a", highWatermarkFile)); got != "0\n1\nx 0 3\n" {
			t.Fatalf("high watermarks are %q", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := string(readFile(t, mem, "/a", recoveryPointFile)); got != fmt.Sprintf("0\n1\nx 0 %d\n", base) {
			t.Fatalf("recovery points are %q", got)
		}
		if got := string(readFile(t, mem, "/a", logStartOffsetFile)); got != "0\n1\nx 0 2\n" {
			t.Fatalf("log starts are %q", got)
		}
		cancel()
		check(t, <-ended)
	})
}

// A directory whose disk fails goes offline, the other serves on, and what
// was in it is not made anew elsewhere.
func TestStoreLosesOneDirectory(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, formatDirs(t, mem, "/a", "/b"), storeConfig())
	a, err := s.Create(tp("x", 0), protocol.UUID{1}, s.dirs[0])
	check(t, err)
	b, err := s.Create(tp("x", 1), protocol.UUID{1}, s.dirs[1])
	check(t, err)
	boom := errors.New("input/output error")
	mem.SetHook(func(op vfs.Op) error {
		if strings.HasPrefix(op.Path, "/a/") {
			return boom
		}
		return nil
	})
	if _, err := a.AppendAsLeader(record(t, "x"), 1, AppendOptions{}); !errors.Is(err, protocol.ErrKafkaStorageError) {
		t.Fatalf("append: %v", err)
	}
	appendTest(t, b, record(t, "x"), 1)
	if _, err := s.Create(tp("x", 0), protocol.UUID{1}, nil); !errors.Is(err, protocol.ErrKafkaStorageError) {
		t.Errorf("create again: %v", err)
	}
	l, err := s.Create(tp("x", 2), protocol.UUID{1}, nil)
	if err != nil || l.Dir() != s.dirs[1] {
		t.Errorf("a new log: %v", err)
	}
	if err := s.Close(4, nil); err != nil {
		t.Errorf("close, where the failure is no news: %v", err)
	}
	for path, want := range map[string]bool{"/a": false, "/b": true} {
		if _, err := mem.Stat(path + "/" + cleanShutdownFile); (err == nil) != want {
			t.Errorf("%s is marked clean: %t", path, err == nil)
		}
	}
}

func TestDirNames(t *testing.T) {
	long := strings.Repeat("t", 249)
	for _, test := range []struct {
		name string
		tp   protocol.TopicPartition
		kind dirKind
	}{
		{"a-0", tp("a", 0), dirLog},
		{"a-b-12", tp("a-b", 12), dirLog},
		{"a-0.8a0d-delete", tp("a", 0), dirDeleted},
		{"a.b-1.8a0d-stray", tp("a.b", 1), dirStray},
		{"a-1.8a0d-future", tp("a", 1), dirFuture},
		{"__cluster_metadata-0", tp("__cluster_metadata", 0), dirIgnored},
		{"remote-log-index-cache", protocol.TopicPartition{}, dirIgnored},
		{"lost+found", protocol.TopicPartition{}, dirUnknown},
		{"a", protocol.TopicPartition{}, dirUnknown},
		{"-1", protocol.TopicPartition{}, dirUnknown},
		{"a-x", protocol.TopicPartition{}, dirUnknown},
		{"a--1", tp("a-", 1), dirLog},
		{retiredDirName(tp(long, 7), protocol.UUID{1}, deleteDirSuffix), tp(long[:255-2-1-32-7], 7), dirDeleted},
	} {
		got, kind := parseDirName(test.name)
		if kind != test.kind || kind != dirUnknown && kind != dirIgnored && got != test.tp {
			t.Errorf("%s is %v, %d; want %v, %d", test.name, got, kind, test.tp, test.kind)
		}
	}
}

// Waiters for one flush share its sync.
func TestFlushIsShared(t *testing.T) {
	opts := smallOptions()
	opts.Config.FlushMessages = 1
	mem := vfs.NewMem()
	l := openTest(t, mem, "/t-0", opts)
	if r := appendTest(t, l, record(t, "x"), 1); !r.FlushDue {
		t.Fatal("no flush is due")
	}
	check(t, l.Flush(1))
	for range 10 {
		appendTest(t, l, record(t, "x"), 1)
	}
	syncs := 0
	mem.SetHook(func(op vfs.Op) error {
		if op.Kind == "sync" {
			syncs++
		}
		return nil
	})
	for i := range int64(10) {
		check(t, l.Flush(2+i))
	}
	if syncs != 1 || l.FlushedTo() != 11 {
		t.Fatalf("%d syncs for ten waiters, synced to %d", syncs, l.FlushedTo())
	}
	if names := fileNames(t, mem, "/t-0"); !slices.Equal(names, []string{"00000000000000000000.log", "leader-epoch-checkpoint"}) {
		t.Fatalf("files are %q", names)
	}
}

// A silent producer is forgotten, one with an open transaction is not.
func TestProducersExpire(t *testing.T) {
	opts := smallOptions()
	opts.Config.ProducerIDExpirationMs = 1000
	mem := vfs.NewMem()
	l := openTest(t, mem, "/t-0", opts)
	for id, txn := range map[int64]bool{1: false, 2: true} {
		p := produced{value: "x", producer: producerOf(id), txn: txn, timestamp: testNow.UnixMilli()}
		_, err := l.AppendAsLeader(p.build(t), 1, AppendOptions{Verified: true})
		check(t, err)
	}
	l.ExpireProducers(testNow.Add(999 * time.Millisecond))
	if got := describeProducers(l); strings.Count(got, "id ") != 2 {
		t.Fatalf("too early: %s", got)
	}
	l.ExpireProducers(testNow.Add(time.Second))
	if got := describeProducers(l); strings.Count(got, "id ") != 1 || !strings.HasPrefix(got, "id 2 ") {
		t.Fatalf("left are: %s", got)
	}
}

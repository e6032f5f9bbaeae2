package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage/vfs"
)

func write(t testing.TB, fsys vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fsys.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), fsys.SyncDir(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, fsys vfs.FS) *Store {
	t.Helper()
	s, err := OpenStore(fsys, "/", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func metaOf(index uint64) raftlog.SnapshotMeta {
	return raftlog.SnapshotMeta{
		Index: index, Term: 2, Configuration: []byte("members"), ConfigurationIndex: 1,
	}
}

// take writes a snapshot as Raft does, in small pieces.
func take(s *Store, index uint64, id ID, checkpoint []byte) error {
	out, err := s.Create(metaOf(index))
	if err != nil {
		return err
	}
	stream := append(appendPreamble(nil, id), checkpoint...)
	for len(stream) > 0 {
		n := min(7, len(stream))
		if _, err := out.Write(stream[:n]); err != nil {
			return errors.Join(err, out.Cancel())
		}
		stream = stream[n:]
	}
	return out.Close()
}

func names(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	entries, err := fsys.ReadDir("/")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out
}

func TestSnapshotIsReadBack(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	checkpoint := readFile(t, kafkaCheckpoint)
	id := ID{Offset: 163, Epoch: 1}
	if err := take(s, 42, id, checkpoint); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, openStore(t, fsys.Crash(nil))} {
		metas, err := s.List()
		want := metaOf(42)
		want.ID, want.Size = "00000000000000000042-0000000002", int64(len(checkpoint)+preambleSize)
		if err != nil || !reflect.DeepEqual(metas, []raftlog.SnapshotMeta{want}) {
			t.Fatalf("list %+v, error %v, want %+v", metas, err, want)
		}
		meta, stream, err := s.Open(want.ID)
		if err != nil || !reflect.DeepEqual(meta, want) {
			t.Fatalf("open %+v, error %v", meta, err)
		}
		data, err := io.ReadAll(stream)
		if err != nil || int64(len(data)) != meta.Size {
			t.Fatalf("read %d bytes of %d, error %v", len(data), meta.Size, err)
		}
		src := bytes.NewReader(data)
		if got, err := ReadPreamble(src); err != nil || got != id {
			t.Errorf("preamble %v, error %v", got, err)
		}
		if rest, _ := io.ReadAll(src); !bytes.Equal(rest, checkpoint) {
			t.Error("the checkpoint is another")
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	}
	want := []string{"00000000000000000042-0000000002.raft-snapshot", "00000000000000000163-0000000001.checkpoint"}
	if got := names(t, fsys); !reflect.DeepEqual(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// Raft may snapshot twice at one offset of the metadata log, when only entries
// of its own lie between. The checkpoint stays as it is.
func TestTwoSnapshotsOfOneCheckpoint(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	first := readFile(t, kafkaCheckpoint)
	second := sameTimes(t, first, 1)
	id := ID{Offset: 163, Epoch: 1}
	if err := errors.Join(take(s, 42, id, first), take(s, 43, id, second)); err != nil {
		t.Fatal(err)
	}
	metas, err := s.List()
	if err != nil || len(metas) != 2 || metas[0].Index != 43 || metas[1].Index != 42 {
		t.Errorf("list %+v, error %v", metas, err)
	}
	if got, _ := vfs.ReadFile(fsys, "/"+id.FileName()); !bytes.Equal(got, first) {
		t.Error("the checkpoint was rewritten")
	}
	if got := names(t, fsys); len(got) != 3 {
		t.Errorf("files %v", got)
	}
}

func TestOldSnapshotsGo(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	checkpoint := readFile(t, kafkaCheckpoint)
	write(t, fsys, "/"+bootstrapID.FileName(), readFile(t, kafkaBootstrap))
	for i := range 5 {
		if err := take(s, uint64(10+i), ID{Offset: int64(100 + i), Epoch: 1}, checkpoint); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"00000000000000000000-0000000000.checkpoint",
		"00000000000000000013-0000000002.raft-snapshot",
		"00000000000000000014-0000000002.raft-snapshot",
		"00000000000000000103-0000000001.checkpoint",
		"00000000000000000104-0000000001.checkpoint",
	}
	if got := names(t, fsys.Crash(rand.New(rand.NewPCG(1, 1)))); len(got) < len(want) {
		t.Errorf("files after a power cut: %v", got)
	}
	if got := names(t, fsys); !reflect.DeepEqual(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

func TestWhatIsNoSnapshot(t *testing.T) {
	checkpoint := readFile(t, kafkaCheckpoint)
	id := ID{Offset: 163, Epoch: 1}
	t.Run("a checkpoint without sidecar", func(t *testing.T) {
		fsys := vfs.NewMem()
		write(t, fsys, "/"+id.FileName(), checkpoint)
		if metas, err := openStore(t, fsys).List(); err != nil || len(metas) != 0 {
			t.Errorf("list %v, error %v", metas, err)
		}
		if ids, err := Checkpoints(fsys, "/"); err != nil || len(ids) != 1 || ids[0] != id {
			t.Errorf("checkpoints %v, error %v", ids, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		fsys := vfs.NewMem()
		out, err := openStore(t, fsys).Create(metaOf(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(checkpoint); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(out.Cancel(), out.Cancel(), out.Close()); err != nil {
			t.Error(err)
		}
		if got := names(t, fsys); len(got) != 0 {
			t.Errorf("files %v", got)
		}
	})
	t.Run("unfinished", func(t *testing.T) {
		fsys := vfs.NewMem()
		if _, err := openStore(t, fsys).Create(metaOf(1)); err != nil {
			t.Fatal(err)
		}
		openStore(t, fsys)
		if got := names(t, fsys); len(got) != 0 {
			t.Errorf("files %v", got)
		}
	})
	for name, stream := range map[string][]byte{
		"empty":             nil,
		"half a preamble":   appendPreamble(nil, id)[:9],
		"no preamble":       checkpoint,
		"no checkpoint":     appendPreamble(nil, id),
		"half a checkpoint": append(appendPreamble(nil, id), checkpoint[:3000]...),
		"of an empty log":   append(appendPreamble(nil, bootstrapID), checkpoint...),
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			s := openStore(t, fsys)
			out, err := s.Create(metaOf(1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := out.Write(stream); err != nil {
				t.Fatal(err)
			}
			if err := out.Close(); err == nil {
				t.Error("it was taken")
			}
			if metas, err := s.List(); err != nil || len(metas) != 0 {
				t.Errorf("list %v, error %v", metas, err)
			}
			if got := names(t, fsys); len(got) != 0 {
				t.Errorf("files %v", got)
			}
		})
	}
}

func TestDamagedSnapshots(t *testing.T) {
	checkpoint := readFile(t, kafkaCheckpoint)
	id := ID{Offset: 163, Epoch: 1}
	const name = "00000000000000000042-0000000002"
	sidecarPath := "/" + name + sidecarSuffix
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, fsys *vfs.Mem)
		list   string // error of List, "" = none
		open   string // error of Open
	}{
		{"sidecar cut", func(t *testing.T, fsys *vfs.Mem) {
			data, _ := vfs.ReadFile(fsys, sidecarPath)
			write(t, fsys, sidecarPath, data[:20])
		}, "snapshot " + sidecarPath + ": it ends early", "it ends early"},
		{"sidecar changed", func(t *testing.T, fsys *vfs.Mem) {
			data, _ := vfs.ReadFile(fsys, sidecarPath)
			write(t, fsys, sidecarPath, bytes.Replace(data, []byte(`"index":42`), []byte(`"index":43`), 1))
		}, "snapshot " + sidecarPath + ": the checksum is", "the checksum is"},
		{"sidecar under another name", func(t *testing.T, fsys *vfs.Mem) {
			data, _ := vfs.ReadFile(fsys, sidecarPath)
			write(t, fsys, "/00000000000000000050-0000000002.raft-snapshot", data)
		}, "it is of " + name, ""},
		{"checkpoint gone", func(t *testing.T, fsys *vfs.Mem) {
			if err := fsys.Remove("/" + id.FileName()); err != nil {
				t.Fatal(err)
			}
		}, "checkpoint of snapshot " + name, "open checkpoint"},
		{"checkpoint cut", func(t *testing.T, fsys *vfs.Mem) {
			write(t, fsys, "/"+id.FileName(), checkpoint[:500])
		}, "has 500 bytes", "has 500 bytes, want 6099"},
		{"bit in the checkpoint", func(t *testing.T, fsys *vfs.Mem) {
			bad := bytes.Clone(checkpoint)
			bad[3000] ^= 8
			write(t, fsys, "/"+id.FileName(), bad)
		}, "", "checkpoint /" + id.FileName() + ": position 166: batch CRC does not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			s := openStore(t, fsys)
			if err := take(s, 42, id, checkpoint); err != nil {
				t.Fatal(err)
			}
			c.damage(t, fsys)
			_, err := s.List()
			checkError(t, "List", err, c.list)
			_, stream, err := s.Open(name)
			checkError(t, "Open", err, c.open)
			if err == nil {
				_ = stream.Close()
			}
		})
	}
	t.Run("a damaged checkpoint is replaced", func(t *testing.T) {
		fsys := vfs.NewMem()
		s := openStore(t, fsys)
		write(t, fsys, "/"+id.FileName(), checkpoint[:500])
		if err := take(s, 42, id, checkpoint); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Open(name); err != nil {
			t.Error(err)
		}
	})
}

func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: error %v, want %q", what, err, want)
	}
}

// The power goes at every change that a snapshot makes, the removal of the
// oldest one included. Whatever the disk holds then, the store opens, what it
// lists is whole, nothing that was closed is missing, and a snapshot can be
// taken again.
func TestPowerCut(t *testing.T) {
	checkpoint := readFile(t, kafkaCheckpoint)
	rng := rand.New(rand.NewPCG(4, 4))
	prepare := func() (*vfs.Mem, *Store) {
		fsys := vfs.NewMem()
		s := openStore(t, fsys)
		for i := range retain {
			if err := take(s, uint64(10+i), ID{Offset: int64(100 + i), Epoch: 1}, checkpoint); err != nil {
				t.Fatal(err)
			}
		}
		return fsys, s
	}
	fsys, s := prepare()
	before := fsys.Ops()
	next := ID{Offset: 163, Epoch: 1}
	if err := take(s, 42, next, checkpoint); err != nil {
		t.Fatal(err)
	}
	changes := fsys.Ops() - before
	if changes < 10 {
		t.Fatalf("%d changes only", changes)
	}
	for at := 1; at <= changes+1; at++ {
		fsys, s := prepare()
		fsys.CutPowerAt(before + at)
		closed := take(s, 42, next, checkpoint) == nil
		for _, after := range []*vfs.Mem{fsys.Crash(nil), fsys.Crash(rng), fsys.Crash(rng), fsys.Kill()} {
			if err := checkAfterCut(t, after, closed); err != nil {
				t.Errorf("change %d of %d: %v; files %v", at, changes, err, names(t, after))
			}
			if err := take(openStore(t, after), 42, next, checkpoint); err != nil {
				t.Errorf("change %d of %d: again: %v", at, changes, err)
			}
			if err := checkAfterCut(t, after.Crash(nil), true); err != nil {
				t.Errorf("change %d of %d: again: %v", at, changes, err)
			}
		}
	}
}

func checkAfterCut(t *testing.T, fsys *vfs.Mem, closed bool) error {
	s := openStore(t, fsys)
	metas, err := s.List()
	if err != nil {
		return err
	}
	if len(metas) == 0 || metas[0].Index != 42 && metas[0].Index != 11 {
		return fmt.Errorf("list %+v", metas)
	}
	if closed && metas[0].Index != 42 {
		return errors.New("a snapshot that was closed is gone")
	}
	for _, meta := range metas {
		_, stream, err := s.Open(meta.ID)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, stream)
		if err := errors.Join(err, stream.Close()); err != nil || n != meta.Size {
			return fmt.Errorf("%s: %d bytes of %d, error %w", meta.ID, n, meta.Size, err)
		}
	}
	return nil
}

func TestBadSidecars(t *testing.T) {
	for _, text := range []string{"", "\n", "{}\n", "{}\n00000000\n", "null\n" + "d4a3c6a9\n"} {
		if sc, err := decodeSidecar([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, sc)
		}
	}
}

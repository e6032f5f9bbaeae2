package storage

import (
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/storage/vfs"
)

// A start on a full volume finds the ballast's space, and the next one again once
// there was space.
func TestBallast(t *testing.T) {
	const volume = 32 << 20
	mem := vfs.NewMem()
	check(t, mem.Mkdir("d"))
	b := NewBallast(mem, "d", zerolog.Nop())
	free := func() int64 {
		_, free, err := vfs.Space(mem, "d")
		check(t, err)
		return free
	}
	check(t, b.keep())
	if _, err := mem.Stat(filepath.Join("d", ballastFile)); err == nil {
		t.Fatal("made where nobody knows the volume")
	}
	mem.SetVolume(volume)
	check(t, b.keep())
	if left := free(); left != volume-volume/16 {
		t.Fatalf("%d bytes are left", left)
	}
	check(t, b.Release())
	if left := free(); left != volume-volume/16 {
		t.Fatal("given up on a volume that has space")
	}
	f, err := mem.Create(filepath.Join("d", "filler"))
	check(t, err)
	fill := func() {
		t.Helper()
		size, err := f.Size()
		check(t, err)
		_, err = f.WriteAt(make([]byte, free()), size)
		check(t, err)
		check(t, b.keep())
		if free() != 0 {
			t.Fatal("the ballast moved while the node ran")
		}
	}
	fill()
	if !b.said {
		t.Error("nobody was told")
	}
	check(t, b.Release())
	if left := free(); left != volume/16 {
		t.Fatalf("%d bytes are left for a start", left)
	}
	check(t, b.Release()) // of nothing
	check(t, b.keep())
	if left := free(); left != volume/16 {
		t.Fatal("taken again from a volume that is full")
	}
	check(t, f.Truncate(0))
	check(t, b.keep())
	fill()
	check(t, b.Release())
	if left := free(); left != volume/16 {
		t.Fatalf("%d bytes are left for a second start", left)
	}
}

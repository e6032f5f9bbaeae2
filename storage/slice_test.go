package storage

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// A slice that is out delivers the bytes that it promised, whatever happens to
// the log meanwhile; and the log does not wait for it.
func TestSliceOutlivesItsSegment(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, l *Log){
		"truncate inside of it": func(t *testing.T, l *Log) {
			check(t, l.TruncateTo(4))
			appendTest(t, l, records(t, 9, 60), 2)
		},
		"truncate all of it": func(t *testing.T, l *Log) {
			check(t, l.TruncateTo(0))
			appendTest(t, l, records(t, 9, 60), 2)
		},
		"start elsewhere": func(t *testing.T, l *Log) { check(t, l.TruncateFullyAndStartAt(100)) },
		"delete segments": func(t *testing.T, l *Log) {
			check(t, l.Roll())
			check(t, l.AdvanceLogStart(20))
			n, err := l.DeleteSegmentsBelowStart()
			if err != nil || n != 1 {
				t.Fatalf("%d segments removed, %v", n, err)
			}
		},
		"close": func(t *testing.T, l *Log) { check(t, l.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := openTest(t, vfs.OS(), filepath.Join(dir, "t-0"), smallOptions())
			for range 20 {
				appendTest(t, l, records(t, 1, 50), 1)
			}
			s, err := l.Read(2, 1<<20, math.MaxInt64, true)
			check(t, err)
			before, err := s.Bytes()
			check(t, err)
			do(t, l)
			after, err := s.Bytes()
			if err != nil || !bytes.Equal(before, after) {
				t.Fatalf("the slice's bytes have changed: %v", err)
			}
			f, position, ok := s.File()
			if !ok {
				t.Fatal("no file")
			}
			sent := make([]byte, s.Size())
			if _, err := f.ReadAt(sent, position); err != nil || !bytes.Equal(before, sent) {
				t.Fatalf("the file holds something else at %d: %v", position, err)
			}
			s.Release()
			if _, err := f.ReadAt(sent, position); name != "truncate inside of it" && !errors.Is(err, os.ErrClosed) {
				t.Fatalf("the file is still open after the release: %v", err)
			}
			if name == "truncate inside of it" {
				if got := values(t, l, 0); len(got) != 4+9 {
					t.Fatalf("%d values after the truncation, want 13", len(got))
				}
				l = openTest(t, vfs.OS(), l.Path(), smallOptions())
				if l.LEO() != 13 || l.Recovery().Cut {
					t.Fatalf("a start finds a log that ends at %d: %+v", l.LEO(), l.Recovery())
				}
			}
		})
	}
}

// A position that a read or an append has left behind is forgotten when a
// truncation puts other batches there.
func TestTruncationForgetsPositions(t *testing.T) {
	l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
	for range 10 {
		appendTest(t, l, records(t, 1, 50), 1)
	}
	check(t, l.TruncateTo(5))
	for range 5 {
		appendTest(t, l, records(t, 1, 60), 2)
	}
	for offset := range int64(10) {
		if got := all(t, l, offset); len(got) != int(10-offset) || got[0].BaseOffset() != offset {
			t.Fatalf("read from %d: %d batches", offset, len(got))
		}
	}
}

func TestSliceReadAt(t *testing.T) {
	l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
	appendTest(t, l, records(t, 1, 50), 1)
	appendTest(t, l, records(t, 1, 50), 1)
	s, err := l.Read(1, 1<<20, math.MaxInt64, true)
	check(t, err)
	defer s.Release()
	whole, err := s.Bytes()
	check(t, err)
	p := make([]byte, len(whole)+10)
	if n, err := s.ReadAt(p, 0); n != len(whole) || err != io.EOF {
		t.Fatalf("read over the end: %d, %v", n, err)
	}
	if n, err := s.ReadAt(p[:5], int64(len(whole)-5)); n != 5 || err != nil || !bytes.Equal(p[:5], whole[len(whole)-5:]) {
		t.Fatalf("read of the end: %d, %v", n, err)
	}
	if n, err := s.ReadAt(p[:5], int64(len(whole))); n != 0 || err != io.EOF {
		t.Fatalf("read behind the end: %d, %v", n, err)
	}
	empty, err := l.Read(2, 100, math.MaxInt64, true)
	check(t, err)
	if _, _, ok := empty.File(); empty.Size() != 0 || ok {
		t.Fatal("an empty slice has a file")
	}
	if n, err := empty.ReadAt(p, 0); n != 0 || err != io.EOF {
		t.Fatalf("read of nothing: %d, %v", n, err)
	}
	empty.Release()
	empty.Release()
}

// Batches that were damaged on disk are not passed over in silence where the
// read has to look at them.
func TestReadNamesDamage(t *testing.T) {
	mem := vfs.NewMem()
	opts := smallOptions()
	opts.Config.IndexIntervalBytes = 4096
	l := openTest(t, mem, "/t-0", opts)
	for range 10 {
		appendTest(t, l, records(t, 1, 20), 1)
	}
	size := len(records(t, 1, 20))
	change(t, mem, firstLog, func(p []byte) []byte { p[2*size+16] = 9; return p })
	_, err := l.Read(1, 3*size, math.MaxInt64, true)
	if !errors.Is(err, protocol.ErrCorruptMessage) {
		t.Fatalf("read over the damage: %v", err)
	}
	var d *damage
	if !errors.As(err, &d) || d.path != firstLog || d.position != int64(2*size) {
		t.Fatalf("damage is at %v", err)
	}
}

// Appends and reads may run at the same time as flushes and rolls.
func TestConcurrentUse(t *testing.T) {
	l := openTest(t, vfs.OS(), filepath.Join(t.TempDir(), "t-0"), smallOptions())
	const appends = 400
	done := make(chan error, 3)
	go func() {
		for range appends {
			if _, err := l.AppendAsLeader(records(t, 1, 100), 1, AppendOptions{}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	go func() {
		for l.LEO() < appends {
			if err := l.Flush(l.LEO()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	go func() {
		for offset := int64(0); offset < appends; {
			s, err := l.Read(offset, 1000, math.MaxInt64, true)
			if err != nil {
				done <- err
				return
			}
			offset += int64(s.Size() / len(records(t, 1, 100)))
			s.Release()
		}
		done <- nil
	}()
	for range 3 {
		check(t, <-done)
	}
	if got := len(all(t, l, 0)); got != appends {
		t.Fatalf("%d batches", got)
	}
}

package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/klamm/klamm/storage/vfs"
)

// A start has to write: an election, a registration, indexes that were not
// written at the end before. On a volume that somebody has filled to the last
// byte there is no room for it, and a node that does not start cannot be asked to
// delete anything. So a node keeps a file in the directory of its metadata log
// that says nothing, and gives it up when it starts on a full volume.

const ballastFile = "klamm.ballast"

// ballastBytes is the size of the file, less on a small volume. Elections and
// registrations are a few KiB a start.
func ballastBytes(total int64) int64 { return min(total/16, 4<<20) }

// tooFull tells whether a start may want more than is free. What clients fill
// leaves more than that (reserve).
func tooFull(total, free int64) bool { return free < ballastBytes(total)/4 }

const ballastInterval = 5 * time.Second

// Ballast is the file of one directory, which is locked by this process.
type Ballast struct {
	fs   vfs.FS
	dir  string
	path string
	log  zerolog.Logger
	said bool // that the volume is nearly full
}

// NewBallast does nothing yet. Release is for the start, Run for the time after it.
func NewBallast(fsys vfs.FS, dir string, log zerolog.Logger) *Ballast {
	return &Ballast{fs: fsys, dir: dir, path: filepath.Join(dir, ballastFile), log: log}
}

// Release gives the file up where the volume is full.
func (b *Ballast) Release() error {
	total, free, err := vfs.Space(b.fs, b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for the space left in %s: %w", b.dir, err)
	}
	if total <= 0 || !tooFull(total, free) {
		return nil
	}
	switch err := b.fs.Remove(b.path); {
	case err == nil:
		b.log.Warn().Str("path", b.dir).Int64("free", free).Msg("volume of the metadata log is full: the space kept for a start is used now")
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("give up %s: %w", b.path, err)
	}
}

// Run makes the file as soon as there is space for it, and says when the volume
// fills up: a metadata log that cannot be written to ends the node.
func (b *Ballast) Run(ctx context.Context) error {
	ticker := time.NewTicker(ballastInterval)
	defer ticker.Stop()
	for {
		if err := b.keep(); err != nil {
			b.log.Warn().Err(err).Msg("no space is kept for a start on a full volume")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (b *Ballast) keep() error {
	total, free, err := vfs.Space(b.fs, b.dir)
	if err != nil {
		return fmt.Errorf("ask for the space left in %s: %w", b.dir, err)
	}
	if total <= 0 {
		return nil
	}
	if full := tooFull(total, free); full != b.said {
		b.said = full
		if full {
			b.log.Error().Str("path", b.dir).Int64("free", free).Msg("volume of the metadata log is nearly full: the node stops when it is")
		} else {
			b.log.Info().Str("path", b.dir).Int64("free", free).Msg("volume of the metadata log has space again")
		}
	}
	// It is made of what nobody will miss at once.
	size := ballastBytes(total)
	if free < 4*size {
		return nil
	}
	if info, err := b.fs.Stat(b.path); err == nil && info.Size >= size {
		return nil
	}
	if err := b.write(size); err != nil {
		return fmt.Errorf("write %s: %w", b.path, err)
	}
	return nil
}

func (b *Ballast) write(size int64) error {
	f, err := b.fs.Create(b.path)
	if err != nil {
		return err
	}
	if err = hold(f, size); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = b.fs.Remove(b.path)
	}
	return err
}

// hold makes a new file take up size bytes of the volume.
func hold(f vfs.File, size int64) error {
	if file := f.OS(); file != nil {
		err := unix.Fallocate(int(file.Fd()), 0, 0, size)
		if !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	_, err := f.WriteAt(make([]byte, size), 0)
	return err
}

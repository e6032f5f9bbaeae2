package snapshot

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage/vfs"
)

// sink takes one snapshot. Its methods are called one after the other.
type sink struct {
	store    *Store
	id       string
	meta     raftlog.SnapshotMeta
	part     string
	file     vfs.File // nil once closed
	out      *fileWriter
	preamble []byte // until it is whole
	size     int64  // of the checkpoint so far
	err      error  // of an earlier Write: the snapshot is lost
}

// ID is the snapshot's name for List and Open.
func (s *sink) ID() string { return s.id }

// Write takes the next bytes of the stream.
func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	taken := min(preambleSize-len(s.preamble), len(p))
	s.preamble = append(s.preamble, p[:taken]...)
	n, err := s.out.Write(p[taken:])
	s.size += int64(n)
	if err != nil {
		s.err = fmt.Errorf("write snapshot %s: %w", s.part, err)
	}
	return taken + n, s.err
}

// Close verifies what was written and publishes it. After an error, and after
// a power cut before it returned nil, there is no such snapshot.
func (s *sink) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.publish()
	if err != nil {
		return errors.Join(fmt.Errorf("snapshot %s: %w", s.id, err), s.Cancel())
	}
	if err := s.store.reap(); err != nil {
		s.store.log.Warn().Err(err).Msg("could not remove old snapshots")
	}
	return nil
}

func (s *sink) publish() error {
	if s.err != nil {
		return s.err
	}
	if len(s.preamble) < preambleSize {
		return io.ErrUnexpectedEOF
	}
	checkpoint, err := parsePreamble(s.preamble)
	if err != nil {
		return err
	}
	if checkpoint == bootstrapID {
		return errors.New("it is of an empty log")
	}
	if err := s.out.flush(); err != nil {
		return err
	}
	if err := verify(s.file, s.part, s.size); err != nil {
		return err
	}
	if err := freeze(s.file); err != nil {
		return err
	}
	if err := s.closeFile(); err != nil {
		return err
	}
	if err := s.publishCheckpoint(checkpoint); err != nil {
		return err
	}
	return s.publishSidecar(checkpoint)
}

// publishCheckpoint renames the file, or keeps one of the same name that is
// whole: another snapshot points at it, or a peer reads it.
func (s *sink) publishCheckpoint(id ID) error {
	path := filepath.Join(s.store.dir, id.FileName())
	if f, err := s.store.fs.Open(path); err == nil {
		size, err := f.Size()
		if err == nil {
			err = verify(f, path, size)
		}
		if err = errors.Join(err, f.Close()); err == nil {
			s.size = size
			// It may have been renamed in a life that ended before the sync.
			return errors.Join(s.store.fs.SyncDir(s.store.dir), s.store.fs.Remove(s.part))
		}
		s.store.log.Warn().Err(err).Msg("replacing a damaged checkpoint")
	}
	return publish(s.store.fs, s.part, path)
}

func (s *sink) publishSidecar(checkpoint ID) error {
	sc := sidecar{
		Version:            sidecarVersion,
		Index:              s.meta.Index,
		Term:               s.meta.Term,
		Configuration:      s.meta.Configuration,
		ConfigurationIndex: s.meta.ConfigurationIndex,
		Checkpoint:         checkpoint.FileName(),
		Size:               s.size,
	}
	data, err := sc.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(s.store.dir, s.id+sidecarSuffix)
	part := path + partSuffix
	f, err := s.store.fs.Create(part)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return publish(s.store.fs, part, path)
}

func (s *sink) closeFile() error {
	f := s.file
	s.file = nil
	return f.Close()
}

// Cancel throws the snapshot away.
func (s *sink) Cancel() error {
	if s.err == nil {
		s.err = errors.New("snapshot was cancelled")
	}
	if s.file == nil {
		return nil
	}
	return errors.Join(s.closeFile(), s.store.fs.Remove(s.part))
}

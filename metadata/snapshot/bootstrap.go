package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/storage/vfs"
)

// WriteBootstrap writes the 0-0 checkpoint as Kafka's format tool does: recs
// are what the first leader puts into the empty log. The directory exists.
func WriteBootstrap(fsys vfs.FS, dir string, nowMs int64, quorum Quorum, recs []record.Record) error {
	path := filepath.Join(dir, bootstrapID.FileName())
	part := path + partSuffix
	f, err := fsys.Create(part)
	if err != nil {
		return fmt.Errorf("write bootstrap checkpoint: %w", err)
	}
	out := newFileWriter(f)
	_, err = Encode(out, bootstrapID.Epoch, Header{LastTimestampMs: nowMs, KRaft: quorum}, slices.Values(recs))
	if err == nil {
		err = out.flush()
	}
	if err := errors.Join(err, freeze(f), f.Close()); err != nil {
		return fmt.Errorf("write bootstrap checkpoint %s: %w", part, err)
	}
	return publish(fsys, part, path)
}

// ReadBootstrap reads the 0-0 checkpoint; ok is false where there is none.
func ReadBootstrap(fsys vfs.FS, dir string) (h Header, recs []record.Record, ok bool, err error) {
	h, err = Read(fsys, dir, bootstrapID, func(rec record.Record) error {
		recs = append(recs, rec)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Header{}, nil, false, nil
	}
	return h, recs, err == nil, err
}

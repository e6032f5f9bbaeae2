package snapshot

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"

	"github.com/klamm/klamm/storage/vfs"
)

// fileWriter writes a file from its beginning, buffered.
type fileWriter struct {
	buf *bufio.Writer
}

func newFileWriter(f vfs.File) *fileWriter {
	return &fileWriter{buf: bufio.NewWriterSize(io.NewOffsetWriter(f, 0), 64<<10)}
}

func (w *fileWriter) Write(p []byte) (int, error) { return w.buf.Write(p) }

func (w *fileWriter) flush() error { return w.buf.Flush() }

// reader reads a file from its beginning.
func reader(f vfs.File) (*bufio.Reader, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 64<<10), nil
}

// freeze makes a checkpoint read-only, as Kafka does, and its bytes durable.
func freeze(f vfs.File) error {
	if file := f.OS(); file != nil {
		if err := file.Chmod(0o400); err != nil {
			return err
		}
	}
	return f.Sync()
}

// publish gives a synced file its name, durably.
func publish(fsys vfs.FS, from, to string) error {
	if err := fsys.Rename(from, to); err != nil {
		return fmt.Errorf("publish %s: %w", to, err)
	}
	if err := fsys.SyncDir(filepath.Dir(to)); err != nil {
		return fmt.Errorf("publish %s: %w", to, err)
	}
	return nil
}

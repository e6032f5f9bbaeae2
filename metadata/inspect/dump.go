package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// Options say how to print.
type Options struct {
	// JSON prints one object per record and nothing else.
	JSON bool
}

// Dump prints a segment, a checkpoint, or all of both in a directory: the
// metadata directory, or a log directory that holds it. A record that can not
// be decoded is printed as such; Dump then goes on with the next batch and
// returns the first such error, with file and position, at the end.
func Dump(w io.Writer, path string, opts Options) error {
	files, err := filesOf(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	var first error
	for i, file := range files {
		if i > 0 && !opts.JSON {
			fmt.Fprintln(out)
		}
		d := dumper{out: out, path: file, printer: newPrinter(out, file, opts)}
		err := d.dump()
		if errors.Is(err, fs.ErrNotExist) && file != path {
			continue // a running node has removed it since it was listed
		}
		if err != nil && first == nil {
			first = fmt.Errorf("%s: %w", file, err)
		}
	}
	return errors.Join(first, out.Flush())
}

var segmentName = regexp.MustCompile(`^(\d{20})\.log$`)

// filesOf returns what there is to dump, checkpoints first.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	inner := filepath.Join(path, protocol.TopicPartition{Topic: protocol.MetadataTopic}.String())
	if info, err := os.Stat(inner); err == nil && info.IsDir() {
		path = inner
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var checkpoints, segments []string
	for _, e := range entries { // sorted by name, which is by offset
		switch _, isCheckpoint := snapshot.ParseFileName(e.Name()); {
		case isCheckpoint:
			checkpoints = append(checkpoints, filepath.Join(path, e.Name()))
		case segmentName.MatchString(e.Name()):
			segments = append(segments, filepath.Join(path, e.Name()))
		}
	}
	if len(checkpoints)+len(segments) == 0 {
		return nil, fmt.Errorf("%s holds no segment and no checkpoint of a metadata log", path)
	}
	return append(checkpoints, segments...), nil
}

// printer prints one file.
type printer interface {
	begin(kind string)
	batch(b batch.Batch, position int64)
	record(b batch.Batch, e record.Entry)
	trouble(position int64, err error)
}

func newPrinter(out *bufio.Writer, path string, opts Options) printer {
	if opts.JSON {
		return &jsonPrinter{out: out, path: path}
	}
	return &textPrinter{out: out, path: path}
}

type dumper struct {
	out     *bufio.Writer
	path    string
	printer printer
}

func (d *dumper) dump() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer f.Close()
	name := filepath.Base(d.path)
	checkpoint, isCheckpoint := snapshot.ParseFileName(name)
	switch {
	case isCheckpoint:
		d.printer.begin(fmt.Sprintf("Snapshot end offset: %d, epoch: %d", checkpoint.Offset, checkpoint.Epoch))
	case segmentName.MatchString(name):
		base, _ := strconv.ParseInt(strings.TrimSuffix(name, ".log"), 10, 64)
		d.printer.begin(fmt.Sprintf("Log starting offset: %d", base))
	default:
		d.printer.begin("")
	}
	return d.scan(f, isCheckpoint)
}

func (d *dumper) scan(f io.Reader, isCheckpoint bool) error {
	s := record.NewScanner(bufio.NewReaderSize(f, 64<<10))
	var first error
	for {
		b, err := s.Next()
		if err == io.EOF {
			return first
		}
		if err != nil {
			err = fmt.Errorf("position %d: %w", s.Position(), err)
			d.printer.trouble(s.Position(), err)
			if errors.Is(err, batch.ErrIncomplete) && !isCheckpoint {
				return first // a node writes here, or was killed while it did
			}
			return errors.Join(first, err)
		}
		d.printer.batch(b, s.Position())
		err = record.Each(b, func(e record.Entry) error {
			d.printer.record(b, e)
			return nil
		})
		if err != nil {
			err = fmt.Errorf("position %d: %w", s.Position(), err)
			d.printer.trouble(s.Position(), err)
			if first == nil {
				first = err
			}
		}
	}
}

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// The offset checkpoints of a log directory, by file name. Each is text: line
// 1 the version 0, line 2 the number of entries, then one line per entry with
// topic, partition and offset between single spaces.
const (
	recoveryPointFile  = "recovery-point-offset-checkpoint"
	logStartOffsetFile = "log-start-offset-checkpoint"
	highWatermarkFile  = "replication-offset-checkpoint"

	checkpointVersion = "0"
)

// writeAtomic replaces a file so that after a crash it is there as it was or
// as it is now: everything is written and synced under another name first.
// The caller syncs the directory, perhaps once for several files.
func writeAtomic(fsys vfs.FS, path string, data []byte) error {
	tmp := path + tmpSuffix
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if len(data) > 0 { // an empty file has no bytes to lose
		if _, err = f.WriteAt(data, 0); err == nil {
			err = f.Sync()
		}
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return fsys.Rename(tmp, path)
}

// appendOffsetCheckpoint encodes an offset checkpoint.
func appendOffsetCheckpoint(dst []byte, offsets map[protocol.TopicPartition]int64) []byte {
	dst = fmt.Appendf(dst, "%s\n%d\n", checkpointVersion, len(offsets))
	for tp, offset := range offsets {
		dst = fmt.Appendf(dst, "%s %d %d\n", tp.Topic, tp.Partition, offset)
	}
	return dst
}

// parseOffsetCheckpoint decodes an offset checkpoint. An empty file is an empty
// checkpoint: Kafka creates some of them that way.
func parseOffsetCheckpoint(data []byte) (map[protocol.TopicPartition]int64, error) {
	lines, err := checkpointLines(data)
	if err != nil {
		return nil, err
	}
	offsets := make(map[protocol.TopicPartition]int64, len(lines))
	for i, line := range lines {
		fields := strings.Split(line, " ")
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: %q is not: topic partition offset", i+3, line)
		}
		partition, err := strconv.ParseInt(fields[1], 10, 32)
		if err != nil || partition < 0 {
			return nil, fmt.Errorf("line %d: partition %q", i+3, fields[1])
		}
		offset, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("line %d: offset %q", i+3, fields[2])
		}
		tp := protocol.TopicPartition{Topic: fields[0], Partition: int32(partition)}
		if _, twice := offsets[tp]; twice || tp.Topic == "" {
			return nil, fmt.Errorf("line %d: %q stands there twice or has no topic", i+3, tp)
		}
		offsets[tp] = offset
	}
	return offsets, nil
}

// checkpointLines checks the two head lines of a text checkpoint and returns
// the lines of its entries.
func checkpointLines(data []byte) ([]string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		return nil, errors.New("the last line has no end")
	}
	lines := strings.Split(string(data[:len(data)-1]), "\n")
	if lines[0] != checkpointVersion {
		return nil, fmt.Errorf("line 1: version %q, want %s", lines[0], checkpointVersion)
	}
	if len(lines) < 2 {
		return nil, errors.New("line 2 is missing: the number of entries")
	}
	count, err := strconv.Atoi(lines[1])
	if err != nil || count != len(lines)-2 {
		return nil, fmt.Errorf("line 2: %q entries, but %d lines follow", lines[1], len(lines)-2)
	}
	return lines[2:], nil
}

// readOffsetCheckpoint reads a checkpoint of a log directory; a missing file
// is an empty one.
func readOffsetCheckpoint(fsys vfs.FS, path string) (map[protocol.TopicPartition]int64, error) {
	data, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[protocol.TopicPartition]int64{}, nil
	}
	if err != nil {
		return nil, err
	}
	offsets, err := parseOffsetCheckpoint(data)
	if err != nil {
		return nil, &FormatError{Path: path, Err: err}
	}
	return offsets, nil
}

// FormatError is a file whose content is not what its name promises.
type FormatError struct {
	Path string
	Err  error
}

// Error names the file and what is wrong with it.
func (e *FormatError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *FormatError) Unwrap() error { return e.Err }

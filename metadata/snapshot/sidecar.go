package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"

	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage/vfs"
)

const (
	sidecarSuffix  = ".raft-snapshot"
	sidecarVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sidecar is what Raft must know of a snapshot. On disk it is a line of JSON
// and a line with the CRC-32C of the first, in hexadecimal.
type sidecar struct {
	Version            int    `json:"version"`
	Index              uint64 `json:"index"`
	Term               uint64 `json:"term"`
	Configuration      []byte `json:"configuration"`
	ConfigurationIndex uint64 `json:"configurationIndex"`
	Checkpoint         string `json:"checkpoint"` // file name
	Size               int64  `json:"size"`       // of the checkpoint
}

// IsSidecar tells the files that make a checkpoint a snapshot of Raft's.
func IsSidecar(name string) bool { return strings.HasSuffix(name, sidecarSuffix) }

// snapshotID is the snapshot's name for Raft, and its sidecar's but for the suffix.
func snapshotID(index, term uint64) string { return fmt.Sprintf("%020d-%010d", index, term) }

func (s *sidecar) meta() raftlog.SnapshotMeta {
	return raftlog.SnapshotMeta{
		ID:                 snapshotID(s.Index, s.Term),
		Index:              s.Index,
		Term:               s.Term,
		Configuration:      s.Configuration,
		ConfigurationIndex: s.ConfigurationIndex,
		Size:               s.Size + preambleSize,
	}
}

func (s *sidecar) encode() ([]byte, error) {
	line, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(line, "\n%08x\n", crc32.Checksum(line, castagnoli)), nil
}

func decodeSidecar(data []byte) (*sidecar, error) {
	line, sum, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, errors.New("it ends early")
	}
	if want := fmt.Sprintf("%08x\n", crc32.Checksum(line, castagnoli)); string(sum) != want {
		return nil, fmt.Errorf("the checksum is %q, want %q", sum, want)
	}
	s := &sidecar{}
	if err := json.Unmarshal(line, s); err != nil {
		return nil, err
	}
	if s.Version != sidecarVersion {
		return nil, fmt.Errorf("version %d is unknown, %d is known", s.Version, sidecarVersion)
	}
	if _, ok := ParseFileName(s.Checkpoint); !ok {
		return nil, fmt.Errorf("%q is no checkpoint's name", s.Checkpoint)
	}
	return s, nil
}

func readSidecar(fsys vfs.FS, path string) (*sidecar, error) {
	data, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %s: %w", path, err)
	}
	s, err := decodeSidecar(data)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	if want := snapshotID(s.Index, s.Term) + sidecarSuffix; filepath.Base(path) != want {
		return nil, fmt.Errorf("snapshot %s: it is of %s", path, strings.TrimSuffix(want, sidecarSuffix))
	}
	return s, nil
}

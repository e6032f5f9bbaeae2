package storage

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// Stray is a log that was set aside because it does not belong on its node any
// more: <topic>-<partition>.<id>-stray. Nothing serves it and nothing removes it
// but RemoveStray.
type Stray struct {
	// TopicPartition is what the directory's name says; a very long topic name is
	// cut there.
	protocol.TopicPartition
	Path    string
	TopicID protocol.UUID // zero where the log had not got it yet
	Bytes   int64         // of all its files
	Written time.Time     // when the last of its records came; zero without any
}

// Strays lists what was set aside in a log directory. It changes nothing, and a
// node may be at work there.
func Strays(fsys vfs.FS, dir string) ([]Stray, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var strays []Stray
	for _, e := range entries {
		if tp, kind := parseDirName(e.Name); e.IsDir && kind == dirStray {
			s := Stray{TopicPartition: tp, Path: filepath.Join(dir, e.Name)}
			if err := s.look(fsys); err != nil {
				return nil, err
			}
			strays = append(strays, s)
		}
	}
	return strays, nil
}

// look reads sizes, times and the topic's id.
func (s *Stray) look(fsys vfs.FS) error {
	entries, err := fsys.ReadDir(s.Path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir {
			continue
		}
		path := filepath.Join(s.Path, e.Name)
		info, err := fsys.Stat(path)
		if err != nil {
			return err
		}
		s.Bytes += info.Size
		if _, ok := parseFileName(e.Name, logSuffix); ok && info.Size > 0 && info.Modified.After(s.Written) {
			s.Written = info.Modified
		}
		if e.Name == partitionMetaFile {
			data, err := vfs.ReadFile(fsys, path)
			if err != nil {
				return err
			}
			// What can not be read is no topic's: zero.
			s.TopicID, _ = parsePartitionMetadata(data)
		}
	}
	return nil
}

// RemoveStray removes a log that was set aside, and refuses everything else. A
// crash may leave part of it, still under its name.
func RemoveStray(fsys vfs.FS, path string) error {
	if _, kind := parseDirName(filepath.Base(path)); kind != dirStray {
		return fmt.Errorf("%s is no log that was set aside", path)
	}
	if err := fsys.RemoveAll(path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

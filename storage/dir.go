package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

const (
	lockFile          = ".lock"
	cleanShutdownFile = ".kafka_cleanshutdown"
)

// Dir is one log directory (log.dirs), held by this process. A write or sync
// that fails anywhere in it takes all of it out of service, for good.
type Dir struct {
	fs   vfs.FS
	path string
	meta MetaProperties
	lock io.Closer

	// clean: it was closed in order by the broker of this epoch.
	clean      bool
	cleanEpoch protocol.BrokerEpoch

	failure atomic.Pointer[error]
	failed  chan struct{} // closed with the first failure
	failing sync.Once
	space   space

	// checkpoint guards the maps and the files, which say the same.
	checkpoint     sync.Mutex
	recoveryPoints map[protocol.TopicPartition]int64
	logStarts      map[protocol.TopicPartition]int64
	highWatermarks map[protocol.TopicPartition]int64
}

// ErrNotFormatted is a log directory without meta.properties.
var ErrNotFormatted = errors.New("not formatted")

// Format writes meta.properties into a log directory, which it makes where it
// is missing. It refuses one that has an identity already.
func Format(fsys vfs.FS, path string, meta MetaProperties, now time.Time) error {
	file := filepath.Join(path, metaPropertiesFile)
	if _, err := fsys.Stat(file); err == nil {
		return fmt.Errorf("%s is there already: %w", file, fs.ErrExist)
	}
	if err := mkdirAll(fsys, path); err != nil {
		return fmt.Errorf("make log directory: %w", err)
	}
	return writeMeta(fsys, path, meta, now)
}

func writeMeta(fsys vfs.FS, path string, meta MetaProperties, now time.Time) error {
	file := filepath.Join(path, metaPropertiesFile)
	if err := writeAtomic(fsys, file, meta.format(now)); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := fsys.SyncDir(path); err != nil {
		return fmt.Errorf("sync directory %s: %w", path, err)
	}
	return nil
}

// mkdirAll makes a directory and its parents, durably.
func mkdirAll(fsys vfs.FS, path string) error {
	if info, err := fsys.Stat(path); err == nil {
		if !info.IsDir {
			return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("not a directory")}
		}
		return nil
	}
	parent := filepath.Dir(path)
	if err := mkdirAll(fsys, parent); err != nil {
		return err
	}
	if err := fsys.Mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(parent)
}

// ReadMetaProperties reads the identity of a log directory. It is
// ErrNotFormatted where there is none.
func ReadMetaProperties(fsys vfs.FS, path string) (MetaProperties, error) {
	file := filepath.Join(path, metaPropertiesFile)
	data, err := vfs.ReadFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return MetaProperties{}, fmt.Errorf("%s: %w: %s is missing", path, ErrNotFormatted, metaPropertiesFile)
	}
	if err != nil {
		return MetaProperties{}, err
	}
	meta, err := parseMetaProperties(data)
	if err != nil {
		return MetaProperties{}, &FormatError{file, err}
	}
	return meta, nil
}

// OpenDir takes a formatted log directory for this process: it holds its lock
// and knows who it is. A directory without an id gets one.
func OpenDir(fsys vfs.FS, path string, now time.Time) (*Dir, error) {
	lock, err := fsys.Lock(filepath.Join(path, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("log directory %s is %w: another broker or tool uses it", path, err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: there is no such directory", path, ErrNotFormatted)
	}
	if err != nil {
		return nil, fmt.Errorf("lock log directory %s: %w", path, err)
	}
	d := &Dir{fs: fsys, path: path, lock: lock, failed: make(chan struct{}), cleanEpoch: -1}
	if err := d.read(now); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return d, nil
}

// Held tells whether a process holds a log directory of the operating system's.
func Held(path string) (bool, error) { return vfs.Locked(filepath.Join(path, lockFile)) }

func (d *Dir) read(now time.Time) (err error) {
	if d.meta, err = ReadMetaProperties(d.fs, d.path); err != nil {
		return err
	}
	if d.meta.DirectoryID == protocol.ZeroUUID {
		d.meta.DirectoryID = protocol.NewUUID()
		if err := writeMeta(d.fs, d.path, d.meta, now); err != nil {
			return err
		}
	}
	file := filepath.Join(d.path, cleanShutdownFile)
	data, err := vfs.ReadFile(d.fs, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Written by Kafka before 3.7 it is empty: clean, but no epoch.
	d.clean = true
	var content cleanShutdown
	if json.Unmarshal(data, &content) == nil && content.BrokerEpoch != nil {
		d.cleanEpoch = *content.BrokerEpoch
	}
	return nil
}

// cleanShutdown is the content of .kafka_cleanshutdown.
type cleanShutdown struct {
	Version     int                   `json:"version"`
	BrokerEpoch *protocol.BrokerEpoch `json:"brokerEpoch"`
}

// Path returns where the directory is.
func (d *Dir) Path() string { return d.path }

// ID returns the directory's id.
func (d *Dir) ID() protocol.UUID { return d.meta.DirectoryID }

// MetaProperties returns what meta.properties says.
func (d *Dir) MetaProperties() MetaProperties { return d.meta }

// CleanShutdown tells whether the last process that used the directory closed
// it in order, and the epoch of its broker; −1 where that is unknown.
func (d *Dir) CleanShutdown() (protocol.BrokerEpoch, bool) { return d.cleanEpoch, d.clean }

// Fail takes the directory out of service.
func (d *Dir) Fail(err error) {
	d.failing.Do(func() {
		err = fmt.Errorf("%w: log directory %s is offline: %w", protocol.ErrKafkaStorageError, d.path, err)
		d.failure.Store(&err)
		close(d.failed)
	})
}

// Err returns why the directory is out of service, or nil.
func (d *Dir) Err() error {
	if err := d.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Failed is closed when the directory goes out of service.
func (d *Dir) Failed() <-chan struct{} { return d.failed }

// Close gives the directory back.
func (d *Dir) Close() error {
	err := d.fs.Remove(filepath.Join(d.path, lockFile))
	if d.Err() != nil {
		err = nil // it is out of reach
	}
	if closeErr := d.lock.Close(); err == nil {
		err = closeErr
	}
	return err
}

// beginUse removes the mark of a clean shutdown, durably, before any log is
// touched, and reads the checkpoints. One that cannot be read costs time,
// not records: everything is checked then.
func (d *Dir) beginUse(warn func(err error)) error {
	if d.clean {
		if err := d.fs.Remove(filepath.Join(d.path, cleanShutdownFile)); err != nil {
			return err
		}
		if err := d.fs.SyncDir(d.path); err != nil {
			return err
		}
	}
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	for name, offsets := range d.checkpointsLocked() {
		read, err := readOffsetCheckpoint(d.fs, filepath.Join(d.path, name))
		var bad *FormatError
		if errors.As(err, &bad) {
			warn(err)
			read, err = map[protocol.TopicPartition]int64{}, nil
		}
		if err != nil {
			return err
		}
		*offsets = read
	}
	return nil
}

// syncNames makes the names of the logs in the directory durable.
func (d *Dir) syncNames() error {
	if err := d.fs.SyncDir(d.path); err != nil {
		err = fmt.Errorf("sync directory %s: %w", d.path, err)
		d.Fail(err)
		return err
	}
	return nil
}

// writeCheckpoint replaces an offset checkpoint, durably.
func (d *Dir) writeCheckpoint(name string, offsets map[protocol.TopicPartition]int64) error {
	if err := d.Err(); err != nil {
		return err
	}
	err := writeAtomic(d.fs, filepath.Join(d.path, name), appendOffsetCheckpoint(nil, offsets))
	if err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		err = fmt.Errorf("write %s in %s: %w", name, d.path, err)
		if isFull(err) {
			// The file of before is there, and the next one may find space.
			return fmt.Errorf("%w: %w", protocol.ErrKafkaStorageError, err)
		}
		d.Fail(err)
	}
	return err
}

// save writes what collect returns to an offset checkpoint, if it is not what
// the file has. Both happen under one lock, so a recovery point that is lowered
// meanwhile is either seen or written later.
func (d *Dir) save(name string, saved *map[protocol.TopicPartition]int64, collect func() map[protocol.TopicPartition]int64) error {
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	offsets := collect()
	if maps.Equal(offsets, *saved) {
		return d.Err()
	}
	if err := d.writeCheckpoint(name, offsets); err != nil {
		return err
	}
	*saved = offsets
	return nil
}

// saveHighWatermarks writes the high watermarks, whatever the file has.
func (d *Dir) saveHighWatermarks(offsets map[protocol.TopicPartition]int64) error {
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	if err := d.writeCheckpoint(highWatermarkFile, offsets); err != nil {
		return err
	}
	d.highWatermarks = offsets
	return nil
}

func (d *Dir) savedHighWatermark(tp protocol.TopicPartition) int64 {
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	return d.highWatermarks[tp]
}

// saved is what the checkpoints say of a log.
func (d *Dir) saved(tp protocol.TopicPartition) (recoveryPoint, logStart int64) {
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	return d.recoveryPoints[tp], d.logStarts[tp]
}

// checkpointsLocked are the checkpoints by file.
func (d *Dir) checkpointsLocked() map[string]*map[protocol.TopicPartition]int64 {
	return map[string]*map[protocol.TopicPartition]int64{
		recoveryPointFile: &d.recoveryPoints, logStartOffsetFile: &d.logStarts, highWatermarkFile: &d.highWatermarks,
	}
}

// remembers tells whether a checkpoint names a partition.
func (d *Dir) remembers(tp protocol.TopicPartition) bool {
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	for _, offsets := range d.checkpointsLocked() {
		if _, ok := (*offsets)[tp]; ok {
			return true
		}
	}
	return false
}

// forget takes partitions out of the checkpoints.
func (d *Dir) forget(gone func(protocol.TopicPartition) bool) error {
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	for name, saved := range d.checkpointsLocked() {
		offsets := maps.Clone(*saved)
		maps.DeleteFunc(offsets, func(tp protocol.TopicPartition, _ int64) bool { return gone(tp) })
		if len(offsets) == len(*saved) {
			continue
		}
		if err := d.writeCheckpoint(name, offsets); err != nil {
			return err
		}
		*saved = offsets
	}
	return nil
}

// lowerRecoveryPoint makes sure that the file says no more than offset.
func (d *Dir) lowerRecoveryPoint(tp protocol.TopicPartition, offset int64) error {
	d.checkpoint.Lock()
	defer d.checkpoint.Unlock()
	if d.recoveryPoints[tp] <= offset {
		return nil
	}
	offsets := maps.Clone(d.recoveryPoints)
	offsets[tp] = offset
	if err := d.writeCheckpoint(recoveryPointFile, offsets); err != nil {
		return err
	}
	d.recoveryPoints = offsets
	return nil
}

// markClean writes the mark of a clean shutdown: everything is closed and synced.
func (d *Dir) markClean(epoch protocol.BrokerEpoch) error {
	data, err := json.Marshal(cleanShutdown{BrokerEpoch: &epoch})
	if err != nil {
		return err
	}
	file := filepath.Join(d.path, cleanShutdownFile)
	if err := writeAtomic(d.fs, file, data); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return fmt.Errorf("sync directory %s: %w", d.path, err)
	}
	return nil
}

// CheckDirs tells whether log directories belong together: to one cluster and
// one node, each under its own id.
func CheckDirs(dirs []*Dir) error {
	for i, d := range dirs {
		file := filepath.Join(d.path, metaPropertiesFile)
		for _, other := range dirs[:i] {
			switch otherFile := filepath.Join(other.path, metaPropertiesFile); {
			case d.meta.ClusterID != other.meta.ClusterID:
				return fmt.Errorf("%s has cluster.id %q, but %s has %q", file, d.meta.ClusterID, otherFile, other.meta.ClusterID)
			case d.meta.NodeID != other.meta.NodeID:
				return fmt.Errorf("%s has node.id %d, but %s has %d", file, d.meta.NodeID, otherFile, other.meta.NodeID)
			case d.meta.DirectoryID == other.meta.DirectoryID:
				return fmt.Errorf("%s and %s have the same directory.id %s", file, otherFile, d.meta.DirectoryID)
			}
		}
	}
	return nil
}

// CheckNode tells whether the directory belongs to a node.
func (d *Dir) CheckNode(node protocol.NodeID) error {
	if d.meta.NodeID != node {
		return fmt.Errorf("%s has node.id %d, but this node is %d",
			filepath.Join(d.path, metaPropertiesFile), d.meta.NodeID, node)
	}
	return nil
}

// Space returns the size of the volume that the directory is on and what of it
// may still be written, in bytes; −1 where that is unknown.
func (d *Dir) Space() (total, usable int64, err error) {
	total, usable, err = vfs.Space(d.fs, d.path)
	if err != nil {
		return total, usable, fmt.Errorf("look at the volume of %s: %w", d.path, err)
	}
	return total, usable, nil
}

package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// ID is what a checkpoint holds: everything below Offset, whose last record was
// written in Epoch.
type ID struct {
	Offset int64 // exclusive
	Epoch  protocol.ControllerEpoch
}

// bootstrapID is the name under which an empty log's first records lie.
var bootstrapID = ID{}

const (
	checkpointSuffix = ".checkpoint"
	partSuffix       = ".part"
)

// FileName is the checkpoint's name in the metadata directory.
func (id ID) FileName() string {
	return fmt.Sprintf("%020d-%010d%s", id.Offset, id.Epoch, checkpointSuffix)
}

func (id ID) compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Offset, other.Offset), cmp.Compare(id.Epoch, other.Epoch))
}

var checkpointName = regexp.MustCompile(`^(\d{20})-(\d{10})\.checkpoint$`)

// ParseFileName reads a name that FileName wrote.
func ParseFileName(name string) (ID, bool) {
	m := checkpointName.FindStringSubmatch(name)
	if m == nil {
		return ID{}, false
	}
	offset, err1 := strconv.ParseInt(m[1], 10, 64)
	epoch, err2 := strconv.ParseInt(m[2], 10, 32)
	return ID{Offset: offset, Epoch: protocol.ControllerEpoch(epoch)}, err1 == nil && err2 == nil
}

// Checkpoints lists the checkpoints in a metadata directory, oldest first,
// without the bootstrap one. A directory that does not exist has none.
func Checkpoints(fsys vfs.FS, dir string) ([]ID, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var ids []ID
	for _, e := range entries {
		if id, ok := ParseFileName(e.Name); ok && !e.IsDir && id != bootstrapID {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, ID.compare)
	return ids, nil
}

// Read decodes the checkpoint id of a metadata directory.
func Read(fsys vfs.FS, dir string, id ID, each func(record.Record) error) (Header, error) {
	path := filepath.Join(dir, id.FileName())
	f, err := fsys.Open(path)
	if err != nil {
		return Header{}, fmt.Errorf("open checkpoint: %w", err)
	}
	defer f.Close()
	src, err := reader(f)
	if err != nil {
		return Header{}, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	header, err := Decode(src, each)
	if err != nil {
		return header, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return header, nil
}

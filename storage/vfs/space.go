package vfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// Space returns the size of the volume that a path is on and what of it may
// still be written, in bytes; −1 each for a file system that has no volume.
func Space(fsys FS, path string) (total, usable int64, err error) {
	if v, ok := fsys.(interface {
		Space(path string) (total, usable int64, err error)
	}); ok {
		return v.Space(path)
	}
	if _, real := fsys.(osFS); !real {
		return -1, -1, nil
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return -1, -1, err
	}
	return blocks(stat.Blocks, int64(stat.Bsize)), blocks(stat.Bavail, int64(stat.Bsize)), nil
}

// blocks is a size in bytes; one that does not fit is the largest there is.
func blocks(n uint64, size int64) int64 {
	if size > 0 && n > uint64(math.MaxInt64/size) {
		return math.MaxInt64
	}
	return int64(n) * size
}

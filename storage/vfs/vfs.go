package vfs

import (
	"io"
	"os"
	"time"
)

// FS is a file system. Errors are those of package os: errors.Is with
// fs.ErrNotExist and fs.ErrExist works on them. Paths use the separator of
// path/filepath.
type FS interface {
	// Create opens a file for reading and writing, empty whether it existed or not.
	Create(path string) (File, error)
	// Open opens an existing file for reading.
	Open(path string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(path string) (File, error)
	// Stat describes a file or directory.
	Stat(path string) (Info, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(path string) ([]Entry, error)
	// Mkdir makes a directory, whose parent exists.
	Mkdir(path string) error
	// Remove deletes a file or an empty directory.
	Remove(path string) error
	// RemoveAll deletes a directory with everything in it; nil where there is none.
	RemoveAll(path string) error
	// Rename gives a file or directory another name in the same directory. A
	// file of that name is replaced in one step.
	Rename(from, to string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
	// Lock creates the file and holds an exclusive lock on it against all
	// other holders, in this process too, until the lock is closed. It does not
	// wait: a held lock is ErrLocked.
	Lock(path string) (io.Closer, error)
}

// File is an open file. Reads and writes at explicit positions may run at the
// same time.
type File interface {
	io.ReaderAt
	// WriterAt writes everything or returns an error.
	io.WriterAt
	io.Closer
	// Size is the file's present length in bytes.
	Size() (int64, error)
	// Truncate cuts the file, or extends it with zeros.
	Truncate(size int64) error
	// Sync makes the bytes durable, and the length that is needed to read them.
	Sync() error
	// OS is the operating system's file, for sendfile; nil where there is none.
	OS() *os.File
}

// Info describes a file.
type Info struct {
	Size     int64
	IsDir    bool
	Modified time.Time
}

// Entry is one name in a directory.
type Entry struct {
	Name  string
	IsDir bool
}

// ReadFile returns the whole content of a file.
func ReadFile(fs FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err == io.EOF {
		err = nil
	}
	return data[:n], err
}

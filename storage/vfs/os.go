package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is what Lock returns where somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

type osFS struct{}

const (
	filePermissions = 0o644
	dirPermissions  = 0o755
)

func (osFS) Create(path string) (File, error) {
	return wrap(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, filePermissions))
}

func (osFS) Open(path string) (File, error) { return wrap(os.Open(path)) }

func (osFS) OpenWrite(path string) (File, error) {
	return wrap(os.OpenFile(path, os.O_RDWR, filePermissions))
}

func (osFS) Stat(path string) (Info, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: info.Size(), IsDir: info.IsDir(), Modified: info.ModTime()}, nil
}

func (osFS) ReadDir(path string) ([]Entry, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		isDir := e.IsDir()
		if e.Type()&os.ModeSymlink != 0 {
			// An operator may have moved a replica to another disk by a link.
			if info, err := os.Stat(path + string(os.PathSeparator) + e.Name()); err == nil {
				isDir = info.IsDir()
			}
		}
		out = append(out, Entry{Name: e.Name(), IsDir: isDir})
	}
	return out, nil
}

func (osFS) Mkdir(path string) error      { return os.Mkdir(path, dirPermissions) }
func (osFS) Remove(path string) error     { return os.Remove(path) }
func (osFS) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Lock takes an open file description lock. It excludes the POSIX record
// locks that Java's FileChannel takes, so Kafka's tools and klamm see each
// other, and unlike those it also excludes a second holder in one process.
func (osFS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, filePermissions)
	if err != nil {
		return nil, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sync is fdatasync: it leaves out times, which nobody relies on, and so
// saves a journal commit where the length did not change.
func (f osFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func (f osFile) OS() *os.File { return f.File }

// Locked tells whether somebody holds the lock of a file of the operating
// system's, Kafka's Java too. It takes none and makes no file.
func Locked(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("look at the lock of %s: %w", path, err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

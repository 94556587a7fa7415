//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

type osFile struct{ *os.File }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Create(name string) (File, error) { return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) }

func (osFS) Open(name string) (File, error) { return open(name, os.O_RDONLY) }

func (osFS) OpenWrite(name string) (File, error) { return open(name, os.O_RDWR) }

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// MkdirAll syncs the parent of each directory that it makes, so that what is later synced inside can be found.
func (o osFS) MkdirAll(name string) error {
	name = filepath.Clean(name)
	switch st, err := os.Stat(name); {
	case err == nil && st.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: unix.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(name)
	if err := o.MkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock never removes the file: a process that had opened the removed file would hold a lock on nothing.
func (osFS) Lock(name, holder string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = flock(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		b, _ := io.ReadAll(io.LimitReader(f, 512)) // who holds it is a courtesy
		f.Close()
		return nil, &LockedError{Name: name, Holder: strings.TrimSpace(string(b))}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(holder+"\n"), 0)
	}
	if err != nil && !NoSpace(err) { // on a full disk the lock is as good, only nameless
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

func (osFS) Free(name string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(name, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
		}
		return int64(st.Bavail) * int64(st.Bsize), nil
	}
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// control runs fn on the descriptor without switching the file to blocking mode, and repeats it when interrupted.
func (f osFile) control(op string, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		for {
			if failed = fn(int(fd)); failed != unix.EINTR {
				return
			}
		}
	})
	if err == nil && failed != nil {
		err = &fs.PathError{Op: op, Path: f.Name(), Err: failed}
	}
	return err
}

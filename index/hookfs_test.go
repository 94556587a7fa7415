package index_test

import (
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hookFS calls a function before each operation that changes something; its error is the operation's. The function may be
// called from several goroutines, one at a time.
type hookFS struct {
	vfs.FS
	mu   sync.Mutex
	hook func(op, name string) error
}

func (f *hookFS) setHook(hook func(op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *hookFS) before(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hook == nil {
		return nil
	}
	return f.hook(op, name)
}

func (f *hookFS) wrap(file vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &hookFile{File: file, fs: f, name: name}, nil
}

func (f *hookFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.before("create", name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, category)
	return f.wrap(file, name, err)
}

func (f *hookFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, category, opts...)
	return f.wrap(file, name, err)
}

func (f *hookFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.wrap(file, name, err)
}

func (f *hookFS) Rename(oldname, newname string) error {
	if err := f.before("rename", oldname); err != nil {
		return err
	}
	return f.FS.Rename(oldname, newname)
}

func (f *hookFS) Link(oldname, newname string) error {
	if err := f.before("link", oldname); err != nil {
		return err
	}
	return f.FS.Link(oldname, newname)
}

func (f *hookFS) Remove(name string) error {
	if err := f.before("remove", name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f *hookFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := f.before("mkdir", dir); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir, perm)
}

func (f *hookFS) Unwrap() vfs.FS { return f.FS }

type hookFile struct {
	vfs.File
	fs   *hookFS
	name string
}

func (f *hookFile) Write(p []byte) (int, error) {
	if err := f.fs.before("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *hookFile) Sync() error {
	if err := f.fs.before("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) SyncData() error {
	if err := f.fs.before("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *hookFile) SyncTo(length int64) (bool, error) {
	if err := f.fs.before("sync", f.name); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

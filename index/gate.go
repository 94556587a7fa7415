package index

import (
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errFrozen is what writes of a store get that has failed.
var errFrozen = errors.New("the store has failed and is no longer written")

// retryInterval is the time between attempts of a store to write a table after one has failed. Pebble itself would try
// again at once, without end.
const retryInterval = 50 * time.Millisecond

// gate is the file system of one opening of a store. It slows down the creation of files after a failure, and once
// frozen it lets nothing be written or removed any more: after a failed write to its manifest, Pebble expects the process
// to end, and what it would do next is not safe.
type gate struct {
	vfs.FS

	mu     sync.Mutex
	err    error         // why it is frozen
	slow   bool          // a write has failed since the last file was created
	closed chan struct{} // no file operation waits any more
}

func newGate(fs vfs.FS) *gate { return &gate{FS: fs, closed: make(chan struct{})} }

func (g *gate) freeze(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}

// frozen is why the gate is frozen, or nil.
func (g *gate) frozen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// release ends all waiting, so that the store can be closed.
func (g *gate) release() { close(g.closed) }

// enter returns an error when the gate is frozen.
func (g *gate) enter() error {
	if g.frozen() != nil {
		return errFrozen
	}
	return nil
}

// leave notes a failure.
func (g *gate) leave(err error) error {
	if err != nil {
		g.mu.Lock()
		g.slow = true
		g.mu.Unlock()
	}
	return err
}

// wait holds up the creation of a file after a failure.
func (g *gate) wait() error {
	g.mu.Lock()
	frozen, slow := g.err != nil, g.slow
	g.slow = false
	g.mu.Unlock()
	if frozen {
		<-g.closed
		return errFrozen
	}
	if slow {
		t := time.NewTimer(retryInterval)
		defer t.Stop()
		select {
		case <-t.C:
		case <-g.closed:
		}
	}
	return g.enter()
}

func (g *gate) file(f vfs.File, err error) (vfs.File, error) {
	if g.leave(err) != nil {
		return nil, err
	}
	return &gateFile{File: f, g: g}, nil
}

func (g *gate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.wait(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(g.PathBase(name), "marker.") {
		// A marker names another file. Pebble syncs the directory only after it has made both, which leaves it to the file
		// system whether a crash may keep the marker and lose the file.
		if err := g.syncDir(g.PathDir(name)); err != nil {
			return nil, g.leave(err)
		}
	}
	return g.file(g.FS.Create(name, category))
}

func (g *gate) syncDir(name string) error {
	dir, err := g.FS.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (g *gate) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := g.enter(); err != nil {
		return nil, err
	}
	return g.file(g.FS.OpenReadWrite(name, category, opts...))
}

func (g *gate) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.wait(); err != nil {
		return nil, err
	}
	return g.file(g.FS.ReuseForWrite(oldname, newname, category))
}

func (g *gate) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &gateFile{File: f, g: g}, nil
}

func (g *gate) Link(oldname, newname string) error {
	if err := g.enter(); err != nil {
		return err
	}
	return g.leave(g.FS.Link(oldname, newname))
}

func (g *gate) Rename(oldname, newname string) error {
	if err := g.enter(); err != nil {
		return err
	}
	return g.leave(g.FS.Rename(oldname, newname))
}

func (g *gate) Remove(name string) error {
	if err := g.enter(); err != nil {
		return err
	}
	return g.FS.Remove(name)
}

func (g *gate) RemoveAll(name string) error {
	if err := g.enter(); err != nil {
		return err
	}
	return g.FS.RemoveAll(name)
}

func (g *gate) MkdirAll(dir string, perm os.FileMode) error {
	if err := g.enter(); err != nil {
		return err
	}
	return g.leave(g.FS.MkdirAll(dir, perm))
}

func (g *gate) Unwrap() vfs.FS { return g.FS }

// gateFile is a file behind a gate.
type gateFile struct {
	vfs.File
	g *gate
}

func (f *gateFile) Write(p []byte) (int, error) {
	if err := f.g.enter(); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	return n, f.g.leave(err)
}

func (f *gateFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.g.enter(); err != nil {
		return 0, err
	}
	n, err := f.File.WriteAt(p, off)
	return n, f.g.leave(err)
}

func (f *gateFile) Preallocate(offset, length int64) error {
	if err := f.g.enter(); err != nil {
		return err
	}
	return f.g.leave(f.File.Preallocate(offset, length))
}

func (f *gateFile) Sync() error {
	if err := f.g.enter(); err != nil {
		return err
	}
	return f.g.leave(f.File.Sync())
}

func (f *gateFile) SyncTo(length int64) (bool, error) {
	if err := f.g.enter(); err != nil {
		return false, err
	}
	full, err := f.File.SyncTo(length)
	return full, f.g.leave(err)
}

func (f *gateFile) SyncData() error {
	if err := f.g.enter(); err != nil {
		return err
	}
	return f.g.leave(f.File.SyncData())
}

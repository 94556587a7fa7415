package fileobj

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/headpond/headpond/internal/vfs"
)

// maxSettled bounds what is remembered; beyond it, directories are merely synced again.
const maxSettled = 1 << 16

// directories knows which directories are durable themselves and have durable entries as of this opening.
//
// That a directory exists does not mean that a crash leaves it: who made it may have died, or may be just about to sync
// it. The same is true of the files in it. So each directory, and those above it, is synced once before this handle
// trusts what it holds.
type directories struct {
	fs   vfs.FS
	root string

	settling sync.Mutex // one directory's first use at a time; taken before mu, held across I/O
	mu       sync.RWMutex
	settled  map[string]bool
}

func (d *directories) known(dir string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.settled[dir]
}

// ensure makes the directory, if need be, and makes it durable.
func (d *directories) ensure(dir string) error {
	if d.known(dir) {
		return nil
	}
	d.settling.Lock()
	defer d.settling.Unlock()
	if err := d.fs.MkdirAll(dir); err != nil {
		return err
	}
	return d.settleLocked(dir)
}

// settle makes what is visible in an existing directory durable, so that a reader may rely on it.
func (d *directories) settle(dir string) error {
	if d.known(dir) {
		return nil
	}
	d.settling.Lock()
	defer d.settling.Unlock()
	err := d.settleLocked(dir)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil // who cannot write here left nothing unsettled
	}
	return err
}

func (d *directories) settleLocked(dir string) error {
	if d.known(dir) {
		return nil
	}
	if dir != d.root {
		if err := d.settleLocked(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	if err := d.fs.SyncDir(dir); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.settled) >= maxSettled {
		clear(d.settled)
	}
	d.settled[dir] = true
	return nil
}

// sync makes a change of the directory's entries durable. After a failure nothing is known of the directory.
func (d *directories) sync(dir string) error {
	err := d.fs.SyncDir(dir)
	if err != nil {
		d.forget(dir)
	}
	return err
}

// forget drops what is known of the directory and of those above it.
func (d *directories) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(dir) > len(d.root) {
		delete(d.settled, dir)
		dir = filepath.Dir(dir)
	}
	delete(d.settled, d.root)
}

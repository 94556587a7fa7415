package fileobj

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/headpond/headpond/internal/vfs"
)

const (
	tmpName  = "~tmp"
	maxSlots = 256 // handles that may write at once
)

// staging is the directory of files being written. Each handle has a slot of its own, held by a lock that ends with
// the process: so what lies in a slot when it is taken is what a dead owner left, and nothing of a living one is ever
// removed. Lock files stay, so that slots are used again.
type staging struct {
	fs      vfs.FS
	dir     string       // ~tmp
	present func() error // why the store is not there; nothing is made in its place then

	mu       sync.Mutex
	lock     io.Closer // of the slot; nil while there is none
	slot     string    // the slot's directory
	next     uint64    // number of the next file
	released bool
}

// acquire takes the first free slot and empties it.
func (t *staging) acquire() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acquireLocked()
}

func (t *staging) acquireLocked() error {
	if t.lock != nil {
		return nil
	}
	if t.released {
		return fs.ErrClosed
	}
	if err := t.present(); err != nil {
		return err
	}
	if err := t.fs.MkdirAll(t.dir); err != nil {
		return err
	}
	for i := range maxSlots {
		slot := filepath.Join(t.dir, strconv.Itoa(i))
		lock, err := t.fs.Lock(slot+".lock", fmt.Sprintf("process %d", os.Getpid()))
		var held *vfs.LockedError
		if errors.As(err, &held) {
			continue
		}
		if err != nil {
			return err
		}
		if err := t.empty(slot); err != nil {
			return errors.Join(err, lock.Close())
		}
		t.lock, t.slot = lock, slot
		return nil
	}
	return fmt.Errorf("%d handles write to the store already", maxSlots)
}

// empty makes the slot a directory without files.
func (t *staging) empty(slot string) error {
	if err := t.fs.MkdirAll(slot); err != nil {
		return err
	}
	entries, err := t.fs.ReadDir(slot)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := t.fs.Remove(filepath.Join(slot, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// create makes a new file in the slot.
func (t *staging) create() (vfs.File, error) {
	t.mu.Lock()
	if err := t.acquireLocked(); err != nil {
		t.mu.Unlock()
		return nil, err
	}
	t.next++
	name := filepath.Join(t.slot, strconv.FormatUint(t.next, 10))
	t.mu.Unlock()
	f, err := t.fs.Create(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	// Either the disk is not mounted any more, or somebody tidied up.
	if err := t.present(); err != nil {
		return nil, err
	}
	if err := t.fs.MkdirAll(filepath.Dir(name)); err != nil {
		return nil, err
	}
	return t.fs.Create(name)
}

// release gives the slot up for good.
func (t *staging) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = true
	if t.lock != nil {
		_ = t.lock.Close() // the lock ends with the descriptor, whatever close says
		t.lock = nil
	}
}

// Package fileobj is an object store in a directory of a file system.
//
// An object is one file. It is written under a temporary name, synced, renamed, and then its directory is synced: so it
// is there whole or not at all, and a returned put survives a power failure. Create uses a hard link in place of the
// rename, which fails if the name is taken; a file system without hard links cannot hold a store.
//
//	~store        says that a store is here and which one: an unmounted disk is not an empty store
//	~tmp/0/       files being written by the handle that holds the lock ~tmp/0.lock; ~tmp/1/ by a second one
//	3f/c1…/x@     the object 3f/c1…/x
//
// The mark @ behind the last element keeps objects apart from directories, so that a and a/b may both exist, and from
// files that are not the store's: those are ignored. Elements longer than file systems allow are split (names.go).
// Directories stay when they become empty. On a file system that does not tell case apart, names that differ only in
// case are one; the engine's do not.
package fileobj

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/objectrules"
	"github.com/headpond/headpond/internal/vfs"
)

// Options of a store. The zero value opens an existing one on the operating system's files.
type Options struct {
	// Create makes the directory and the store in it if they are absent. Without it, absence is [engine.ErrNotFound].
	Create bool
	// FS is where the directory lies; nil is the operating system's file system.
	FS vfs.FS
}

// Store is an open directory. It implements [engine.ObjectStore]. Several handles, of several processes too, may be
// open on one directory.
type Store struct {
	fs   vfs.FS
	root string
	id   string // what ~store holds
	dirs *directories
	tmp  *staging

	mu     sync.Mutex
	closed bool
	active int             // calls under way
	doubt  map[string]bool // names whose directory could not be synced after they appeared
}

var _ engine.ObjectStore = (*Store)(nil)

// Open opens the store in the directory, and removes what puts that a crash cut off have left. Errors are the
// contract's; a directory that holds no store is [engine.ErrNotFound].
func Open(dir string, o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: object store %q: %w", engine.ErrInvalid, dir, err)
	}
	if o.Create {
		if err := establish(o.FS, root); err != nil {
			return nil, fmt.Errorf("create object store in %s: %w", root, classify(err))
		}
	}
	id, err := identity(o.FS, root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open object store in %s: %w: the directory is absent or holds no store; create=true makes one", root, engine.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open object store in %s: %w", root, classify(err))
	}
	s := &Store{
		fs: o.FS, root: root, id: id, doubt: map[string]bool{},
		dirs: &directories{fs: o.FS, root: root, settled: map[string]bool{}},
	}
	s.tmp = &staging{fs: o.FS, dir: filepath.Join(root, tmpName), present: s.present}
	// A full or read-only disk must not keep a store from being read: the first put tries again, and says why it cannot.
	_ = s.tmp.acquire()
	return s, nil
}

// Info implements [engine.ObjectStore].
func (s *Store) Info() engine.ObjectStoreInfo {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(s.root)}
	return engine.ObjectStoreInfo{URL: u.String(), Domain: engine.DomainHost}
}

// Close implements [engine.ObjectStore]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	idle := s.active == 0
	s.mu.Unlock()
	if first && idle {
		s.tmp.release()
	}
	return nil
}

// begin starts a call. Each that began ends by s.end.
func (s *Store) begin(ctx context.Context, names ...string) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.active++
	}
	s.mu.Unlock()
	if closed {
		return engine.ErrClosed
	}
	err := ctx.Err()
	for _, name := range names {
		if err == nil {
			err = objectrules.CheckName(name)
		}
	}
	if err != nil {
		s.end()
	}
	return err
}

// end ends a call; the last one after Close releases what the store holds.
func (s *Store) end() {
	s.mu.Lock()
	s.active--
	last := s.closed && s.active == 0
	s.mu.Unlock()
	if last {
		s.tmp.release()
	}
}

// going says why a long call must stop.
func (s *Store) going(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return engine.ErrClosed
	}
	return ctx.Err()
}

// setDoubt notes whether the name may be seen although it may not survive a crash.
func (s *Store) setDoubt(name string, doubt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if doubt {
		s.doubt[name] = true
	} else {
		delete(s.doubt, name)
	}
}

func (s *Store) doubtful(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubt[name] {
		return fmt.Errorf("%w: its directory could not be synced", engine.ErrUnavailable)
	}
	return nil
}

// path is the file of the name.
func (s *Store) path(name string) string { return filepath.Join(s.root, encode(name)) }

// present says why the store that was opened is not in its directory: an unmounted disk looks like an empty directory.
func (s *Store) present() error {
	id, err := identity(s.fs, s.root)
	if err != nil {
		return fmt.Errorf("%w: the store's directory cannot be read: %w", engine.ErrUnavailable, err)
	}
	if id != s.id {
		return fmt.Errorf("%w: another store is in %s now", engine.ErrUnavailable, s.root)
	}
	return nil
}

// absent turns a file's absence into the object's, if the store is there.
func (s *Store) absent(cause error) error {
	if err := s.present(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", engine.ErrNotFound, cause)
}

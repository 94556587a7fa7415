// Package crashfs is a file system in memory that crashes and fails on demand.
//
// It keeps apart what was written and what was synced. A crash leaves what was synced and, of the rest, what a [Keep] says:
// nothing, everything, or any 512-byte sectors of the unsynced writes and any of the unsynced changes of directories. So a
// test can run a script, crash it at its n-th operation, and look at every state in which a disk may come back.
//
// It is stricter than most disks: a new file's name is lost unless its directory is synced, a rename between directories is
// lost in either, and after a failed sync the data is taken for clean, so that a later sync does not make it durable.
package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headpond/headpond/internal/vfs"
)

// ErrCrashed is what every call returns once the file system has crashed.
var ErrCrashed = errors.New("the file system crashed")

// FS is a [vfs.FS]. All methods may be called concurrently.
type FS struct {
	mu      sync.Mutex
	dirs    map[string]*dir
	changes []change // of directories, not synced, in order
	locks   map[string]string
	limit   int64 // bytes that may be allocated
	faults  []*fault
	ops     int
	waiting int // operations that a fault holds
	crashIn int // operations until the crash; negative: none is planned
	down    chan struct{}
	crashed bool
}

type dir struct {
	entries map[string]*node // as seen
	durable map[string]*node // as a crash leaves them
}

// change is one step of a directory: names that appear and disappear together.
type change struct {
	dir    string
	remove string // when not empty
	add    string // when not empty
	node   *node
}

var _ vfs.FS = (*FS)(nil)

// New makes an empty file system. Its root, ".", and "/" exist.
func New() *FS {
	return &FS{
		dirs:  map[string]*dir{".": newDir(), "/": newDir()},
		locks: map[string]string{}, limit: 1 << 40, crashIn: -1, down: make(chan struct{}),
	}
}

func newDir() *dir { return &dir{map[string]*node{}, map[string]*node{}} }

// SetLimit sets how many bytes may be allocated in all. Beyond it, writes and preallocations fail with ENOSPC.
func (f *FS) SetLimit(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = bytes
}

// Ops counts the operations so far that change something: a crash can be planned at each.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// Waiting is how many operations a fault holds now.
func (f *FS) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting
}

func pathErr(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// begin starts an operation: it applies faults and the planned crash. With crashing true the operation is the one during
// which the crash comes: it takes effect as unsynced, and the caller returns ErrCrashed.
// The lock is held when it returns without error.
func (f *FS) begin(op Op, name string) (crashing bool, hit *Fault, err error) {
	f.mu.Lock()
	hit = f.matchLocked(op, name)
	if hit != nil && hit.Wait != nil {
		f.waiting++
		f.mu.Unlock()
		select {
		case <-hit.Wait:
		case <-f.down:
		}
		f.mu.Lock()
		f.waiting--
	}
	if f.crashed {
		f.mu.Unlock()
		return false, nil, pathErr(op.String(), name, ErrCrashed)
	}
	if op.changes() {
		f.ops++
		if f.crashIn == 0 {
			f.crashed = true
			close(f.down)
			return true, nil, nil
		}
		if f.crashIn > 0 {
			f.crashIn--
		}
	}
	if hit != nil && hit.Err != nil && hit.Short == 0 && op != OpSync {
		f.mu.Unlock()
		return false, nil, pathErr(op.String(), name, hit.Err)
	}
	return false, hit, nil
}

// end finishes an operation that takes effect.
func (f *FS) end(op Op, name string, crashing bool) error {
	f.mu.Unlock()
	if crashing {
		return pathErr(op.String(), name, ErrCrashed)
	}
	return nil
}

func (f *FS) lookupLocked(name string) (*node, error) {
	d, ok := f.dirs[filepath.Dir(name)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	n, ok := d.entries[filepath.Base(name)]
	if !ok {
		if _, isDir := f.dirs[name]; isDir {
			return nil, syscall.EISDIR
		}
		return nil, fs.ErrNotExist
	}
	return n, nil
}

func (f *FS) changeLocked(c change) {
	d := f.dirs[c.dir]
	if c.remove != "" {
		delete(d.entries, c.remove)
	}
	if c.add != "" {
		d.entries[c.add] = c.node
	}
	f.changes = append(f.changes, c)
}

// Create implements [vfs.FS].
func (f *FS) Create(name string) (vfs.File, error) {
	name = filepath.Clean(name)
	crashing, _, err := f.begin(OpCreate, name)
	if err != nil {
		return nil, err
	}
	if _, err := f.lookupLocked(name); err == nil || f.dirs[name] != nil {
		f.mu.Unlock()
		return nil, pathErr("create", name, fs.ErrExist)
	}
	if f.dirs[filepath.Dir(name)] == nil {
		f.mu.Unlock()
		return nil, pathErr("create", name, fs.ErrNotExist)
	}
	n := newNode()
	f.changeLocked(change{dir: filepath.Dir(name), add: filepath.Base(name), node: n})
	if err := f.end(OpCreate, name, crashing); err != nil {
		return nil, err
	}
	return &file{fs: f, node: n, name: name, writable: true}, nil
}

// Open implements [vfs.FS].
func (f *FS) Open(name string) (vfs.File, error) { return f.open(name, false) }

// OpenWrite implements [vfs.FS].
func (f *FS) OpenWrite(name string) (vfs.File, error) { return f.open(name, true) }

func (f *FS) open(name string, writable bool) (vfs.File, error) {
	name = filepath.Clean(name)
	if _, _, err := f.begin(OpOpen, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	n, err := f.lookupLocked(name)
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	return &file{fs: f, node: n, name: name, writable: writable}, nil
}

// MkdirAll implements [vfs.FS].
func (f *FS) MkdirAll(name string) error {
	name = filepath.Clean(name)
	crashing, _, err := f.begin(OpMkdir, name)
	if err != nil {
		return err
	}
	for p := name; f.dirs[p] == nil; p = filepath.Dir(p) {
		if _, err := f.lookupLocked(p); err == nil {
			f.mu.Unlock()
			return pathErr("mkdir", p, syscall.ENOTDIR)
		}
		if !crashing {
			f.dirs[p] = newDir()
		}
		if p == filepath.Dir(p) {
			break
		}
	}
	return f.end(OpMkdir, name, crashing)
}

// Rename implements [vfs.FS].
func (f *FS) Rename(oldName, newName string) error {
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	crashing, _, err := f.begin(OpRename, newName)
	if err != nil {
		return err
	}
	n, err := f.lookupLocked(oldName)
	if err == nil && f.dirs[filepath.Dir(newName)] == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.mu.Unlock()
		return pathErr("rename", oldName, err)
	}
	from, to := filepath.Dir(oldName), filepath.Dir(newName)
	if from == to {
		f.changeLocked(change{dir: from, remove: filepath.Base(oldName), add: filepath.Base(newName), node: n})
	} else {
		f.changeLocked(change{dir: to, add: filepath.Base(newName), node: n})
		f.changeLocked(change{dir: from, remove: filepath.Base(oldName)})
	}
	return f.end(OpRename, newName, crashing)
}

// Link implements [vfs.FS].
func (f *FS) Link(oldName, newName string) error {
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	crashing, _, err := f.begin(OpLink, newName)
	if err != nil {
		return err
	}
	n, err := f.lookupLocked(oldName)
	if err == nil && f.dirs[filepath.Dir(newName)] == nil {
		err = fs.ErrNotExist
	}
	if _, there := f.lookupLocked(newName); err == nil && there == nil {
		err = fs.ErrExist
	}
	if err != nil {
		f.mu.Unlock()
		return pathErr("link", newName, err)
	}
	f.changeLocked(change{dir: filepath.Dir(newName), add: filepath.Base(newName), node: n})
	return f.end(OpLink, newName, crashing)
}

// Remove implements [vfs.FS]. The removal of a directory is durable at once.
func (f *FS) Remove(name string) error {
	name = filepath.Clean(name)
	crashing, _, err := f.begin(OpRemove, name)
	if err != nil {
		return err
	}
	if d := f.dirs[name]; d != nil {
		if len(d.entries) > 0 || len(f.childrenLocked(name)) > 0 {
			f.mu.Unlock()
			return pathErr("remove", name, syscall.ENOTEMPTY)
		}
		if !crashing {
			delete(f.dirs, name)
		}
		return f.end(OpRemove, name, crashing)
	}
	if _, err := f.lookupLocked(name); err != nil {
		f.mu.Unlock()
		return pathErr("remove", name, err)
	}
	f.changeLocked(change{dir: filepath.Dir(name), remove: filepath.Base(name)})
	return f.end(OpRemove, name, crashing)
}

func (f *FS) childrenLocked(name string) []string {
	var out []string
	for d := range f.dirs {
		if d != name && filepath.Dir(d) == name {
			out = append(out, filepath.Base(d))
		}
	}
	return out
}

// ReadDir implements [vfs.FS].
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	name = filepath.Clean(name)
	if _, _, err := f.begin(OpReadDir, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	d := f.dirs[name]
	if d == nil {
		return nil, pathErr("readdir", name, fs.ErrNotExist)
	}
	var out []fs.DirEntry
	for base, n := range d.entries {
		out = append(out, fs.FileInfoToDirEntry(info{base, n.size, false}))
	}
	for _, base := range f.childrenLocked(name) {
		out = append(out, fs.FileInfoToDirEntry(info{base, 0, true}))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// Stat implements [vfs.FS].
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	name = filepath.Clean(name)
	if _, _, err := f.begin(OpOpen, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if f.dirs[name] != nil {
		return info{filepath.Base(name), 0, true}, nil
	}
	n, err := f.lookupLocked(name)
	if err != nil {
		return nil, pathErr("stat", name, err)
	}
	return info{filepath.Base(name), n.size, false}, nil
}

// SyncDir implements [vfs.FS].
func (f *FS) SyncDir(name string) error {
	name = filepath.Clean(name)
	crashing, hit, err := f.begin(OpSyncDir, name)
	if err != nil {
		return err
	}
	d := f.dirs[name]
	if d == nil {
		f.mu.Unlock()
		return pathErr("sync", name, fs.ErrNotExist)
	}
	if !crashing && (hit == nil || !hit.Lie) {
		f.changes = slices.DeleteFunc(f.changes, func(c change) bool { return c.dir == name })
		d.durable = maps.Clone(d.entries)
	}
	return f.end(OpSyncDir, name, crashing)
}

// Lock implements [vfs.FS]. A crash releases every lock.
func (f *FS) Lock(name, holder string) (io.Closer, error) {
	name = filepath.Clean(name)
	if _, _, err := f.begin(OpLock, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if by, held := f.locks[name]; held {
		return nil, &vfs.LockedError{Name: name, Holder: by}
	}
	d := f.dirs[filepath.Dir(name)]
	if d == nil {
		return nil, pathErr("lock", name, fs.ErrNotExist)
	}
	if d.entries[filepath.Base(name)] == nil {
		f.changeLocked(change{dir: filepath.Dir(name), add: filepath.Base(name), node: newNode()})
	}
	f.locks[name] = holder
	return &lock{fs: f, name: name}, nil
}

type lock struct {
	fs   *FS
	name string
	once sync.Once
}

func (l *lock) Close() error {
	l.once.Do(func() {
		l.fs.mu.Lock()
		defer l.fs.mu.Unlock()
		delete(l.fs.locks, l.name)
	})
	return nil
}

// Free implements [vfs.FS].
func (f *FS) Free(name string) (int64, error) {
	if _, _, err := f.begin(OpOpen, name); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	return max(0, f.limit-f.allocatedLocked()), nil
}

func (f *FS) allocatedLocked() int64 {
	var sum int64
	seen := map[*node]bool{}
	for _, d := range f.dirs {
		for _, n := range d.entries {
			if !seen[n] {
				seen[n] = true
				sum += n.allocated()
			}
		}
	}
	return sum
}

// info describes a file or a directory. Times are zero.
type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// String names the state for messages.
func (f *FS) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("crashfs after %d operations", f.ops)
}

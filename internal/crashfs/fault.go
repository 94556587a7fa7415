package crashfs

import (
	"slices"
	"strings"
)

// Op is a kind of operation.
type Op int

// The kinds of operations. OpSync is both ways to sync a file.
const (
	OpOpen Op = iota
	OpRead
	OpReadDir
	OpLock
	OpCreate // the first that changes something
	OpMkdir
	OpWrite
	OpSync
	OpSyncDir
	OpRename
	OpLink
	OpRemove
	OpTruncate
	OpPreallocate
)

func (o Op) changes() bool { return o >= OpCreate }

// String names the operation.
func (o Op) String() string {
	return [...]string{
		"open", "read", "readdir", "lock", "create", "mkdir", "write", "sync", "syncdir", "rename", "link", "remove",
		"truncate", "preallocate",
	}[o]
}

// Fault is what happens to operations instead of, or before, their effect.
type Fault struct {
	Op   Op
	Name string // the end of the name that it applies to; empty is any. A rename and a link have their new name.

	Skip  int // matching operations that pass first
	Times int // how many then fail; 0 is all

	// Err is returned, and nothing happens. A failed sync loses what was pending.
	Err error
	// Short, when positive, makes a write end after so many bytes with Err, or [io.ErrShortWrite].
	Short int
	// Lie makes a sync return without effect and without error.
	Lie bool
	// Flip changes a bit of what a read returns.
	Flip bool
	// Wait, when set, holds the operation until it is closed or the file system crashes.
	Wait <-chan struct{}
}

type fault struct {
	Fault
	hits int
}

// Inject makes a fault happen until the returned function is called. When several match, the one injected first counts.
func (f *FS) Inject(what Fault) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := &fault{Fault: what}
	f.faults = append(f.faults, in)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults = slices.DeleteFunc(f.faults, func(x *fault) bool { return x == in })
	}
}

func (f *FS) matchLocked(op Op, name string) *Fault {
	for _, in := range f.faults {
		if in.Op != op || !strings.HasSuffix(name, in.Name) {
			continue
		}
		in.hits++
		if in.hits > in.Skip && (in.Times == 0 || in.hits <= in.Skip+in.Times) {
			return &in.Fault
		}
	}
	return nil
}

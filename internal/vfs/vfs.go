// Package vfs is the small part of a file system that the local WAL and the local object store need.
//
// It exists so that the same code runs on the operating system's files and on an in-memory file system that crashes
// and fails on demand. Two states of a file count: what was written, which reads see, and what was synced, which a
// crash leaves. A file's bytes become durable by [File.Sync] or [File.SyncData]; that a name exists, is gone or was
// renamed becomes durable by [FS.SyncDir] of the directory that holds it.
//
// Errors are the operating system's: match [io/fs.ErrNotExist], [io/fs.ErrExist], [NoSpace] and [LockedError].
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// FS is a file system. All methods may be called concurrently. Names are paths with the separator of the system.
type FS interface {
	// Create makes a file and opens it for reading and writing. A name that exists is [fs.ErrExist]: one caller wins.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// MkdirAll makes a directory and its parents, and makes those that were absent durable.
	MkdirAll(name string) error
	// Rename replaces newName by oldName atomically. Both must lie in one file system.
	Rename(oldName, newName string) error
	// Link gives an existing file a second name. A newName that exists is [fs.ErrExist]: one caller wins.
	Link(oldName, newName string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// ReadDir lists a directory in the order of names.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat describes a file.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the entries of a directory durable: files created, renamed and removed in it.
	SyncDir(name string) error
	// Lock takes an exclusive advisory lock on a file, which is made if absent and is not removed on release, and
	// writes holder into it. It never waits: a held lock is a [*LockedError] with what its holder wrote.
	// Closing the result releases the lock; so does the end of the process.
	Lock(name, holder string) (io.Closer, error)
	// Free is how many bytes a caller may still allocate in the file system that holds name.
	Free(name string) (int64, error)
}

// File is an open file. Reads and writes at different places may be concurrent.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the name that the file was opened by.
	Name() string
	// Size is the length in bytes.
	Size() (int64, error)
	// Truncate sets the length.
	Truncate(size int64) error
	// Preallocate reserves the bytes below size and makes the file at least so long. New bytes read as zero. Where the
	// system cannot reserve, it only makes the file longer. A lack of room is [NoSpace].
	Preallocate(size int64) error
	// Sync makes the bytes, the length and all other attributes durable.
	Sync() error
	// SyncData makes the bytes durable, and the length where reading them back needs it.
	SyncData() error
}

// LockedError says who holds a lock.
type LockedError struct {
	Name   string // of the lock file
	Holder string // what the holder wrote when it took the lock; may be empty
}

// Error names the lock file and its holder.
func (e *LockedError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("%s is locked by another process", e.Name)
	}
	return fmt.Sprintf("%s is held by %s", e.Name, e.Holder)
}

// NoSpace reports whether an error says that the file system, or the caller's quota in it, is full.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

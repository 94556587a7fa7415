package vfs

import "golang.org/x/sys/unix"

func (f osFile) SyncData() error { return f.control("fdatasync", unix.Fdatasync) }

func (f osFile) Preallocate(size int64) error {
	err := f.control("fallocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
	if err == nil || NoSpace(err) {
		return err
	}
	// Some file systems (FUSE, NFS before 4.2, old overlays) have no fallocate; the WAL works without, only a full disk
	// is then noticed later.
	old, sizeErr := f.Size()
	if sizeErr != nil || old >= size {
		return sizeErr
	}
	return f.Truncate(size)
}

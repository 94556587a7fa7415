package vfs

import "golang.org/x/sys/unix"

// SyncData is Sync: macOS has no fdatasync that reaches the medium, and os.File.Sync uses F_FULLFSYNC there.
func (f osFile) SyncData() error { return f.Sync() }

func (f osFile) Preallocate(size int64) error {
	old, err := f.Size()
	if err != nil || old >= size {
		return err
	}
	err = f.control("preallocate", func(fd int) error {
		return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &unix.Fstore_t{
			Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size - old,
		})
	})
	if NoSpace(err) {
		return err
	}
	return f.Truncate(size)
}

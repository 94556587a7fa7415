package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// ErrUnavailable says that this machine or user cannot mount a disk.
var ErrUnavailable = errors.New("cannot mount a FUSE file system here")

type mount struct {
	server *fuse.Server
	dir    string
}

// Available returns nil where Mount can work, or an error that matches [ErrUnavailable] and says why not.
func Available() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: not root", ErrUnavailable)
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return f.Close()
}

// Mount shows the disk at a directory, which must exist.
func (d *Disk) Mount(dir string) error {
	server, err := fuse.NewServer(&fileSystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), disk: d, handles: map[uint64]*handle{}}, dir, &fuse.MountOptions{
		FsName:             "headpond-disk",
		Name:               "headpond-disk",
		DirectMountStrict:  true,
		DirectMountFlags:   syscall.MS_NOSUID | syscall.MS_NODEV,
		MaxWrite:           1 << 20,
		DisableXAttrs:      true,
		DisableReadDirPlus: true,
	})
	if err != nil {
		return fmt.Errorf("mount disk at %s: %w", dir, err)
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		return fmt.Errorf("mount disk at %s: %w", dir, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounted = &mount{server, dir}
	return nil
}

// Unmount takes the disk away. Programs that still hold files of it get errors from then on. Without a mount it does nothing.
func (d *Disk) Unmount() error {
	d.mu.Lock()
	m := d.mounted
	d.mounted = nil
	d.mu.Unlock()
	if m == nil {
		return nil
	}
	// A plain unmount is refused while a dead process's files are still being closed; a lazy one is not, and the server
	// ends when the last is.
	if err := syscall.Unmount(m.dir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", m.dir, err)
	}
	m.server.Wait()
	return nil
}

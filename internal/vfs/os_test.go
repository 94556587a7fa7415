package vfs_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headpond/headpond/internal/vfs"
)

func TestLockNamesItsHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held, err := vfs.OS.Lock(name, "pid 17 on there")
	if err != nil {
		t.Fatal(err)
	}
	_, err = vfs.OS.Lock(name, "pid 18 on here")
	if e, ok := errors.AsType[*vfs.LockedError](err); !ok || e.Holder != "pid 17 on there" {
		t.Fatalf("second lock: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := vfs.OS.Lock(name, "pid 18")
	if err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	again.Close()
}

func TestFilesKeepWhatIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := vfs.OS.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "f")
	f, err := vfs.OS.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Preallocate(64 << 10); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Size(); n != 64<<10 || err != nil {
		t.Fatalf("size after preallocation: %d, %v", n, err)
	}
	if _, err := f.WriteAt([]byte("head"), 100); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.SyncData(), f.Sync(), vfs.OS.SyncDir(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.OS.Create(name); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("create of an existing file: %v", err)
	}
	if err := vfs.OS.Link(name, name+".2"); err != nil {
		t.Fatal(err)
	}
	if err := vfs.OS.Link(name, name+".2"); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("link to an existing name: %v", err)
	}
	g, err := vfs.OS.Open(name + ".2")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	b := make([]byte, 6)
	if _, err := g.ReadAt(b, 99); err != nil || string(b) != "\x00head\x00" {
		t.Fatalf("read back %q, %v", b, err)
	}
	if n, err := vfs.OS.Free(dir); n <= 0 || err != nil {
		t.Fatalf("free space: %d, %v", n, err)
	}
	if err := vfs.OS.MkdirAll(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Fatalf("directory in place of a file: %v", err)
	}
	if _, err := vfs.OS.Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open of an absent file: %v", err)
	}
}

package crashfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/internal/vfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fsys *crashfs.FS, name, content string) vfs.File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	return f
}

func content(t *testing.T, fsys *crashfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	must(t, err)
	return string(b)
}

func TestCrashLeavesWhatWasSynced(t *testing.T) {
	disk := crashfs.New()
	must(t, disk.MkdirAll("d/e"))
	a := create(t, disk, "d/a", "old")
	must(t, a.Sync())
	must(t, disk.SyncDir("d"))
	_, err := a.WriteAt([]byte("new"), 0)
	must(t, err)
	b := create(t, disk, "d/b", "data without a name")
	must(t, b.Sync())
	disk.Crash()

	for _, c := range []struct {
		keep crashfs.Keep
		a, b string
	}{
		{crashfs.Synced, "old", "absent"},
		{crashfs.Written, "new", "data without a name"},
		{crashfs.Entries(1), "old", "data without a name"},
		{crashfs.FirstSectors(1), "new", "data without a name"},
	} {
		after := disk.Restart(c.keep)
		if got := content(t, after, "d/a"); got != c.a {
			t.Errorf("%s: a is %q", c.keep.Name, got)
		}
		if got := content(t, after, "d/b"); got != c.b {
			t.Errorf("%s: b is %q", c.keep.Name, got)
		}
	}
	if _, err := a.WriteAt([]byte("x"), 0); !errors.Is(err, crashfs.ErrCrashed) {
		t.Errorf("write after the crash: %v", err)
	}
}

func TestUnsyncedWriteTearsAtSectors(t *testing.T) {
	disk := crashfs.New()
	f := create(t, disk, "f", string(bytes.Repeat([]byte("."), 2000)))
	must(t, f.Sync())
	must(t, disk.SyncDir("."))
	disk.CrashAfter(0)
	if _, err := f.WriteAt(bytes.Repeat([]byte("#"), 1100), 500); !errors.Is(err, crashfs.ErrCrashed) {
		t.Fatalf("write at the crash: %v", err)
	}
	if n, _ := disk.Unsynced(); n != 4 { // 500-512, 512-1024, 1024-1536, 1536-1600
		t.Fatalf("%d unsynced sectors", n)
	}
	for k, want := range []int{0, 12, 524, 1036, 1100} {
		if got := bytes.Count([]byte(content(t, disk.Restart(crashfs.FirstSectors(k)), "f")), []byte("#")); got != want {
			t.Errorf("first %d sectors: %d bytes", k, got)
		}
		if got := bytes.Count([]byte(content(t, disk.Restart(crashfs.LastSectors(k)), "f")), []byte("#")); got != []int{0, 64, 576, 1088, 1100}[k] {
			t.Errorf("last %d sectors: %d bytes", k, got)
		}
	}
}

func TestFailedSyncLosesWhatWasPending(t *testing.T) {
	disk := crashfs.New()
	f := create(t, disk, "f", "old")
	must(t, f.Sync())
	must(t, disk.SyncDir("."))
	disk.Inject(crashfs.Fault{Op: crashfs.OpSync, Times: 1, Err: syscall.EIO})
	_, err := f.WriteAt([]byte("new"), 0)
	must(t, err)
	if err := f.SyncData(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	must(t, f.SyncData())
	if got := content(t, disk, "f"); got != "new" {
		t.Fatalf("before the crash: %q", got)
	}
	disk.Crash()
	if got := content(t, disk.Restart(crashfs.Written), "f"); got != "old" {
		t.Fatalf("after the crash: %q", got)
	}
}

func TestRenameIsAtomicInADirectoryAndNotBetweenTwo(t *testing.T) {
	disk := crashfs.New()
	must(t, disk.MkdirAll("x"))
	must(t, disk.MkdirAll("y"))
	must(t, create(t, disk, "x/a", "A").Sync())
	must(t, create(t, disk, "x/b", "B").Sync())
	must(t, disk.SyncDir("x"))
	must(t, disk.Rename("x/a", "x/b"))
	must(t, disk.Rename("x/b", "y/c"))
	must(t, disk.SyncDir("y"))
	after := disk.Restart(crashfs.Synced)
	if got := content(t, after, "x/a") + content(t, after, "x/b") + content(t, after, "y/c"); got != "ABA" {
		t.Errorf("only y synced: %q", got)
	}
	must(t, disk.SyncDir("x"))
	after = disk.Restart(crashfs.Synced)
	if got := content(t, after, "x/a") + content(t, after, "x/b") + content(t, after, "y/c"); got != "absentabsentA" {
		t.Errorf("both synced: %q", got)
	}
}

func TestFaultsHappenAsTold(t *testing.T) {
	disk := crashfs.New()
	f := create(t, disk, "d.wal", "")
	defer disk.Inject(crashfs.Fault{Op: crashfs.OpWrite, Name: ".wal", Skip: 1, Times: 1, Short: 2})()
	for i, want := range []int{4, 2, 4} {
		if n, err := f.WriteAt([]byte("abcd"), 0); n != want || (err == nil) != (want == 4) {
			t.Errorf("write %d: %d, %v", i, n, err)
		}
	}
	disk.SetLimit(8192)
	if err := f.Preallocate(8193); !vfs.NoSpace(err) {
		t.Errorf("preallocate beyond the limit: %v", err)
	}
	must(t, f.Preallocate(8192))
	if _, err := f.WriteAt([]byte("x"), 8192); !vfs.NoSpace(err) {
		t.Errorf("write beyond the limit: %v", err)
	}
	held, err := disk.Lock("lock", "me")
	must(t, err)
	if _, err := disk.Lock("lock", "you"); err == nil {
		t.Error("the lock was given twice")
	}
	must(t, held.Close())
	if _, err := disk.Lock("lock", "you"); err != nil {
		t.Error(err)
	}
}

func TestScatteredKeepsTheOrderOfEachName(t *testing.T) {
	disk := crashfs.New()
	for _, name := range []string{"a", "b"} {
		must(t, create(t, disk, name+".new", name).Sync())
		must(t, disk.Rename(name+".new", name))
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		after := disk.Restart(crashfs.Scattered(seed))
		a, b := content(t, after, "a"), content(t, after, "b")
		if (a != "absent" && a != "a") || (b != "absent" && b != "b") {
			t.Fatalf("%q %q", a, b)
		}
		if a == "a" && content(t, after, "a.new") != "absent" {
			t.Fatal("half a rename")
		}
		seen[a+" "+b] = true
	}
	if len(seen) != 4 {
		t.Errorf("only %v", seen)
	}
}

package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/headpond/headpond/conformance/disk"
	"github.com/headpond/headpond/internal/gate/notrun"
)

// mounted is a disk at a directory, whose power can fail.
type mounted struct {
	*disk.Disk
	t   *testing.T
	dir string
}

func mount(t *testing.T) *mounted {
	t.Helper()
	if err := disk.Available(); err != nil {
		notrun.Skip(t, err.Error())
	}
	m := &mounted{disk.New(), t, t.TempDir()}
	m.must(m.Mount(m.dir))
	t.Cleanup(func() { m.must(m.Unmount()) })
	return m
}

func (m *mounted) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *mounted) fail(keep float64) disk.Loss {
	m.t.Helper()
	m.must(m.Unmount())
	loss := m.PowerFail(rand.New(rand.NewPCG(1, 2)), keep)
	m.must(m.Mount(m.dir))
	return loss
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

// create writes a file and syncs it, unless told not to.
func (m *mounted) create(name, text string, sync bool) {
	m.t.Helper()
	f, err := os.Create(m.path(name))
	m.must(err)
	_, err = f.WriteString(text)
	m.must(err)
	if sync {
		m.must(f.Sync())
	}
	m.must(f.Close())
}

func (m *mounted) sync(name string) {
	m.t.Helper()
	f, err := os.Open(m.path(name))
	m.must(err)
	m.must(f.Sync())
	m.must(f.Close())
}

func (m *mounted) want(name, text string) {
	m.t.Helper()
	got, err := os.ReadFile(m.path(name))
	if err != nil || string(got) != text {
		m.t.Fatalf("%s holds %q (%v), want %q", name, got, err, text)
	}
}

func (m *mounted) wantAbsent(name string) {
	m.t.Helper()
	if _, err := os.Stat(m.path(name)); !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatalf("%s is there (%v)", name, err)
	}
}

func TestSyncedFilesSurviveAndOthersDoNot(t *testing.T) {
	m := mount(t)
	m.create("both", "kept", true)
	m.create("content only", "no name", true)
	m.must(os.Remove(m.path("content only")))
	m.create("name only", "no content", false)
	m.sync(".")
	m.create("neither", "x", false)
	m.create("late", "synced, but not its name", true)
	if loss := m.fail(0); loss.Names != 2 {
		t.Errorf("lost %+v", loss)
	}
	m.want("both", "kept")
	m.want("name only", "")
	m.wantAbsent("content only")
	m.wantAbsent("neither")
	m.wantAbsent("late")
}

func TestOverwritingWithoutSyncGoesBack(t *testing.T) {
	m := mount(t)
	m.create("f", "old content", true)
	m.sync(".")
	m.create("f", "new", false) // truncates first
	m.want("f", "new")
	m.fail(0)
	m.want("f", "old content")
}

func TestSynchronousWritesNeedNoSync(t *testing.T) {
	for name, flag := range map[string]int{"O_DSYNC": syscall.O_DSYNC, "O_SYNC": syscall.O_SYNC} {
		t.Run(name, func(t *testing.T) {
			m := mount(t)
			m.create("f", "", true)
			m.sync(".")
			f, err := os.OpenFile(m.path("f"), os.O_WRONLY|flag, 0)
			m.must(err)
			_, err = f.WriteString("durable")
			m.must(err)
			m.must(f.Close())
			m.fail(0)
			m.want("f", "durable")

			m.SetLies(disk.Lies{FileSync: true})
			f, err = os.OpenFile(m.path("f"), os.O_WRONLY|flag, 0)
			m.must(err)
			_, err = f.WriteString("a lie here")
			m.must(err)
			m.must(f.Close())
			m.fail(0)
			m.want("f", "durable")
		})
	}
}

func TestRenameIsOneChangeAndNeedsItsDirectorySynced(t *testing.T) {
	m := mount(t)
	m.create("f", "old", true)
	m.create("tmp", "new", true)
	m.sync(".")
	m.must(os.Rename(m.path("tmp"), m.path("f")))
	m.want("f", "new")
	m.fail(0)
	m.want("f", "old")
	m.want("tmp", "new")
	m.must(os.Rename(m.path("tmp"), m.path("f")))
	m.sync(".")
	m.fail(0)
	m.want("f", "new")
	m.wantAbsent("tmp")
}

func TestRemovalsComeBackUnlessSynced(t *testing.T) {
	m := mount(t)
	m.must(os.MkdirAll(m.path("a/b"), 0o755))
	m.create("a/b/f", "1", true)
	m.sync("a/b")
	m.sync("a")
	m.sync(".")
	m.must(os.RemoveAll(m.path("a")))
	m.wantAbsent("a")
	m.fail(0)
	m.want("a/b/f", "1")
	m.must(os.Remove(m.path("a/b/f")))
	m.sync("a/b")
	m.fail(0)
	m.wantAbsent("a/b/f")
}

func TestAFileInADirectoryWithoutADurableNameIsGone(t *testing.T) {
	m := mount(t)
	m.must(os.Mkdir(m.path("d"), 0o755))
	m.create("d/f", "1", true)
	m.sync("d")
	m.fail(0)
	m.wantAbsent("d")
}

func TestAPrefixOfADirectorysChangesSurvives(t *testing.T) {
	lengths := map[int]bool{}
	for seed := range uint64(40) {
		m := mount(t)
		for i := range 3 {
			m.create(fmt.Sprint(i), "", true)
		}
		m.must(m.Unmount())
		m.PowerFail(rand.New(rand.NewPCG(seed, 0)), 0.5)
		m.must(m.Mount(m.dir))
		entries, err := os.ReadDir(m.dir)
		m.must(err)
		for i, e := range entries {
			if e.Name() != fmt.Sprint(i) {
				t.Fatalf("%v is not a prefix", entries)
			}
		}
		lengths[len(entries)] = true
		m.must(m.Unmount())
	}
	if len(lengths) != 4 {
		t.Fatalf("prefixes of %v seen, want of 0 to 3", lengths)
	}
}

func TestLiesAboutDirectoriesLoseNames(t *testing.T) {
	m := mount(t)
	m.SetLies(disk.Lies{DirSync: true})
	m.create("f", "1", true)
	m.sync(".")
	m.fail(0)
	m.wantAbsent("f")
}

func TestFaultsFailTheOperationAndNameTheFile(t *testing.T) {
	m := mount(t)
	m.must(os.Mkdir(m.path("objects"), 0o755))
	m.create("objects/a", "1", true)
	m.SetFault(func(op disk.Op) syscall.Errno {
		if op.Kind == "create" && filepath.Dir(op.Path) == "objects" {
			return syscall.ENOSPC
		}
		if op.Kind == "sync" && op.Path == "f" {
			return syscall.EIO
		}
		return 0
	})
	if err := os.WriteFile(m.path("objects/b"), nil, 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create: %v", err)
	}
	f, err := os.Create(m.path("f"))
	m.must(err)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v", err)
	}
	m.must(f.Close())
	m.want("objects/a", "1")
	m.SetFault(nil)
	m.create("objects/b", "2", true)
	m.want("objects/b", "2")
}

func TestAllocatedLinkedAndLockedFilesBehave(t *testing.T) {
	m := mount(t)
	f, err := os.Create(m.path("f"))
	m.must(err)
	m.must(syscall.Fallocate(int(f.Fd()), 0, 0, 1<<20))
	if st, err := f.Stat(); err != nil || st.Size() != 1<<20 {
		t.Fatalf("size %d, %v", st.Size(), err)
	}
	m.must(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	g, err := os.Open(m.path("f"))
	m.must(err)
	if err := syscall.Flock(int(g.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("second lock: %v", err)
	}
	m.must(g.Close())
	if err := os.Link(m.path("f"), m.path("f")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("link over a file: %v", err)
	}
	m.must(os.Link(m.path("f"), m.path("g")))
	m.must(os.Remove(m.path("f")))
	_, err = f.WriteAt([]byte("x"), 5) // through the open file, without its first name
	m.must(err)
	m.must(f.Close())
	if got, err := os.ReadFile(m.path("g")); err != nil || len(got) != 1<<20 || got[5] != 'x' {
		t.Errorf("linked file: %d bytes, %v", len(got), err)
	}
}

func TestManyFilesAreListedOnce(t *testing.T) {
	m := mount(t)
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprintf("file-with-a-rather-long-name-%04d", i))
		m.create(want[i], "x", false)
	}
	entries, err := os.ReadDir(m.dir)
	m.must(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d entries", len(got))
	}
}

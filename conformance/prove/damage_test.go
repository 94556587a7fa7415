package prove

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
)

// pond is a broker with content, some of it in objects and some in the log only.
type pond struct {
	*process.Broker
	t    *testing.T
	want sums
}

const pondPartitions = 8

func newPond(t *testing.T, seed uint64) *pond {
	t.Helper()
	p := &pond{t: t}
	p.Broker = process.Start(t, process.Config{Args: []string{"--memory", "64MiB", "--upload-size", "256KiB"}})
	p.must(load.CreateTopic(deadline(t), p.Addr, "kept", pondPartitions, nil))
	p.want = write(t, p.Addr, "kept", pondPartitions, 200, 1000, seed)
	process.Eventually(t, "uploads", func() bool {
		n, err := p.Metric("headpond_upload_objects_total")
		p.must(err)
		return n > 0
	})
	p.Kill()
	return p
}

func (p *pond) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pond) path(name string) string { return filepath.Join(p.DataDir, name) }

// intact starts the broker and reads everything.
func (p *pond) intact(when string) {
	p.t.Helper()
	p.Start()
	if err := read(deadline(p.t), p.Addr, "kept", p.want); err != nil {
		p.t.Fatalf("%s: %v", when, err)
	}
	p.Kill()
}

// objects are the names of the stored objects.
func (p *pond) objects() []string {
	p.t.Helper()
	var names []string
	p.must(filepath.WalkDir(p.path("objects"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !e.IsDir() && !strings.Contains(path, "~") {
			names = append(names, path)
		}
		return err
	}))
	slices.Sort(names)
	return names
}

// refused starts the broker, which must end with code 1 and one last line that has all the words; no object goes.
func (p *pond) refused(when string, words ...string) {
	p.t.Helper()
	before := p.objects()
	err := p.TryStart()
	exit, ok := errors.AsType[*process.ExitError](err)
	if !ok {
		p.Kill()
		p.t.Fatalf("%s: the broker was not refused: %v", when, err)
	}
	p.t.Logf("%s: %v", when, exit)
	for _, w := range words {
		if !strings.Contains(exit.Error(), w) {
			p.t.Errorf("%s: the message does not say %q: %v", when, w, exit)
		}
	}
	if exit.Code != 1 {
		p.t.Errorf("%s: exit code %d", when, exit.Code)
	}
	if !slices.Equal(p.objects(), before) {
		p.t.Errorf("%s: objects went or came: %d before, %d after", when, len(before), len(p.objects()))
	}
}

// move takes a part of the data directory away and returns a function that puts it back in place of what is there.
func (p *pond) move(name string) (back func()) {
	p.t.Helper()
	aside := filepath.Join(p.t.TempDir(), "aside")
	p.must(os.Rename(p.path(name), aside))
	return func() {
		p.t.Helper()
		p.must(os.RemoveAll(p.path(name)))
		p.must(os.Rename(aside, p.path(name)))
	}
}

func TestALostIndexIsHealed(t *testing.T) {
	_, seed := random(t)
	p := newPond(t, seed)
	p.must(os.RemoveAll(p.path("index")))
	p.intact("without the index")
}

func TestAnOlderIndexIsHealed(t *testing.T) {
	_, seed := random(t)
	p := newPond(t, seed)
	old := filepath.Join(t.TempDir(), "old")
	p.must(os.CopyFS(old, os.DirFS(p.path("index"))))
	p.Start()
	p.must(load.CreateTopic(deadline(t), p.Addr, "later", pondPartitions, nil))
	later := write(t, p.Addr, "later", pondPartitions, 200, 1000, seed+1)
	p.Kill()
	p.must(os.RemoveAll(p.path("index")))
	p.must(os.CopyFS(p.path("index"), os.DirFS(old)))
	p.intact("with an older index")
	p.Start()
	p.must(read(deadline(t), p.Addr, "later", later))
}

func TestAnAbsentLogIsRefused(t *testing.T) {
	_, seed := random(t)
	p := newPond(t, seed)
	back := p.move("wal")
	p.refused("without the log", p.path("wal"))
	indexBack := p.move("index")
	p.refused("without log and index", p.path("wal"))
	indexBack()
	back()
	p.intact("with the log put back")
}

func TestAnotherBrokersLogIsRefused(t *testing.T) {
	_, seed := random(t)
	p, other := newPond(t, seed), newPond(t, seed+1)
	back := p.move("wal")
	p.must(os.CopyFS(p.path("wal"), os.DirFS(other.path("wal"))))
	p.refused("with another broker's log", p.path("wal"))
	back()
	p.intact("with its own log put back")
}

func TestObjectsOfAnotherClusterAreRefused(t *testing.T) {
	_, seed := random(t)
	p, other := newPond(t, seed), newPond(t, seed+1)
	back := p.move("objects")
	p.must(os.CopyFS(p.path("objects"), os.DirFS(other.path("objects"))))
	p.refused("with another cluster's objects", p.path("objects"))
	back()
	p.intact("with its own objects put back")
}

func TestAbsentObjectsAreRefused(t *testing.T) {
	_, seed := random(t)
	p := newPond(t, seed)
	// Write until the log has handed records on, and cannot be come back from alone.
	p.SetArgs("--memory", "64MiB", "--upload-size", "256KiB", "--wal", "file:"+p.path("small")+"?capacity=16MiB")
	p.Start()
	p.must(load.CreateTopic(deadline(t), p.Addr, "more", 1, nil))
	write(t, p.Addr, "more", 1, 4000, 10_000, seed+1)
	p.Kill()
	back, indexBack := p.move("objects"), p.move("index")
	p.refused("without objects and index", p.path("objects"))
	indexBack()
	p.refused("without the objects", p.path("objects"))
	back()
	p.intact("with the objects put back")
}

// A log at a new address takes over from the registered one, which is drained first.
func TestAChangedLogIsDrainedIntoTheNewOne(t *testing.T) {
	_, seed := random(t)
	p := newPond(t, seed)
	moved := "file:" + p.path("wal2") + "?capacity=128MiB"
	p.SetArgs("--memory", "64MiB", "--wal", moved)
	p.intact("with a new log")
	p.must(os.RemoveAll(p.path("wal")))
	p.intact("with a new log and without the old one")
	p.must(os.RemoveAll(p.path("index")))
	p.intact("with a new log and without the index")
}

func TestADataDirectoryHasOneBroker(t *testing.T) {
	_, seed := random(t)
	p := newPond(t, seed)
	p.Start()
	second := process.New(t, process.Config{DataDir: p.DataDir})
	err := second.TryStart()
	exit, ok := errors.AsType[*process.ExitError](err)
	if !ok || exit.Code != 1 || !strings.Contains(exit.Error(), p.DataDir) {
		t.Fatalf("a second broker: %v", err)
	}
	t.Log(exit)
	p.must(read(deadline(t), p.Addr, "kept", p.want))
}

// A copy of a data directory without its log must not take the log of the original, which it knows by its path.
func TestACopyWithoutItsLogLeavesTheOriginalAlone(t *testing.T) {
	_, seed := random(t)
	p := newPond(t, seed)
	copied := filepath.Join(t.TempDir(), "copy")
	p.must(os.CopyFS(copied, os.DirFS(p.path("."))))
	p.must(os.RemoveAll(filepath.Join(copied, "wal")))
	err := process.New(t, process.Config{DataDir: copied, Args: []string{"--memory", "64MiB"}}).TryStart()
	if err == nil || !strings.Contains(err.Error(), "is absent") || !strings.Contains(err.Error(), p.path("wal")) {
		t.Errorf("the copy was started: %v", err)
	}
	p.intact("after a copy of it was started")
}

package fileobj_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/internal/vfs"
	"github.com/headpond/headpond/objbackends/fileobj"
)

const root = "/data/objects"

func open(fsys *crashfs.FS) (*fileobj.Store, error) {
	return fileobj.Open(root, fileobj.Options{Create: true, FS: fsys})
}

// content is what the name holds, for ever: some sectors and a bit.
func content(name string) []byte {
	return bytes.Repeat([]byte(name+" "), 2000/len(name))
}

// history is what a client of the store knows: what must be, what must not be, and what may be.
type history struct {
	kept, gone, open map[string]bool
}

// step does one thing to the store and notes what is known of it afterwards.
func (h *history) step(name string, err error, now, before map[string]bool) error {
	delete(h.open, name)
	if err != nil {
		delete(before, name)
		h.open[name] = true // it may have happened
		return err
	}
	delete(before, name)
	now[name] = true
	return nil
}

// script uses a store until the first error, which is the crash.
func script(ctx context.Context, fsys *crashfs.FS) (h history, err error) {
	h = history{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	s, err := open(fsys)
	if err != nil {
		return h, err
	}
	put := func(name string) func() error {
		return func() error {
			data := content(name)
			return h.step(name, s.Put(ctx, name, bytes.NewReader(data), int64(len(data))), h.kept, h.gone)
		}
	}
	create := func(name string) func() error {
		return func() error { return h.step(name, s.Create(ctx, name, content(name)), h.kept, h.gone) }
	}
	remove := func(name string) func() error {
		return func() error { return h.step(name, s.Delete(ctx, []string{name}), h.gone, h.kept) }
	}
	for _, do := range []func() error{
		create("root/1"), put("3f/c/w/1.bundle"), put("3f/c/w/2.bundle"), put("a0/c/w/3.segment"), put("3f/c/w/1.bundle"),
		remove("3f/c/w/2.bundle"), create("root/2"), remove("root/1"), put("4.bundle"),
	} {
		if err := do(); err != nil {
			return h, err
		}
	}
	return h, s.Close()
}

// check compares a store with what is known, and that nothing is left of what was cut off.
func (h *history) check(ctx context.Context, fsys *crashfs.FS) error {
	s, err := open(fsys)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for name := range h.kept {
		if err := whole(ctx, s, name); err != nil {
			return fmt.Errorf("%s was put: %w", name, err)
		}
	}
	for name := range h.gone {
		if err := whole(ctx, s, name); !errors.Is(err, engine.ErrNotFound) {
			return fmt.Errorf("%s was deleted: %v", name, err)
		}
	}
	for name := range h.open {
		if err := whole(ctx, s, name); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return fmt.Errorf("%s may be there, whole: %w", name, err)
		}
	}
	err = s.List(ctx, "", func(a engine.ObjectAttrs) bool {
		if a.Size != int64(len(content(a.Name))) {
			err = fmt.Errorf("%s is listed with %d bytes", a.Name, a.Size)
		}
		return true
	})
	if left, dirErr := fsys.ReadDir(root + "/~tmp/0"); err == nil && (dirErr != nil || len(left) > 0) {
		err = fmt.Errorf("%d temporary files are left, %v", len(left), dirErr)
	}
	entries, dirErr := fsys.ReadDir(root)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "~store.") {
			dirErr = errors.Join(dirErr, fmt.Errorf("%s is left", e.Name()))
		}
	}
	return errors.Join(err, dirErr)
}

func whole(ctx context.Context, s *fileobj.Store, name string) error {
	r, err := s.Get(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err == nil && !bytes.Equal(got, content(name)) {
		err = fmt.Errorf("%d bytes that were not put", len(got))
	}
	return err
}

// ways are the states in which a disk comes back.
func ways(seed uint64) []crashfs.Keep {
	return []crashfs.Keep{
		crashfs.Synced, crashfs.Written, crashfs.FirstSectors(1), crashfs.LastSectors(1), crashfs.Entries(1), crashfs.Entries(2),
		crashfs.Random(seed), crashfs.Random(seed + 1000),
	}
}

// TestCrashAtEveryOperation crashes a script at each operation that changes something, lets the disk come back in many
// ways, and crashes what comes back at each of its own operations before it looks.
func TestCrashAtEveryOperation(t *testing.T) {
	measure := crashfs.New()
	if _, err := script(t.Context(), measure); err != nil {
		t.Fatal(err)
	}
	for n := range measure.Ops() {
		fsys := crashfs.New()
		fsys.CrashAfter(n)
		known, err := script(t.Context(), fsys)
		if err == nil {
			t.Fatalf("the script went through with a crash at operation %d of %d", n, measure.Ops())
		}
		for i, keep := range ways(uint64(n)) {
			back := fsys.Restart(keep)
			if err := known.check(t.Context(), back); err != nil {
				t.Fatalf("crash at operation %d, keeping %s: %v", n, keep.Name, err)
			}
			if i%3 > 0 {
				continue // some ways suffice for the second crash
			}
			for m := range back.Ops() {
				again := fsys.Restart(keep)
				again.CrashAfter(m)
				_ = known.check(t.Context(), again) // it crashes on the way
				again.Crash()
				for _, keepAgain := range []crashfs.Keep{crashfs.Synced, crashfs.Written} {
					if err := known.check(t.Context(), again.Restart(keepAgain)); err != nil {
						t.Fatalf("crash at operation %d, keeping %s, then at operation %d of the check, keeping %s: %v", n, keep.Name, m, keepAgain.Name, err)
					}
				}
			}
		}
	}
}

// slowSync holds syncs of directories, once it is on.
type slowSync struct {
	vfs.FS
	on               bool
	reached, release chan struct{}
}

func (s *slowSync) SyncDir(name string) error {
	if s.on {
		s.reached <- struct{}{}
		<-s.release
	}
	return s.FS.SyncDir(name)
}

// TestWhatAReaderSawSurvives lets a reader find an object whose put has not come to syncing the directory.
func TestWhatAReaderSawSurvives(t *testing.T) {
	for name, see := range map[string]func(ctx context.Context, s *fileobj.Store) error{
		"get":  func(ctx context.Context, s *fileobj.Store) error { return whole(ctx, s, "d/new") },
		"head": func(ctx context.Context, s *fileobj.Store) error { _, err := s.Head(ctx, "d/new"); return err },
		"list": func(ctx context.Context, s *fileobj.Store) error {
			n := 0
			err := s.List(ctx, "d/new", func(engine.ObjectAttrs) bool { n++; return true })
			if err == nil && n != 1 {
				err = fmt.Errorf("%d objects", n)
			}
			return err
		},
		"create": func(ctx context.Context, s *fileobj.Store) error {
			if err := s.Create(ctx, "d/new", nil); !errors.Is(err, engine.ErrExists) {
				return fmt.Errorf("create: %v", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := crashfs.New()
			slow := &slowSync{FS: fsys, reached: make(chan struct{}), release: make(chan struct{})}
			writer, err := fileobj.Open(root, fileobj.Options{Create: true, FS: slow})
			if err == nil {
				err = writer.Create(t.Context(), "d/old", nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			reader, err := open(fsys)
			if err != nil {
				t.Fatal(err)
			}
			slow.on = true
			ended := make(chan error, 1)
			go func() { ended <- writer.Create(t.Context(), "d/new", content("d/new")) }()
			select {
			case <-slow.reached:
			case err := <-ended:
				t.Fatalf("the create returned without a sync of its directory: %v", err)
			}
			if err := see(t.Context(), reader); err != nil {
				t.Fatal(err)
			}
			fsys.Crash()
			close(slow.release)
			if err := <-ended; err == nil {
				t.Error("the create returned before its directory was synced")
			}
			back, err := open(fsys.Restart(crashfs.Synced))
			if err == nil {
				err = whole(t.Context(), back, "d/new")
			}
			if err != nil {
				t.Errorf("after the crash: %v", err)
			}
		})
	}
}

func TestAFailedDirectorySyncLeavesDoubtUntilPutAgain(t *testing.T) {
	fsys := crashfs.New()
	s, err := open(fsys)
	if err == nil {
		err = s.Create(t.Context(), "d/old", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	data := content("d/new")
	put := func() error { return s.Put(t.Context(), "d/new", bytes.NewReader(data), int64(len(data))) }
	fsys.Inject(crashfs.Fault{Op: crashfs.OpSyncDir, Name: root + "/d", Times: 1, Err: syscall.EIO})
	_, headErr := s.Head(t.Context(), "d/none")
	if err := put(); !errors.Is(err, engine.ErrUnavailable) || !errors.Is(headErr, engine.ErrNotFound) {
		t.Fatalf("put: %v; head of another: %v", err, headErr)
	}
	if err := whole(t.Context(), s, "d/new"); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Head(t.Context(), "d/new"); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("head: %v", err)
	}
	if err := s.Create(t.Context(), "d/new", data); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("create: %v", err)
	}
	if err := errors.Join(put(), whole(t.Context(), s, "d/new")); err != nil {
		t.Fatalf("put again: %v", err)
	}
	fsys.Crash()
	back, err := open(fsys.Restart(crashfs.Synced))
	if err == nil {
		err = whole(t.Context(), back, "d/new")
	}
	if err != nil {
		t.Errorf("after the crash: %v", err)
	}
}

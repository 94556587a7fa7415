package fileobj_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/objbackends/fileobj"
)

// onDisk opens a store in a directory of the machine and closes it at the end of the test.
func onDisk(t testing.TB, dir string) *fileobj.Store {
	t.Helper()
	s, err := fileobj.Open(dir, fileobj.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(ctx context.Context, s *fileobj.Store, name string) error {
	data := content(name)
	return s.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
}

func listed(ctx context.Context, s *fileobj.Store) (names []string, err error) {
	err = s.List(ctx, "", func(a engine.ObjectAttrs) bool {
		names = append(names, a.Name)
		return true
	})
	return names, err
}

func TestAnAbsentStoreIsMadeOnlyWhenAsked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if _, err := fileobj.Open(dir, fileobj.Options{}); !errors.Is(err, engine.ErrNotFound) || !strings.Contains(err.Error(), dir) {
		t.Errorf("absent directory: %v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := fileobj.Open(dir, fileobj.Options{}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("empty directory: %v", err)
	}
	if err := put(t.Context(), onDisk(t, dir), "x"); err != nil {
		t.Fatal(err)
	}
	again, err := fileobj.Open(dir, fileobj.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(whole(t.Context(), again, "x"), again.Close()); err != nil {
		t.Error(err)
	}
	if got, want := again.Info().URL, "file://"+filepath.ToSlash(dir); got != want {
		t.Errorf("URL %s, want %s", got, want)
	}
}

func TestAnUnknownMarkerIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "~store"), []byte("headpond objects 2\nABC\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := fileobj.Open(dir, fileobj.Options{Create: true}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("open: %v", err)
	}
}

// TestAnUnmountedDiskIsUnavailable takes the directory away, as when a disk is unmounted and its mount point is left.
func TestAnUnmountedDiskIsUnavailable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mnt")
	s := onDisk(t, dir)
	if err := put(t.Context(), s, "d/x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	check := func(state string) {
		t.Helper()
		_, headErr := s.Head(t.Context(), "d/x")
		_, listErr := listed(t.Context(), s)
		for what, err := range map[string]error{
			"get": whole(t.Context(), s, "d/x"), "head": headErr, "list": listErr, "delete": s.Delete(t.Context(), []string{"d/x"}),
			"put": put(t.Context(), s, "d/y"), "create": s.Create(t.Context(), "d/z", nil),
		} {
			if !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrNotFound) {
				t.Errorf("%s, %s: %v", state, what, err)
			}
		}
	}
	check("no directory")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	check("an empty directory")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d entries were made in the mount point: %v", len(left), err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	other := onDisk(t, dir)
	if _, err := s.Head(t.Context(), "d/x"); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("another store, head: %v", err)
	}
	if err := errors.Join(other.Close(), os.RemoveAll(dir), os.Rename(dir+".away", dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(whole(t.Context(), s, "d/x"), put(t.Context(), s, "d/y")); err != nil {
		t.Errorf("mounted again: %v", err)
	}
}

func TestForeignFilesAreIgnored(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir)
	if err := put(t.Context(), s, "d/x"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README", "d/notes.txt", "d/with space@", "lost+found/x@", "~other/x@", "@", "d/@", "d~/x@", ".~/x@", "..~/x@"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("foreign"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Mkdir(filepath.Join(dir, "directory@"), 0o755), os.Symlink("d/x@", filepath.Join(dir, "link@")))
	if err != nil {
		t.Fatal(err)
	}
	if names, err := listed(t.Context(), s); err != nil || len(names) != 1 || names[0] != "d/x" {
		t.Errorf("list shows %q, %v", names, err)
	}
	if _, err := s.Head(t.Context(), "directory"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("head of a directory: %v", err)
	}
}

func TestOpenSweepsWhatADeadOwnerLeftAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir)
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Put(t.Context(), "slow", r, int64(len(content("slow")))) }()
	if _, err := w.Write(content("slow")[:100]); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "~tmp", "1", "77")
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o755), os.WriteFile(left, []byte("half"), 0o644)); err != nil {
		t.Fatal(err)
	}
	other := onDisk(t, dir) // it takes the second slot
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left is there: %v", err)
	}
	if _, err := w.Write(content("slow")[100:]); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), <-ended, whole(t.Context(), other, "slow")); err != nil {
		t.Errorf("the put that was under way: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), onDisk(t, dir), "third"); err != nil {
		t.Error(err)
	}
	if slots, err := filepath.Glob(filepath.Join(dir, "~tmp", "*.lock")); err != nil || len(slots) != 2 {
		t.Errorf("slots %q, %v: a released one is not used again", slots, err)
	}
}

func TestATidiedStagingDirectoryIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir)
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "~tmp")), put(t.Context(), s, "x"), whole(t.Context(), s, "x")); err != nil {
		t.Error(err)
	}
}

func TestADirectoryThatWentAwayIsMadeAgainAtTheNextTry(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir)
	if err := errors.Join(put(t.Context(), s, "d/x"), os.RemoveAll(filepath.Join(dir, "d"))); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), s, "d/x"); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("first try: %v", err)
	}
	if err := errors.Join(put(t.Context(), s, "d/x"), whole(t.Context(), s, "d/x")); err != nil {
		t.Errorf("second try: %v", err)
	}
}

func TestAFileThatGotShorterIsNoEnd(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir)
	if err := put(t.Context(), s, "x"); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), "x", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(filepath.Join(dir, "x@"), 1000); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); len(b) != 1000 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestErrorsOfTheFileSystemSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		fault crashfs.Fault
		want  error
	}{
		"write, full":        {crashfs.Fault{Op: crashfs.OpWrite, Err: syscall.ENOSPC}, engine.ErrFull},
		"write, quota":       {crashfs.Fault{Op: crashfs.OpWrite, Err: syscall.EDQUOT}, engine.ErrFull},
		"write, short":       {crashfs.Fault{Op: crashfs.OpWrite, Short: 100}, engine.ErrUnavailable},
		"write, broken":      {crashfs.Fault{Op: crashfs.OpWrite, Err: syscall.EIO}, engine.ErrUnavailable},
		"sync, full":         {crashfs.Fault{Op: crashfs.OpSync, Err: syscall.ENOSPC}, engine.ErrFull},
		"sync, broken":       {crashfs.Fault{Op: crashfs.OpSync, Err: syscall.EIO}, engine.ErrUnavailable},
		"create, full":       {crashfs.Fault{Op: crashfs.OpCreate, Err: syscall.ENOSPC}, engine.ErrFull},
		"create, denied":     {crashfs.Fault{Op: crashfs.OpCreate, Err: syscall.EACCES}, engine.ErrDenied},
		"create, read-only":  {crashfs.Fault{Op: crashfs.OpCreate, Err: syscall.EROFS}, engine.ErrDenied},
		"mkdir, full":        {crashfs.Fault{Op: crashfs.OpMkdir, Err: syscall.ENOSPC}, engine.ErrFull},
		"rename, denied":     {crashfs.Fault{Op: crashfs.OpRename, Err: syscall.EPERM}, engine.ErrDenied},
		"rename, broken":     {crashfs.Fault{Op: crashfs.OpRename, Err: syscall.EIO}, engine.ErrUnavailable},
		"syncdir, broken":    {crashfs.Fault{Op: crashfs.OpSyncDir, Err: syscall.EIO}, engine.ErrUnavailable},
		"too many open, put": {crashfs.Fault{Op: crashfs.OpCreate, Err: syscall.EMFILE}, engine.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := crashfs.New()
			s, err := open(fsys)
			if err != nil {
				t.Fatal(err)
			}
			heal := fsys.Inject(c.fault)
			if err := put(t.Context(), s, "new/x"); !errors.Is(err, c.want) {
				t.Errorf("put: %v, want %v", err, c.want)
			}
			heal()
			if _, err := s.Head(t.Context(), "new/x"); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("head after the failed put: %v", err)
			}
			if err := errors.Join(put(t.Context(), s, "new/x"), whole(t.Context(), s, "new/x")); err != nil {
				t.Errorf("once healed: %v", err)
			}
		})
	}
}

func TestReadErrorsAreNeverAbsence(t *testing.T) {
	fsys := crashfs.New()
	s, err := open(fsys)
	if err == nil {
		err = put(t.Context(), s, "d/x")
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fault crashfs.Fault
		want  error
	}{
		"open, broken":    {crashfs.Fault{Op: crashfs.OpOpen, Err: syscall.EIO}, engine.ErrUnavailable},
		"open, too many":  {crashfs.Fault{Op: crashfs.OpOpen, Err: syscall.EMFILE}, engine.ErrUnavailable},
		"open, denied":    {crashfs.Fault{Op: crashfs.OpOpen, Name: "x@", Err: syscall.EACCES}, engine.ErrDenied},
		"read, broken":    {crashfs.Fault{Op: crashfs.OpRead, Err: syscall.EIO}, engine.ErrUnavailable},
		"readdir, broken": {crashfs.Fault{Op: crashfs.OpReadDir, Err: syscall.EIO}, engine.ErrUnavailable},
		"marker, broken":  {crashfs.Fault{Op: crashfs.OpOpen, Name: "~store", Err: syscall.EIO}, engine.ErrUnavailable},
	} {
		heal := fsys.Inject(c.fault)
		name1, _, _ := strings.Cut(name, ",")
		var err error
		switch name1 {
		case "readdir":
			_, err = listed(t.Context(), s)
		case "marker":
			err = whole(t.Context(), s, "d/absent")
		default:
			err = whole(t.Context(), s, "d/x")
		}
		if !errors.Is(err, c.want) || errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		heal()
	}
}

func TestAFullDiskHealsOnceThereIsRoom(t *testing.T) {
	fsys := crashfs.New()
	s, err := open(fsys)
	if err == nil {
		err = put(t.Context(), s, "d/x")
	}
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetLimit(1000)
	if err := put(t.Context(), s, "d/y"); !errors.Is(err, engine.ErrFull) {
		t.Errorf("full: %v", err)
	}
	if err := whole(t.Context(), s, "d/x"); err != nil {
		t.Errorf("a full disk is read: %v", err)
	}
	reader, err := open(fsys)
	if err != nil {
		t.Fatalf("a full disk is opened: %v", err)
	}
	if err := whole(t.Context(), reader, "d/x"); err != nil {
		t.Errorf("a full disk is opened and read: %v", err)
	}
	if err := s.Delete(t.Context(), []string{"d/x"}); err != nil {
		t.Errorf("a full disk is emptied: %v", err)
	}
	fsys.SetLimit(1 << 30)
	if err := errors.Join(put(t.Context(), s, "d/y"), put(t.Context(), reader, "d/z")); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestAStoreOpensWhereNothingCanBeWritten reads on a file system that refuses locks and files.
func TestAStoreOpensWhereNothingCanBeWritten(t *testing.T) {
	fsys := crashfs.New()
	s, err := open(fsys)
	if err == nil {
		err = errors.Join(put(t.Context(), s, "d/x"), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []crashfs.Op{crashfs.OpCreate, crashfs.OpMkdir, crashfs.OpLock, crashfs.OpSyncDir, crashfs.OpRemove, crashfs.OpRename, crashfs.OpLink} {
		fsys.Inject(crashfs.Fault{Op: op, Err: syscall.EROFS})
	}
	s, err = fileobj.Open(root, fileobj.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	names, err := listed(t.Context(), s)
	if err := errors.Join(err, whole(t.Context(), s, "d/x")); err != nil || len(names) != 1 {
		t.Errorf("list shows %q: %v", names, err)
	}
	if err := put(t.Context(), s, "d/y"); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("put: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

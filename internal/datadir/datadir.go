// Package datadir is a broker's data directory: what is in it, which version wrote it, and that one process at a time
// uses it.
//
//	format    the text of Format: which layout the directory has
//	lock      locked with flock(2) while a process uses the directory; holds that process's id
//	wal/      the file WAL, where that is the default
//	objects/  the object store, where that is the default
//	index/    the index; may be removed while nothing uses the directory
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Format is what the format file of this version holds.
const Format = "headpond data directory 1\n"

const (
	formatFile = "format"
	lockFile   = "lock"
)

// ours are the entries that a data directory may hold before it has a format file: what a user may have put back.
var ours = []string{formatFile, formatFile + ".new", lockFile, "wal", "objects", "index", "index.damaged", "index.new", "index.check", "lost+found"}

// InUseError: another process uses the directory.
type InUseError struct {
	Path string
	PID  int // 0 when it could not be told
}

// Error names the directory and the process.
func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("data directory %s is in use by %s", e.Path, who)
}

// Dir is a data directory that this process uses.
type Dir struct {
	Path string // absolute
	lock *os.File
}

// Open makes the directory where it is absent, locks it and checks its format. An *InUseError says that another
// process has it. A directory of another version, or with files in it that are not a broker's, is refused and not
// changed.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	if err := makeDir(abs); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", abs, err)
	}
	fresh, err := checkFormat(abs)
	if err != nil {
		return nil, err
	}
	d := &Dir{Path: abs}
	if err := d.acquire(); err != nil {
		return nil, err
	}
	if fresh {
		if err := writeFormat(abs); err != nil {
			d.lock.Close()
			return nil, fmt.Errorf("data directory %s: write the format file: %w", abs, err)
		}
	}
	return d, nil
}

// OpenExisting is Open for tools: an absent directory is an error.
func OpenExisting(path string) (*Dir, error) {
	if _, err := os.Stat(filepath.Join(path, formatFile)); err != nil {
		return nil, fmt.Errorf("%s is not a data directory: %w", path, err)
	}
	return Open(path)
}

// WAL is where the file WAL is by default.
func (d *Dir) WAL() string { return filepath.Join(d.Path, "wal") }

// Objects is where the objects are by default.
func (d *Dir) Objects() string { return filepath.Join(d.Path, "objects") }

// Index is where the index is.
func (d *Dir) Index() string { return filepath.Join(d.Path, "index") }

// Close lets another process use the directory. The lock file stays.
func (d *Dir) Close() error { return d.lock.Close() }

// makeDir makes the directory and those above it that are missing, and makes each new name durable.
func makeDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return errors.New("it is a file")
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// checkFormat says whether the directory is new, or why it cannot be used.
func checkFormat(path string) (fresh bool, err error) {
	text, err := os.ReadFile(filepath.Join(path, formatFile))
	switch {
	case err == nil && string(text) == Format:
		return false, nil
	case err == nil:
		return false, fmt.Errorf("data directory %s has the format %q, and this version reads %q only: use the version that wrote it, or another directory",
			path, strings.TrimSpace(string(text[:min(len(text), 100)])), strings.TrimSpace(Format))
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("data directory %s: %w", path, err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, fmt.Errorf("data directory %s: %w", path, err)
	}
	for _, e := range entries {
		if !slices.Contains(ours, e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			return false, fmt.Errorf("%s is not a data directory, and not empty: it holds %s; use an empty or a new one", path, e.Name())
		}
	}
	return true, nil
}

func (d *Dir) acquire() error {
	f, err := os.OpenFile(filepath.Join(d.Path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.Path, err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err == syscall.EWOULDBLOCK {
		held := &InUseError{Path: d.Path, PID: holder(f)}
		f.Close()
		return held
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		// On a full disk this fails, and a start must not: the number is for a message only.
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("data directory %s: lock: %w", d.Path, err)
	}
	d.lock = f
	return nil
}

// holder reads the process id that the lock's holder wrote; 0 when it has not got there yet.
func holder(f *os.File) int {
	text, err := io.ReadAll(io.LimitReader(f, 20))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

func writeFormat(path string) error {
	name := filepath.Join(path, formatFile)
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(Format)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return err
	}
	return syncDir(path)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

package index

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/headpond/headpond/engine"
)

// damaged says that what is stored cannot be what was written.
func (ix *Index) damaged(err error) error { return damage(ix.dir, err) }

func damage(dir string, err error) error {
	if errors.Is(err, engine.ErrCorrupt) {
		return err
	}
	return &engine.CorruptError{
		Where: dir, Offset: -1, Err: err,
		Reason: "the index is damaged; remove the directory " + dir + ", it is rebuilt from the log and the objects",
	}
}

// classify turns an error of Pebble or of the file system into one of the engine's. A file that is gone, though the store
// had it, is damage.
func (ix *Index) classify(err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case isEngineError(err):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", engine.ErrFull, err)
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist):
		return ix.damaged(err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", engine.ErrDenied, err)
	case errors.Is(err, pebble.ErrClosed):
		return fmt.Errorf("%w: %w", engine.ErrClosed, err)
	case errors.As(err, &errno):
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
}

// classifyOpen is classify for what opening a store returns: Pebble does not mark everything that it cannot make sense
// of as corruption, but what is no error of the file system is nothing else.
func (ix *Index) classifyOpen(err error) error {
	var (
		errno syscall.Errno
		path  *fs.PathError
	)
	if err == nil || isEngineError(err) || errors.As(err, &errno) || errors.As(err, &path) || errors.Is(err, errFrozen) {
		return ix.classify(err)
	}
	return ix.damaged(err)
}

func isEngineError(err error) bool {
	for _, e := range []error{engine.ErrCorrupt, engine.ErrFull, engine.ErrClosed, engine.ErrInvalid, engine.ErrUnavailable, engine.ErrDenied} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// checkFiles looks at the names in the store's directory before Pebble does. It refuses a store of a newer Pebble by name,
// and one that has tables but no marker that names its manifest: Pebble would take that for a new store and delete the
// tables. (A store that is cut off while it is made has no tables yet.)
func checkFiles(dir string, names []string) error {
	hasTable, hasManifest := false, false
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, ".sst"):
			hasTable = true
		case strings.HasPrefix(name, "marker.manifest."):
			hasManifest = true
		case strings.HasPrefix(name, "marker.format-version."):
			version, err := strconv.ParseUint(name[strings.LastIndexByte(name, '.')+1:], 10, 64)
			if err == nil && version > uint64(formatVersion) {
				return fmt.Errorf("%w: %s holds an index of a newer program (store format %d, this one knows %d)",
					engine.ErrInvalid, dir, version, formatVersion)
			}
		}
	}
	if hasTable && !hasManifest {
		return damage(dir, errors.New("there are tables but no manifest"))
	}
	return nil
}

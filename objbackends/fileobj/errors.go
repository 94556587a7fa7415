package fileobj

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/vfs"
)

// classified are the errors that say already what the caller does next.
var classified = []error{
	engine.ErrNotFound, engine.ErrExists, engine.ErrUnavailable, engine.ErrFull, engine.ErrDenied, engine.ErrInvalid,
	engine.ErrClosed, context.Canceled, context.DeadlineExceeded,
}

// classify adds to a file system's error what the caller does next. What is not known to be anything else may be
// repeated. Absence is not decided here: see [Store.absent].
func classify(err error) error {
	if err == nil {
		return nil
	}
	for _, c := range classified {
		if errors.Is(err, c) {
			return err
		}
	}
	kind := engine.ErrUnavailable
	switch {
	case vfs.NoSpace(err):
		kind = engine.ErrFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind = engine.ErrDenied
	case errors.Is(err, fs.ErrClosed):
		kind = engine.ErrClosed
	}
	return fmt.Errorf("%w: %w", kind, err)
}

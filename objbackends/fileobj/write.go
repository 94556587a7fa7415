package fileobj

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/objectrules"
	"github.com/headpond/headpond/internal/vfs"
)

// buffers are what puts copy through.
var buffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// Put implements [engine.ObjectStore]. The object appears by a rename, once its bytes are durable.
func (s *Store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := s.put(ctx, name, r, size); err != nil {
		return fmt.Errorf("put %s of %d bytes: %w", name, size, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := s.begin(ctx, name); err != nil {
		return err
	}
	defer s.end()
	if size < 0 {
		return fmt.Errorf("%w: negative size", engine.ErrInvalid)
	}
	buf := buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(buf)
	tmp, err := s.write(func(f vfs.File) error {
		at := int64(0)
		return objectrules.Copy(ctx, r, size, buf[:], func(p []byte) error {
			n, err := f.WriteAt(p, at)
			at += int64(n)
			if err != nil {
				return classify(err)
			}
			return s.going(ctx)
		})
	})
	if err != nil {
		return err
	}
	return s.publish(tmp, name, s.fs.Rename)
}

// Create implements [engine.ObjectStore]. The object appears by a hard link, which fails if the name is taken.
func (s *Store) Create(ctx context.Context, name string, data []byte) error {
	if err := s.create(ctx, name, data); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

func (s *Store) create(ctx context.Context, name string, data []byte) error {
	if err := s.begin(ctx, name); err != nil {
		return err
	}
	defer s.end()
	tmp, err := s.write(func(f vfs.File) error {
		_, err := f.WriteAt(data, 0)
		return classify(err)
	})
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, s.fs.Remove(tmp))
	}
	return s.publish(tmp, name, s.link)
}

// link gives the temporary file its name, if that is free, and takes its temporary one away.
func (s *Store) link(tmp, path string) error {
	err := s.fs.Link(tmp, path)
	_ = s.fs.Remove(tmp) // else it goes when the slot is next taken
	return err
}

// write makes a temporary file, fills it and makes its bytes durable. On an error nothing is left of it.
func (s *Store) write(fill func(vfs.File) error) (tmp string, err error) {
	f, err := s.tmp.create()
	if err != nil {
		return "", classify(err)
	}
	err = fill(f)
	if err == nil {
		err = f.Sync() // a lack of room may show only here
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = s.fs.Remove(f.Name()) // else it goes when the slot is next taken
		return "", classify(err)
	}
	return f.Name(), nil
}

// publish lets the temporary file appear under the name by move, and makes that durable. From here on nothing is
// cancelled: half of it would be an unknown outcome.
func (s *Store) publish(tmp, name string, move func(tmp, path string) error) error {
	path := s.path(name)
	dir := filepath.Dir(path)
	if err := s.dirs.ensure(dir); err != nil {
		_ = s.fs.Remove(tmp)
		return classify(err)
	}
	moved := move(tmp, path)
	if moved != nil && !errors.Is(moved, fs.ErrExist) {
		_ = s.fs.Remove(tmp)
		s.dirs.forget(dir) // it may be gone: the next try makes it again
		return classify(moved)
	}
	// The winner of a create may not have come to syncing the name yet; the loser relies on it as well.
	if err := s.dirs.sync(dir); err != nil {
		s.setDoubt(name, true)
		return fmt.Errorf("%w: sync of its directory: %w", engine.ErrUnavailable, err)
	}
	if moved != nil {
		if err := s.doubtful(name); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", engine.ErrExists, moved)
	}
	s.setDoubt(name, false)
	return nil
}

// Delete implements [engine.ObjectStore]. A returned delete survives a crash.
func (s *Store) Delete(ctx context.Context, names []string) error {
	if err := s.delete(ctx, names); err != nil {
		return fmt.Errorf("delete %d objects: %w", len(names), err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, names []string) error {
	if err := s.begin(ctx, names...); err != nil {
		return err
	}
	defer s.end()
	changed := map[string]bool{}
	missing := false
	for _, name := range names {
		if err := s.going(ctx); err != nil {
			return err
		}
		path := s.path(name)
		err := s.fs.Remove(path)
		switch {
		case gone(err):
			missing = true
		case err != nil:
			return fmt.Errorf("%s: %w", name, classify(err))
		}
		changed[filepath.Dir(path)] = true // an absent one may have been removed by a call that did not come to syncing
	}
	for dir := range changed {
		if err := s.dirs.sync(dir); err != nil && !gone(err) {
			return classify(err)
		}
	}
	if missing {
		if err := s.present(); err != nil {
			return err
		}
	}
	for _, name := range names {
		s.setDoubt(name, false)
	}
	return nil
}

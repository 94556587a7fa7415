package fileobj

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/objectrules"
	"github.com/headpond/headpond/internal/vfs"
)

// gone reports whether an error says that a file, or a directory above it, does not exist.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Get implements [engine.ObjectStore].
func (s *Store) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := s.get(ctx, name, off, n)
	if err != nil {
		return nil, fmt.Errorf("get %s from %d: %w", name, off, err)
	}
	return r, nil
}

func (s *Store) get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := s.begin(ctx, name); err != nil {
		return nil, err
	}
	defer s.end()
	path := s.path(name)
	f, err := s.fs.Open(path)
	if gone(err) {
		return nil, s.absent(err)
	}
	if err != nil {
		return nil, classify(err)
	}
	size, err := f.Size()
	if err == nil {
		n, err = objectrules.Range(off, n, size)
	}
	if err == nil {
		err = s.trust(name, path)
	}
	if err != nil {
		_ = f.Close()
		return nil, classify(err)
	}
	return &reader{ctx: ctx, f: f, name: name, at: off, end: off + n}, nil
}

// trust makes sure that what is visible under the name stays.
func (s *Store) trust(name, path string) error {
	if err := s.doubtful(name); err != nil {
		return err
	}
	return s.dirs.settle(filepath.Dir(path))
}

// reader reads [at, end) of an object. It ends with the context of its get.
type reader struct {
	ctx     context.Context
	f       vfs.File
	name    string
	at, end int64
}

// Read implements [io.Reader]. A file that is shorter than it was is no end: objects do not change.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read %s: %w", r.name, err)
	}
	if r.at == r.end {
		return 0, io.EOF
	}
	n, err := r.f.ReadAt(p[:min(int64(len(p)), r.end-r.at)], r.at)
	r.at += int64(n)
	switch {
	case n > 0 || len(p) == 0:
		return n, nil // an error comes again with the next read
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("read %s: the file ends at byte %d of %d: %w", r.name, r.at, r.end, io.ErrUnexpectedEOF)
	}
	return 0, fmt.Errorf("read %s at byte %d: %w", r.name, r.at, classify(err))
}

// Close implements [io.Closer].
func (r *reader) Close() error { return r.f.Close() }

// Head implements [engine.ObjectStore].
func (s *Store) Head(ctx context.Context, name string) (engine.ObjectAttrs, error) {
	size, err := s.head(ctx, name)
	if err != nil {
		return engine.ObjectAttrs{}, fmt.Errorf("head %s: %w", name, err)
	}
	return engine.ObjectAttrs{Name: name, Size: size}, nil
}

func (s *Store) head(ctx context.Context, name string) (size int64, err error) {
	if err := s.begin(ctx, name); err != nil {
		return 0, err
	}
	defer s.end()
	path := s.path(name)
	st, err := s.fs.Stat(path)
	switch {
	case gone(err):
		return 0, s.absent(err)
	case err != nil:
		return 0, classify(err)
	case !st.Mode().IsRegular():
		return 0, s.absent(fmt.Errorf("%s is no file", path))
	}
	return st.Size(), classify(s.trust(name, path))
}

// List implements [engine.ObjectStore]. It holds the names of one directory at a time, and of those above it.
func (s *Store) List(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
	if err := s.list(ctx, prefix, fn); err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return nil
}

var errStop = errors.New("stop")

func (s *Store) list(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	err := s.walk(ctx, s.root, "", prefix, fn)
	if errors.Is(err, errStop) {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	return s.present() // else what was listed was an empty mount point
}

// walk lists the directory that stands for the beginning base of names.
func (s *Store) walk(ctx context.Context, dir, base, prefix string, fn func(engine.ObjectAttrs) bool) error {
	entries, err := s.fs.ReadDir(dir)
	if gone(err) && dir != s.root {
		return nil
	}
	if err != nil {
		return err
	}
	last := ""
	for _, e := range entries {
		if err := s.going(ctx); err != nil {
			return err
		}
		name, ok := extend(base, e.Name(), e.IsDir())
		path := filepath.Join(dir, e.Name())
		switch {
		case !ok:
		case e.IsDir():
			if !strings.HasPrefix(name, prefix) && !strings.HasPrefix(prefix, name) {
				continue
			}
			if err := s.walk(ctx, path, name, prefix, fn); err != nil {
				return err
			}
		case e.Type().IsRegular() && name != last && strings.HasPrefix(name, prefix) && s.path(name) == path:
			last = name // a file system may show a file twice that is replaced meanwhile
			if err := s.show(name, dir, e, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// show passes one object of a list on.
func (s *Store) show(name, dir string, e fs.DirEntry, fn func(engine.ObjectAttrs) bool) error {
	if objectrules.CheckName(name) != nil {
		return nil
	}
	st, err := e.Info()
	if gone(err) {
		return nil
	}
	if err == nil {
		err = s.dirs.settle(dir)
	}
	if err != nil {
		return err
	}
	if !fn(engine.ObjectAttrs{Name: name, Size: st.Size()}) {
		return errStop
	}
	return nil
}

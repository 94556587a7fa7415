// Package memobj is the object store in memory: the reference that states the contract of [engine.ObjectStore] in the
// fewest words, for tests and for brokers that may forget.
//
// A [Bucket] stands for what the store holds. It outlives the handles that are opened on it, so that a test can close
// a store and open it again within one process.
package memobj

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/objectrules"
)

// Bucket holds objects. The zero value is empty and ready; its methods may be called concurrently.
type Bucket struct {
	mu      sync.RWMutex
	objects map[string][]byte // contents never change
}

// Open returns a handle on the bucket. Any number may be open.
func (b *Bucket) Open() engine.ObjectStore { return &store{bucket: b} }

// Size is how many objects there are and how many bytes they have.
func (b *Bucket) Size() (objects int, size int64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, o := range b.objects {
		size += int64(len(o))
	}
	return len(b.objects), size
}

// put stores the content, unless the name is taken and create is set.
func (b *Bucket) put(name string, content []byte, create bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.objects[name]; taken && create {
		return engine.ErrExists
	}
	if b.objects == nil {
		b.objects = map[string][]byte{}
	}
	b.objects[name] = content
	return nil
}

func (b *Bucket) get(name string) ([]byte, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	content, ok := b.objects[name]
	if !ok {
		return nil, engine.ErrNotFound
	}
	return content, nil
}

type store struct {
	bucket *Bucket
	closed atomic.Bool
}

// ready says why a call cannot begin.
func (s *store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return engine.ErrClosed
	}
	return ctx.Err()
}

// readyFor is ready and the check of the call's names.
func (s *store) readyFor(ctx context.Context, names ...string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	for _, name := range names {
		if err := objectrules.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) Info() engine.ObjectStoreInfo {
	return engine.ObjectStoreInfo{URL: "mem:", Domain: engine.DomainProcess}
}

func (s *store) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	err := s.readyFor(ctx, name)
	if err == nil && size < 0 {
		err = fmt.Errorf("%w: negative size", engine.ErrInvalid)
	}
	var content bytes.Buffer // grows with what is read: the size is only said
	if err == nil {
		err = objectrules.Copy(ctx, r, size, make([]byte, min(size, 64<<10)), func(p []byte) error {
			content.Write(p)
			return s.ready(ctx)
		})
	}
	if err == nil {
		err = s.bucket.put(name, content.Bytes(), false)
	}
	if err != nil {
		return fmt.Errorf("put %s of %d bytes: %w", name, size, err)
	}
	return nil
}

func (s *store) Create(ctx context.Context, name string, data []byte) error {
	err := s.readyFor(ctx, name)
	if err == nil {
		err = s.bucket.put(name, bytes.Clone(data), true)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

func (s *store) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	err := s.readyFor(ctx, name)
	var content []byte
	if err == nil {
		content, err = s.bucket.get(name)
	}
	if err == nil {
		n, err = objectrules.Range(off, n, int64(len(content)))
	}
	if err != nil {
		return nil, fmt.Errorf("get %s from %d: %w", name, off, err)
	}
	return &reader{ctx: ctx, r: bytes.NewReader(content[off : off+n])}, nil
}

// reader ends with the context of its get. It offers no WriteTo, by which callers could write to the bucket's memory.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

func (r *reader) Close() error { return nil }

func (s *store) Head(ctx context.Context, name string) (engine.ObjectAttrs, error) {
	err := s.readyFor(ctx, name)
	var content []byte
	if err == nil {
		content, err = s.bucket.get(name)
	}
	if err != nil {
		return engine.ObjectAttrs{}, fmt.Errorf("head %s: %w", name, err)
	}
	return engine.ObjectAttrs{Name: name, Size: int64(len(content))}, nil
}

// List takes the names at one moment, so that fn may call the store.
func (s *store) List(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	s.bucket.mu.RLock()
	names := slices.Collect(maps.Keys(s.bucket.objects))
	s.bucket.mu.RUnlock()
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if err := s.ready(ctx); err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		content, err := s.bucket.get(name)
		if err != nil {
			continue // deleted since
		}
		if !fn(engine.ObjectAttrs{Name: name, Size: int64(len(content))}) {
			return nil
		}
	}
	return nil
}

func (s *store) Delete(ctx context.Context, names []string) error {
	if err := s.readyFor(ctx, names...); err != nil {
		return fmt.Errorf("delete %d objects: %w", len(names), err)
	}
	s.bucket.mu.Lock()
	defer s.bucket.mu.Unlock()
	for _, name := range names {
		delete(s.bucket.objects, name)
	}
	return nil
}

func (s *store) Close() error {
	s.closed.Store(true)
	return nil
}

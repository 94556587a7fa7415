package objtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headpond/headpond/engine"
)

// Breakage changes one behaviour of a correct store, so that exactly the named checks fail: it shows that they look.
type Breakage struct {
	Behaviour string   // what the broken store does
	Caught    []string // names of the checks that fail; all others pass
	Break     func(Harness) Harness
}

// Breakages returns broken stores: for each check one at least that it catches. They are meant to be made from a store
// that is correct and fast, such as one in memory.
func Breakages() []Breakage {
	return slices.Concat(brokenWrites(), brokenCreates(), brokenReads(), brokenLists(), brokenHandles())
}

// twisted is a store with some methods replaced.
type twisted struct {
	engine.ObjectStore
	put    func(ctx context.Context, name string, r io.Reader, size int64) error
	create func(ctx context.Context, name string, data []byte) error
	get    func(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	head   func(ctx context.Context, name string) (engine.ObjectAttrs, error)
	list   func(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error
	delete func(ctx context.Context, names []string) error
	info   func() engine.ObjectStoreInfo
	close  func() error
}

func (t *twisted) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if t.put != nil {
		return t.put(ctx, name, r, size)
	}
	return t.ObjectStore.Put(ctx, name, r, size)
}

func (t *twisted) Create(ctx context.Context, name string, data []byte) error {
	if t.create != nil {
		return t.create(ctx, name, data)
	}
	return t.ObjectStore.Create(ctx, name, data)
}

func (t *twisted) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if t.get != nil {
		return t.get(ctx, name, off, n)
	}
	return t.ObjectStore.Get(ctx, name, off, n)
}

func (t *twisted) Head(ctx context.Context, name string) (engine.ObjectAttrs, error) {
	if t.head != nil {
		return t.head(ctx, name)
	}
	return t.ObjectStore.Head(ctx, name)
}

func (t *twisted) List(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
	if t.list != nil {
		return t.list(ctx, prefix, fn)
	}
	return t.ObjectStore.List(ctx, prefix, fn)
}

func (t *twisted) Delete(ctx context.Context, names []string) error {
	if t.delete != nil {
		return t.delete(ctx, names)
	}
	return t.ObjectStore.Delete(ctx, names)
}

func (t *twisted) Info() engine.ObjectStoreInfo {
	if t.info != nil {
		return t.info()
	}
	return t.ObjectStore.Info()
}

func (t *twisted) Close() error {
	if t.close != nil {
		return t.close()
	}
	return t.ObjectStore.Close()
}

// twist makes a breakage of every handle by itself.
func twist(behaviour string, caught []string, change func(t *twisted)) Breakage {
	return Breakage{Behaviour: behaviour, Caught: caught, Break: func(h Harness) Harness {
		open := h.Open
		h.Open = func(ctx context.Context) (engine.ObjectStore, error) {
			s, err := open(ctx)
			if err != nil {
				return nil, err
			}
			t := &twisted{ObjectStore: s}
			change(t)
			return t, nil
		}
		return h
	}}
}

func brokenWrites() []Breakage {
	return []Breakage{
		twist("refuses elements of more than 255 bytes", []string{"legal-names"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				for e := range strings.SplitSeq(name, "/") {
					if len(e) > 255 && len(name) <= 512 {
						return engine.ErrInvalid
					}
				}
				return t.ObjectStore.Put(ctx, name, r, size)
			}
		}),
		twist("takes a tilde in names", []string{"illegal-names"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				return t.ObjectStore.Put(ctx, strings.ReplaceAll(name, "~", "-"), r, size)
			}
		}),
		twist("loses the last byte of an odd length", []string{"put-visible"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				if size != 513 || !strings.HasSuffix(name, "size/513") {
					return t.ObjectStore.Put(ctx, name, r, size)
				}
				b, err := io.ReadAll(r)
				if err != nil {
					return err
				}
				return t.ObjectStore.Put(ctx, name, bytes.NewReader(b[:512]), 512)
			}
		}),
		twist("shows an empty object while it is put", []string{"put-hidden-until-whole"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				if !strings.HasSuffix(name, "/hidden") {
					return t.ObjectStore.Put(ctx, name, r, size)
				}
				return errors.Join(t.ObjectStore.Put(ctx, name, strings.NewReader(""), 0), t.ObjectStore.Put(ctx, name, r, size))
			}
		}),
		twist("keeps half an object when cancelled", []string{"put-cancelled"}, func(t *twisted) {
			t.put = keepsHalf(t, func(_ error, ctx context.Context) bool { return ctx.Err() != nil })
		}),
		twist("keeps half an object when its source breaks", []string{"put-reader-fails", "put-again"}, func(t *twisted) {
			t.put = keepsHalf(t, func(err error, ctx context.Context) bool {
				return ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, engine.ErrInvalid)
			})
		}),
		twist("takes less than the size", []string{"put-reader-ends-early"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				var got bytes.Buffer
				err := t.ObjectStore.Put(ctx, name, io.TeeReader(r, &got), size)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					return t.ObjectStore.Put(ctx, name, &got, int64(got.Len()))
				}
				return err
			}
		}),
		twist("leaves what is beyond the size", []string{"put-reader-goes-on", "put-reader-fails"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				return t.ObjectStore.Put(ctx, name, io.LimitReader(r, size), size)
			}
		}),
		twist("drops bytes that come with the end", []string{"put-reader-odd"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				return t.ObjectStore.Put(ctx, name, readerFunc(func(p []byte) (int, error) {
					n, err := r.Read(p)
					if errors.Is(err, io.EOF) {
						n = 0
					}
					return n, err
				}), size)
			}
		}),
		twist("refuses a second put", []string{"put-again"}, func(t *twisted) {
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				if _, err := t.ObjectStore.Head(ctx, name); err == nil {
					return engine.ErrExists
				}
				return t.ObjectStore.Put(ctx, name, r, size)
			}
		}),
	}
}

// keepsHalf stores half of what was read of a put that fails in the way told.
func keepsHalf(t *twisted, when func(error, context.Context) bool) func(context.Context, string, io.Reader, int64) error {
	return func(ctx context.Context, name string, r io.Reader, size int64) error {
		var got bytes.Buffer
		err := t.ObjectStore.Put(ctx, name, io.TeeReader(r, &got), size)
		if err != nil && got.Len() > 0 && when(err, ctx) || err != nil && strings.Contains(name, "again") && when(err, ctx) {
			half := got.Bytes()[:got.Len()/2]
			_ = t.ObjectStore.Put(context.WithoutCancel(ctx), name, bytes.NewReader(half), int64(len(half)))
		}
		return err
	}
}

func brokenCreates() []Breakage {
	return []Breakage{
		twist("creates nothing when the data is empty", []string{"create", "put-survives-reopening", "put-survives-crash", "concurrent"}, func(t *twisted) {
			t.create = func(ctx context.Context, name string, data []byte) error {
				if _, err := t.ObjectStore.Head(ctx, name); len(data) == 0 && errors.Is(err, engine.ErrNotFound) {
					return nil
				}
				return t.ObjectStore.Create(ctx, name, data)
			}
		}),
		twist("lets every create win", []string{"create-has-one-winner", "create-changes-nothing-that-exists", "concurrent"}, func(t *twisted) {
			t.create = func(ctx context.Context, name string, data []byte) error {
				return t.ObjectStore.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
			}
		}),
		twist("empties what a create of nothing finds", []string{"create-changes-nothing-that-exists", "concurrent"}, func(t *twisted) {
			t.create = func(ctx context.Context, name string, data []byte) error {
				err := t.ObjectStore.Create(ctx, name, data)
				if errors.Is(err, engine.ErrExists) && len(data) == 0 {
					_ = t.ObjectStore.Put(ctx, name, strings.NewReader(""), 0)
				}
				return err
			}
		}),
		twist("keeps the caller's slice", []string{"create-borrows-its-data"}, func(t *twisted) {
			var kept sync.Map
			t.create = func(ctx context.Context, name string, data []byte) error {
				err := t.ObjectStore.Create(ctx, name, data)
				if err == nil {
					kept.Store(name, data)
				}
				return err
			}
			t.get = func(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
				r, err := t.ObjectStore.Get(ctx, name, off, n)
				if data, ours := kept.Load(name); err == nil && ours && off == 0 && n == -1 {
					r = io.NopCloser(bytes.NewReader(data.([]byte)))
				}
				return r, err
			}
		}),
		{Behaviour: "forgets when it is closed", Caught: []string{"put-survives-reopening"}, Break: func(h Harness) Harness { return forgets(h, false) }},
		{Behaviour: "forgets when it crashes", Caught: []string{"put-survives-crash"}, Break: func(h Harness) Harness { return forgets(h, true) }},
	}
}

// forgets loses what was created, at a crash or else at a close.
func forgets(h Harness, atCrash bool) Harness {
	var mu sync.Mutex
	var created []string
	open, crash := h.Open, h.Crash
	lose := func(s engine.ObjectStore) error {
		mu.Lock()
		defer mu.Unlock()
		return s.Delete(context.Background(), created)
	}
	crashed := false
	h.Open = func(ctx context.Context) (engine.ObjectStore, error) {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		t := &twisted{ObjectStore: s}
		t.create = func(ctx context.Context, name string, data []byte) error {
			err := s.Create(ctx, name, data)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				created = append(created, name)
			}
			return err
		}
		closed := false
		t.close = func() error {
			if !atCrash && !crashed && !closed {
				_ = lose(s)
			}
			closed = true
			return s.Close()
		}
		return t, nil
	}
	h.Crash = func() error {
		crashed = true
		if err := crash(); err != nil || !atCrash {
			return err
		}
		s, err := open(context.Background())
		if err != nil {
			return err
		}
		return errors.Join(lose(s), s.Close())
	}
	return h
}

func brokenReads() []Breakage {
	return []Breakage{
		twist("reads to the end whatever is asked for", []string{"get-range"}, func(t *twisted) {
			t.get = func(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
				if n > 0 && off == 333 {
					n = -1
				}
				return t.ObjectStore.Get(ctx, name, off, n)
			}
		}),
		twist("ends a byte early when reading to the end from within", []string{"get-to-the-end"}, func(t *twisted) {
			t.get = func(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
				a, err := t.ObjectStore.Head(ctx, name)
				if err == nil && n == -1 && off > 0 && off < a.Size {
					n = a.Size - off - 1
				}
				return t.ObjectStore.Get(ctx, name, off, n)
			}
		}),
		twist("reads nothing beyond the end, without an error", []string{"get-beyond-the-end"}, func(t *twisted) {
			t.get = func(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
				if a, err := t.ObjectStore.Head(ctx, name); err == nil && off >= a.Size && n > 0 {
					n = 0
					off = a.Size
				}
				return t.ObjectStore.Get(ctx, name, off, n)
			}
		}),
		twist("leaks a connection for each read that is given up", []string{"get-half-and-close"}, func(t *twisted) {
			var leaked atomic.Int64
			t.get = func(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
				r, err := t.ObjectStore.Get(ctx, name, off, n)
				if err != nil {
					return nil, err
				}
				if leaked.Load() >= 50 {
					return nil, errors.Join(engine.ErrUnavailable, r.Close())
				}
				return &leaky{ReadCloser: r, leaked: &leaked}, nil
			}
		}),
		twist("calls it unavailable where an object is in the way", []string{"absent-is-not-found"}, func(t *twisted) {
			t.head = func(ctx context.Context, name string) (engine.ObjectAttrs, error) {
				a, err := t.ObjectStore.Head(ctx, name)
				parent := name[:max(strings.LastIndex(name, "/"), 0)]
				if _, above := t.ObjectStore.Head(ctx, parent); errors.Is(err, engine.ErrNotFound) && above == nil {
					return a, engine.ErrUnavailable
				}
				return a, err
			}
		}),
	}
}

// leaky counts itself when it is closed before its end.
type leaky struct {
	io.ReadCloser
	leaked *atomic.Int64
	ended  bool
}

func (l *leaky) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.ended = l.ended || errors.Is(err, io.EOF)
	return n, err
}

func (l *leaky) Close() error {
	if !l.ended {
		l.leaked.Add(1)
	}
	return l.ReadCloser.Close()
}

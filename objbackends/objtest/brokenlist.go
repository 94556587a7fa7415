package objtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headpond/headpond/engine"
)

// all collects a list.
func all(ctx context.Context, s engine.ObjectStore, prefix string) (objects []engine.ObjectAttrs, err error) {
	err = s.List(ctx, prefix, func(a engine.ObjectAttrs) bool {
		objects = append(objects, a)
		return true
	})
	slices.SortFunc(objects, func(a, b engine.ObjectAttrs) int { return strings.Compare(a.Name, b.Name) })
	return objects, err
}

func brokenLists() []Breakage {
	return []Breakage{
		twist("takes a prefix for whole elements", []string{"list-prefix"}, func(t *twisted) {
			t.list = func(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
				return t.ObjectStore.List(ctx, prefix, func(a engine.ObjectAttrs) bool {
					rest := a.Name[len(prefix):]
					if rest != "" && rest[0] != '/' && prefix != "" && !strings.HasSuffix(prefix, "/") {
						return true
					}
					return fn(a)
				})
			}
		}),
		twist("ends after a page of 300", []string{"list-many", "list-while-changing"}, func(t *twisted) {
			t.list = func(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
				n := 0
				return t.ObjectStore.List(ctx, prefix, func(a engine.ObjectAttrs) bool {
					n++
					return n <= 300 && fn(a)
				})
			}
		}),
		twist("finds the next page by counting", []string{"list-while-changing", "list-calls-back"}, func(t *twisted) {
			t.list = func(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
				const page = 7
				for from := 0; ; from += page {
					objects, err := all(ctx, t.ObjectStore, prefix)
					if err != nil || from >= len(objects) {
						return err
					}
					for _, a := range objects[from:min(from+page, len(objects))] {
						if !fn(a) {
							return nil
						}
					}
				}
			}
		}),
		twist("goes on after a false", []string{"list-stops"}, func(t *twisted) {
			t.list = func(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
				return t.ObjectStore.List(ctx, prefix, func(a engine.ObjectAttrs) bool {
					fn(a)
					return true
				})
			}
		}),
		twist("is busy with the object that a list shows", []string{"list-calls-back"}, func(t *twisted) {
			var shown sync.Map
			t.list = func(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
				return t.ObjectStore.List(ctx, prefix, func(a engine.ObjectAttrs) bool {
					shown.Store(a.Name, true)
					defer shown.Delete(a.Name)
					return fn(a)
				})
			}
			t.delete = func(ctx context.Context, names []string) error {
				for _, name := range names {
					if _, busy := shown.Load(name); busy {
						return engine.ErrUnavailable
					}
				}
				return t.ObjectStore.Delete(ctx, names)
			}
		}),
		twist("deletes what is below a name too", []string{"delete"}, func(t *twisted) {
			t.delete = func(ctx context.Context, names []string) error {
				err := t.ObjectStore.Delete(ctx, names)
				for _, name := range names {
					if !strings.HasSuffix(name, "/a") {
						continue
					}
					below, listErr := all(ctx, t.ObjectStore, name+"/")
					err = errors.Join(err, listErr)
					for _, a := range below {
						err = errors.Join(err, t.ObjectStore.Delete(ctx, []string{a.Name}))
					}
				}
				return err
			}
		}),
		twist("misses what it shall delete", []string{"delete-absent"}, func(t *twisted) {
			t.delete = func(ctx context.Context, names []string) error {
				for _, name := range names {
					if _, err := t.ObjectStore.Head(ctx, name); errors.Is(err, engine.ErrNotFound) {
						return err
					}
				}
				return t.ObjectStore.Delete(ctx, names)
			}
		}),
		twist("deletes a hundred at most", []string{"delete-many"}, func(t *twisted) {
			t.delete = func(ctx context.Context, names []string) error {
				return t.ObjectStore.Delete(ctx, names[:min(len(names), 100)])
			}
		}),
	}
}

func brokenHandles() []Breakage {
	return []Breakage{
		twist("changes its URL", []string{"info"}, func(t *twisted) {
			var n atomic.Int64
			t.info = func() engine.ObjectStoreInfo {
				i := t.ObjectStore.Info()
				i.URL += fmt.Sprint(n.Add(1))
				return i
			}
		}),
		twist("takes one put of a name at a time", []string{"concurrent"}, func(t *twisted) {
			var busy sync.Map
			t.put = func(ctx context.Context, name string, r io.Reader, size int64) error {
				if _, taken := busy.LoadOrStore(name, true); taken {
					return engine.ErrUnavailable
				}
				defer busy.Delete(name)
				return t.ObjectStore.Put(ctx, name, r, size)
			}
		}),
		twist("reads on although the call is cancelled", []string{"cancelled-before"}, func(t *twisted) {
			t.head = func(ctx context.Context, name string) (engine.ObjectAttrs, error) {
				return t.ObjectStore.Head(context.WithoutCancel(ctx), name)
			}
		}),
		twist("fails a second close", []string{"closed"}, func(t *twisted) {
			var closed atomic.Bool
			t.close = func() error {
				if closed.Swap(true) {
					return engine.ErrClosed
				}
				return t.ObjectStore.Close()
			}
		}),
	}
}

package objtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/headpond/headpond/engine"
)

func deleteChecks() []Check {
	return []Check{
		{Name: "delete", Sentence: `Delete removes the named objects.`, run: deletes},
		{Name: "delete-absent", Sentence: `Deleting the absent succeeds.`, run: deletesAbsent},
		{Name: "delete-many", Sentence: `Delete removes the named objects.`, run: deletesMany},
	}
}

func deletes(ctx context.Context, e *env) error {
	names := []string{e.name("a"), e.name("a/b"), e.name("ab"), e.name("c/d")}
	for _, name := range names {
		if err := e.put(ctx, name, []byte(name)); err != nil {
			return err
		}
	}
	for i, name := range names {
		if err := e.store.Delete(ctx, []string{name}); err != nil {
			return err
		}
		if err := e.lacks(ctx, name); err != nil {
			return err
		}
		for _, other := range names[i+1:] {
			if err := e.holds(ctx, other, []byte(other)); err != nil {
				return fmt.Errorf("%s after the delete of %s: %w", other, name, err)
			}
		}
	}
	return e.store.Delete(ctx, nil)
}

func deletesAbsent(ctx context.Context, e *env) error {
	there := e.name("there")
	if err := e.put(ctx, there, nil); err != nil {
		return err
	}
	for range 2 {
		if err := e.store.Delete(ctx, []string{e.name("absent"), there, e.name("no/such/place"), e.name("there/below")}); err != nil {
			return err
		}
		if err := e.lacks(ctx, there); err != nil {
			return err
		}
	}
	return nil
}

func deletesMany(ctx context.Context, e *env) error {
	n := min(e.h.Many, 1200) // more than stores take in one request
	name := func(i int) string { return e.name(fmt.Sprintf("%d/%d", i%5, i)) }
	if err := fill(ctx, e, n, name); err != nil {
		return err
	}
	var names []string
	for i := 1; i < n; i++ {
		names = append(names, name(i))
	}
	if err := e.store.Delete(ctx, names); err != nil {
		return err
	}
	left, err := e.list(ctx, e.prefix)
	if err != nil {
		return err
	}
	if _, kept := left[name(0)]; len(left) != 1 || !kept {
		return fmt.Errorf("%d objects are left of the one that was not named", len(left))
	}
	return nil
}

func handleChecks() []Check {
	return []Check{
		{Name: "info", Sentence: `It is constant and needs no I/O.`, run: info},
		{Name: "concurrent", Sentence: `All methods may be called concurrently.`, run: concurrent},
		{Name: "cancelled-before", Sentence: `After [ErrUnavailable], or the context's error, a put or delete may have happened.`, run: cancelledBefore},
		{Name: "closed", Sentence: `After Close every method returns [ErrClosed]; a second Close returns nil.`, run: closed},
	}
}

func info(ctx context.Context, e *env) error {
	before := e.store.Info()
	if err := e.put(ctx, e.name("x"), nil); err != nil {
		return err
	}
	if after := e.store.Info(); after != before || before.URL == "" {
		return fmt.Errorf("it was %+v and is %+v", before, after)
	}
	return nil
}

// concurrent lets workers do everything at once, each on names of its own, and compares with what each should see.
func concurrent(ctx context.Context, e *env) error {
	if err := nested(ctx, e); err != nil {
		return err
	}
	const workers, steps = 6, 60
	var wg sync.WaitGroup
	var errs [workers]error
	for w := range workers {
		wg.Go(func() { errs[w] = worker(ctx, e, w, steps) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// nested puts an object, and does everything else, from within the reader of a put of the same object.
func nested(ctx context.Context, e *env) error {
	name, other := e.name("nested"), e.name("other")
	data := pattern(name, 5000)
	var inner error
	within := calls(func() {
		inner = errors.Join(e.put(ctx, name, data), e.holds(ctx, name, data), e.store.Create(ctx, other, data), e.store.Delete(ctx, []string{other}), e.lacks(ctx, other))
	})
	r := io.MultiReader(bytes.NewReader(data[:2000]), within, bytes.NewReader(data[2000:]))
	if err := e.store.Put(ctx, name, onlyReader{r}, int64(len(data))); err != nil {
		return fmt.Errorf("put with another of the same name in its midst: %w", err)
	}
	if inner != nil {
		return fmt.Errorf("within a put of the same name: %w", inner)
	}
	return e.holds(ctx, name, data)
}

func worker(ctx context.Context, e *env, w, steps int) error {
	r := rand.New(rand.NewPCG(uint64(w), 1))
	model := map[string][]byte{}
	for step := range steps {
		n := r.IntN(8)
		name := e.name(fmt.Sprintf("worker%d/%d", w, n))
		data, there := model[name]
		var err error
		switch op := r.IntN(4); {
		case op == 0 && there:
			err = e.store.Delete(ctx, []string{name})
			delete(model, name)
		case op == 1 && there:
			err = want("create over another", e.store.Create(ctx, name, nil), engine.ErrExists)
		case op < 3 && !there:
			data = pattern(name, n*700) // a name has one content for ever
			model[name] = data
			if op == 1 {
				err = e.store.Create(ctx, name, data)
			} else {
				err = e.put(ctx, name, data)
			}
		case there:
			err = e.holds(ctx, name, data)
		default:
			err = e.lacks(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("worker %d, step %d, %s: %w", w, step, name, err)
		}
	}
	return nil
}

// cancelledBefore calls with a context that has ended.
func cancelledBefore(ctx context.Context, e *env) error {
	there, absent := e.name("there"), e.name("absent")
	data := []byte("data")
	if err := e.put(ctx, there, data); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, headErr := e.store.Head(ended, there)
	b, getErr := e.get(ended, there, 0, -1)
	for what, err := range map[string]error{
		"put": e.store.Put(ended, absent, strings.NewReader("data"), 4), "head": headErr, fmt.Sprintf("get of %d bytes", len(b)): getErr,
		"list": e.store.List(ended, e.prefix, func(engine.ObjectAttrs) bool { return true }),
	} {
		if err := want(what, err, context.Canceled); err != nil {
			return err
		}
	}
	return errors.Join(e.allOrNothing(ctx, absent, data), e.holds(ctx, there, data))
}

func closed(ctx context.Context, e *env) error {
	name := e.name("closed")
	if err := e.put(ctx, name, nil); err != nil {
		return err
	}
	s := e.store
	if err := s.Close(); err != nil {
		return err
	}
	_, getErr := s.Get(ctx, name, 0, -1)
	_, headErr := s.Head(ctx, name)
	for what, err := range map[string]error{
		"put": s.Put(ctx, e.name("new"), strings.NewReader(""), 0), "create": s.Create(ctx, e.name("new"), nil), "get": getErr, "head": headErr,
		"list": s.List(ctx, "", func(engine.ObjectAttrs) bool { return true }), "delete": s.Delete(ctx, []string{name}),
	} {
		if err := want(what, err, engine.ErrClosed); err != nil {
			return err
		}
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("second close: %w", err)
	}
	if err := e.open(ctx); err != nil {
		return err
	}
	return e.lacks(ctx, e.name("new"))
}

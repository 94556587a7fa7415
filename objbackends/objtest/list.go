package objtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/headpond/headpond/engine"
)

func listChecks() []Check {
	const each = `List calls fn for the objects whose name begins with prefix, in no particular order, each once.`
	const stable = `An object that was there from before the call until after it is among them; others may be.`
	return []Check{
		{Name: "list-prefix", Sentence: each, run: listPrefix},
		{Name: "list-many", Sentence: each, run: listMany},
		{Name: "list-while-changing", Sentence: stable, run: listChanging},
		{Name: "list-stops", Sentence: `A false from fn ends the list without error.`, run: listStops},
		{Name: "list-calls-back", Sentence: `All methods may be called concurrently.`, run: listCallsBack},
	}
}

func listPrefix(ctx context.Context, e *env) error {
	sizes := map[string]int64{}
	for i, s := range []string{"a", "a/b", "a/b/c", "ab", "a.b", "b/a", "B"} {
		name := e.name(s)
		sizes[name] = int64(i * 100)
		if err := e.put(ctx, name, pattern(name, i*100)); err != nil {
			return err
		}
	}
	for prefix, names := range map[string][]string{
		"":    {"a", "a/b", "a/b/c", "ab", "a.b", "b/a", "B"},
		"a":   {"a", "a/b", "a/b/c", "ab", "a.b"},
		"a/":  {"a/b", "a/b/c"},
		"a/b": {"a/b", "a/b/c"},
		"b/":  {"b/a"}, "B": {"B"}, "c": nil, "a//": nil, "../": nil,
	} {
		got, err := e.list(ctx, e.name(prefix))
		if err != nil {
			return err
		}
		wanted := map[string]int64{}
		for _, s := range names {
			wanted[e.name(s)] = sizes[e.name(s)]
		}
		if !maps.Equal(got, wanted) {
			return fmt.Errorf("list of %q shows %v, want %v", prefix, got, wanted)
		}
	}
	all, err := e.list(ctx, "")
	if err != nil {
		return err
	}
	for name, size := range sizes {
		if got, there := all[name]; !there || got != size {
			return fmt.Errorf("list of everything shows %s: %t, with %d bytes", name, there, got)
		}
	}
	return nil
}

// fill puts n objects with some workers.
func fill(ctx context.Context, e *env, n int, name func(i int) string) error {
	const workers = 8
	var wg sync.WaitGroup
	var errs [workers]error
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = e.put(ctx, name(i), pattern("fill", i%7))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func listMany(ctx context.Context, e *env) error {
	name := func(i int) string { return e.name(fmt.Sprintf("many/%d/%05d", i%3, i)) }
	if err := fill(ctx, e, e.h.Many, name); err != nil {
		return err
	}
	for _, prefix := range []string{"many/", "many/1/"} {
		got, err := e.list(ctx, e.name(prefix))
		if err != nil {
			return err
		}
		wanted := 0
		for i := range e.h.Many {
			if prefix == "many/1/" && i%3 != 1 {
				continue
			}
			wanted++
			if size, there := got[name(i)]; !there || size != int64(i%7) {
				return fmt.Errorf("list of %q shows %s: %t, with %d bytes", prefix, name(i), there, size)
			}
		}
		if len(got) != wanted {
			return fmt.Errorf("list of %q shows %d objects of %d", prefix, len(got), wanted)
		}
	}
	return nil
}

// listChanging deletes and puts other objects from within the list, among the stable ones in the order of names, so that
// pages and directory blocks shift under it.
func listChanging(ctx context.Context, e *env) error {
	n := min(e.h.Many, 1200)
	stable := func(i int) string { return e.name(fmt.Sprintf("%04d-stable", i)) }
	passing := func(i int) string { return e.name(fmt.Sprintf("%04d-passing", i)) }
	if err := errors.Join(fill(ctx, e, n, stable), fill(ctx, e, n, passing)); err != nil {
		return err
	}
	var bad error
	seen := map[string]bool{}
	err := e.store.List(ctx, e.prefix, func(a engine.ObjectAttrs) bool {
		if seen[a.Name] {
			bad = fmt.Errorf("list shows %s twice", a.Name)
		}
		seen[a.Name] = true
		if i := len(seen); strings.HasSuffix(a.Name, "-stable") && i%10 == 0 {
			gone := []string{passing((i / 10) % n), passing((i/10 + n/2) % n)}
			bad = errors.Join(bad, e.store.Delete(ctx, gone), e.put(ctx, e.name(fmt.Sprintf("%04d-new", i)), nil))
		}
		return bad == nil
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	for i := range n {
		if !seen[stable(i)] {
			return fmt.Errorf("list does not show %s", stable(i))
		}
	}
	return nil
}

func listStops(ctx context.Context, e *env) error {
	if err := fill(ctx, e, 20, func(i int) string { return e.name(fmt.Sprintf("%d/%d", i%4, i)) }); err != nil {
		return err
	}
	for _, after := range []int{1, 2, 19} {
		calls := 0
		err := e.store.List(ctx, e.prefix, func(engine.ObjectAttrs) bool {
			calls++
			return calls < after
		})
		if err != nil || calls != after {
			return fmt.Errorf("%d calls where the answer to number %d was false: error %w", calls, after, orNone(err))
		}
	}
	return nil
}

// listCallsBack uses the store from within fn, as a sweep does.
func listCallsBack(ctx context.Context, e *env) error {
	if err := fill(ctx, e, 20, func(i int) string { return e.name(fmt.Sprintf("%d/%d", i%4, i)) }); err != nil {
		return err
	}
	var bad error
	var seen []string
	err := e.store.List(ctx, e.prefix, func(a engine.ObjectAttrs) bool {
		seen = append(seen, a.Name)
		_, headErr := e.store.Head(ctx, a.Name)
		bad = errors.Join(headErr, e.store.Delete(ctx, []string{a.Name}))
		return bad == nil
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	slices.Sort(seen)
	if seen = slices.Compact(seen); len(seen) != 20 {
		return fmt.Errorf("list showed %d objects of 20 while each was deleted when shown", len(seen))
	}
	left, err := e.list(ctx, e.prefix)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d objects are left after all were deleted", len(left))
	}
	return err
}

package objtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing/iotest"

	"github.com/headpond/headpond/engine"
)

func getChecks() []Check {
	const beyond = `A range that starts at or beyond the end is [ErrInvalid], save the empty range at the end, which reads nothing; one that reaches beyond the end is cut there.`
	return []Check{
		{Name: "get-range", Sentence: `Get returns a reader of the bytes [off, off+n) of the object.`, run: getRange},
		{Name: "get-to-the-end", Sentence: `n of -1 means to the end.`, run: getToEnd},
		{Name: "get-beyond-the-end", Sentence: beyond, run: getBeyond},
		{Name: "get-half-and-close", Sentence: `The caller closes the reader.`, run: getHalf},
		{Name: "absent-is-not-found", Sentence: `ErrNotFound: what was asked for is positively absent.`, run: absent},
	}
}

const rangeSize = 100_000

func ranged(ctx context.Context, e *env) (name string, data []byte, err error) {
	name = e.name("ranged")
	data = pattern(name, rangeSize)
	return name, data, e.put(ctx, name, data)
}

func getRange(ctx context.Context, e *env) error {
	name, data, err := ranged(ctx, e)
	if err != nil {
		return err
	}
	for _, off := range []int64{0, 1, 511, 4096, 50_000, rangeSize - 1} {
		for _, n := range []int64{0, 1, 513, 4096, rangeSize - off} {
			if off+n > rangeSize {
				continue
			}
			got, err := e.get(ctx, name, off, n)
			if err != nil || !bytes.Equal(got, data[off:off+n]) {
				return fmt.Errorf("%d bytes from %d: %d bytes: error %w", n, off, len(got), orNone(err))
			}
		}
	}
	// TestReader reads in many ways and compares; it is not bound to package testing.
	r, err := e.store.Get(ctx, name, 333, 4444)
	if err != nil {
		return err
	}
	return errors.Join(iotest.TestReader(onlyReader{r}, data[333:333+4444]), r.Close())
}

func getToEnd(ctx context.Context, e *env) error {
	name, data, err := ranged(ctx, e)
	if err != nil {
		return err
	}
	for _, off := range []int64{0, 1, 50_000, rangeSize - 1, rangeSize} {
		got, err := e.get(ctx, name, off, -1)
		if err != nil || !bytes.Equal(got, data[off:]) {
			return fmt.Errorf("from %d to the end: %d bytes: error %w", off, len(got), orNone(err))
		}
	}
	return nil
}

func getBeyond(ctx context.Context, e *env) error {
	name, data, err := ranged(ctx, e)
	empty := e.name("empty")
	if err := errors.Join(err, e.put(ctx, empty, nil)); err != nil {
		return err
	}
	for _, c := range []struct {
		name   string
		off, n int64
		want   []byte
	}{
		{name, 0, rangeSize + 1, data}, {name, rangeSize - 10, 1 << 40, data[rangeSize-10:]}, {name, rangeSize, 0, nil}, {empty, 0, 0, nil}, {empty, 0, -1, nil},
	} {
		got, err := e.get(ctx, c.name, c.off, c.n)
		if err != nil || !bytes.Equal(got, c.want) {
			return fmt.Errorf("%d bytes from %d: %d bytes: error %w", c.n, c.off, len(got), orNone(err))
		}
	}
	for _, c := range []struct {
		name   string
		off, n int64
	}{{name, rangeSize, 1}, {name, rangeSize + 1, 0}, {name, rangeSize + 1, -1}, {name, 1 << 40, 5}, {name, -1, 5}, {name, 0, -2}, {empty, 0, 1}, {empty, 1, -1}} {
		got, err := e.get(ctx, c.name, c.off, c.n)
		if err := want(fmt.Sprintf("%d bytes from %d read %d", c.n, c.off, len(got)), err, engine.ErrInvalid); err != nil {
			return err
		}
	}
	return nil
}

// getHalf gives readers up half-way, more often than any pool of connections or descriptors would bear a leak.
func getHalf(ctx context.Context, e *env) error {
	name, data, err := ranged(ctx, e)
	if err != nil {
		return err
	}
	for range 100 {
		r, err := e.store.Get(ctx, name, 0, -1)
		if err != nil {
			return err
		}
		half := make([]byte, rangeSize/2)
		_, err = io.ReadFull(r, half)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		if !bytes.Equal(half, data[:len(half)]) {
			return fmt.Errorf("the first half has other bytes")
		}
		clear(half) // the reader's bytes are the caller's: the store's are not touched by it
	}
	return e.holds(ctx, name, data)
}

func absent(ctx context.Context, e *env) error {
	if err := e.put(ctx, e.name("there/x"), []byte("x")); err != nil {
		return err
	}
	for _, name := range []string{e.name("nowhere"), e.name("there"), e.name("there/x/y"), e.name("there/xx"), e.name("there/X")} {
		if err := e.lacks(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

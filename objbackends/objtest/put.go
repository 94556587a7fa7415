package objtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing/iotest"

	"github.com/headpond/headpond/engine"
)

const (
	namesSentence  = `Names are slash-separated, 1 to 512 bytes of A-Z a-z 0-9 . _ - and /, no empty, "." or ".." element; others are [ErrInvalid].`
	putSentence    = `When it returns nil the object is durable and visible to Get, Head and List; before that nothing of it is visible, and after an error no part of it ever is: all or nothing.`
	readerSentence = `r is read once, to its end; a reader that fails or ends early fails the put, and a reader with bytes left over is [ErrInvalid].`
)

func nameChecks() []Check {
	return []Check{
		{Name: "legal-names", Sentence: namesSentence, run: legalNames},
		{Name: "illegal-names", Sentence: namesSentence, run: illegalNames},
	}
}

func legalNames(ctx context.Context, e *env) error {
	long := e.name("")
	names := []string{
		e.name("a"), e.name("a/b"), e.name("a/b/c"), e.name("A.z_-9"), e.name("..."), e.name(".x"), e.name("x."), e.name("-"),
		e.name("tmp"), e.name("a.tmp"), e.name(strings.Repeat("d/", 30) + "d"),
		long + strings.Repeat("n", 512-len(long)),                    // one long element
		e.name(strings.Repeat("n", 200) + "/x"),                      // and some beside it
		e.name(strings.Repeat("n", 201) + "/x"),                      //
		e.name(strings.Repeat("n", 255)),                             //
		e.name(strings.Repeat("n", 400) + "/n"),                      //
		e.name(strings.Repeat(".", 201) + "/x"),                      //
		long + strings.Repeat("element/", (512-len(long)-1)/8) + "e", // many short ones
	}
	for _, name := range names {
		if err := e.put(ctx, name, []byte(name)); err != nil {
			return fmt.Errorf("name %q of %d bytes: %w", name, len(name), err)
		}
	}
	listed, err := e.list(ctx, e.name(""))
	if err == nil && len(listed) != len(names) {
		err = fmt.Errorf("%d names are listed of %d", len(listed), len(names))
	}
	for _, name := range names {
		got, getErr := e.get(ctx, name, 0, -1)
		if size, there := listed[name]; err == nil && (getErr != nil || string(got) != name || !there || size != int64(len(name))) {
			err = fmt.Errorf("name %q of %d bytes: read %q, error %w; listed: %t, with %d bytes", name, len(name), got, orNone(getErr), there, size)
		}
	}
	return err
}

func illegalNames(ctx context.Context, e *env) error {
	for _, name := range []string{
		"", "/", "/" + e.name("a"), e.name(""), e.name("a//b"), e.name("."), e.name(".."), e.name("../a"), e.name("a/./b"), e.name("a/.."),
		e.name("a b"), e.name("a\\b"), e.name("\x00"), e.name("é"), e.name("a~"), e.name("a@"), e.name("a:b"), e.name("a%2fb"),
		e.name(strings.Repeat("n", 512)),
	} {
		_, getErr := e.store.Get(ctx, name, 0, -1)
		_, headErr := e.store.Head(ctx, name)
		for what, err := range map[string]error{
			"put":    e.store.Put(ctx, name, strings.NewReader("x"), 1),
			"create": e.store.Create(ctx, name, []byte("x")),
			"delete": e.store.Delete(ctx, []string{name}),
			"get":    getErr, "head": headErr,
		} {
			if err := want(fmt.Sprintf("%s %q", what, name), err, engine.ErrInvalid); err != nil {
				return err
			}
		}
	}
	return nil
}

func putChecks() []Check {
	return []Check{
		{Name: "put-visible", Sentence: putSentence, run: putVisible},
		{Name: "put-hidden-until-whole", Sentence: putSentence, run: putHidden},
		{Name: "put-cancelled", Sentence: putSentence, run: putCancelled},
		{Name: "put-reader-fails", Sentence: readerSentence, run: putReaderFails},
		{Name: "put-reader-ends-early", Sentence: readerSentence, run: putReaderShort},
		{Name: "put-reader-goes-on", Sentence: readerSentence, run: putReaderLong},
		{Name: "put-reader-odd", Sentence: readerSentence, run: putReaderOdd},
		{Name: "put-again", Sentence: `The name is not used before, or holds the same bytes.`, run: putAgain},
		{Name: "put-survives-reopening", Sentence: putSentence, run: putReopen},
		{Name: "put-survives-crash", Sentence: putSentence, Crashes: true, run: putCrash},
	}
}

func putVisible(ctx context.Context, e *env) error {
	// Around the edges of sectors, pages and pieces.
	sizes := []int{0, 1, 511, 512, 513, 4096, 64 << 10, e.h.Piece - 1, e.h.Piece, e.h.Piece + 1, e.longer()}
	slices.Sort(sizes)
	for _, n := range slices.Compact(sizes) {
		name := e.name(fmt.Sprintf("size/%d", n))
		if err := e.lacks(ctx, name); err != nil {
			return err
		}
		data := pattern(name, n)
		if err := e.put(ctx, name, data); err != nil {
			return err
		}
		if err := e.holds(ctx, name, data); err != nil {
			return fmt.Errorf("object of %d bytes: %w", n, err)
		}
	}
	return want("size -1", e.store.Put(ctx, e.name("negative"), strings.NewReader(""), -1), engine.ErrInvalid)
}

// putHidden looks while the put waits for the second half of its bytes; the first is more than a piece.
func putHidden(ctx context.Context, e *env) error {
	name := e.name("hidden")
	data := pattern(name, 2*e.longer())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := e.store.Put(ctx, name, r, int64(len(data)))
		r.CloseWithError(fmt.Errorf("the put ended: %w", orNone(err)))
		ended <- err
	}()
	half := len(data) / 2
	_, err := w.Write(data[:half])
	if err == nil {
		err = e.lacks(ctx, name)
	}
	if err == nil {
		_, err = w.Write(data[half:])
	}
	w.CloseWithError(err) // nil is the end
	putErr := <-ended
	if err := errors.Join(err, putErr); err != nil {
		return err
	}
	return e.holds(ctx, name, data)
}

// putCancelled cancels at several places of the content; the content itself goes on.
func putCancelled(ctx context.Context, e *env) error {
	for _, at := range []int{0, 1, e.h.Piece + 5, e.longer()} {
		name := e.name(fmt.Sprintf("cancelled-%d", at))
		data := pattern(name, e.longer())
		mine, cancel := context.WithCancel(ctx)
		r := io.MultiReader(bytes.NewReader(data[:at]), calls(cancel), bytes.NewReader(data[at:]))
		err := e.store.Put(mine, name, onlyReader{r}, int64(len(data)))
		cancel()
		if err == nil {
			err = e.holds(ctx, name, data)
		} else if err = want("cancelled put", err, context.Canceled); err == nil {
			err = e.allOrNothing(ctx, name, data)
		}
		if err != nil {
			return fmt.Errorf("cancelled at byte %d of %d: %w", at, len(data), err)
		}
	}
	return nil
}

// calls is an empty reader that calls f when it is read.
func calls(f func()) io.Reader {
	return readerFunc(func([]byte) (int, error) {
		f()
		return 0, io.EOF
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func putReaderFails(ctx context.Context, e *env) error {
	broken := errors.New("the source broke")
	for _, at := range []int{0, e.h.Piece + 5, e.longer()} {
		name := e.name(fmt.Sprintf("broken-%d", at))
		data := pattern(name, e.longer())
		r := io.MultiReader(bytes.NewReader(data[:at]), iotest.ErrReader(broken))
		err := want("put from a source that broke", e.store.Put(ctx, name, r, int64(len(data))), broken)
		if err == nil {
			err = e.lacks(ctx, name)
		}
		if err == nil {
			err = e.put(ctx, name, data) // a second try finds no trace of the first
		}
		if err == nil {
			err = e.holds(ctx, name, data)
		}
		if err != nil {
			return fmt.Errorf("broken at byte %d of %d: %w", at, len(data), err)
		}
	}
	return nil
}

func putReaderShort(ctx context.Context, e *env) error {
	for _, n := range []int{0, e.h.Piece + 5, e.longer() - 1} {
		name := e.name(fmt.Sprintf("short-%d", n))
		err := e.store.Put(ctx, name, onlyReader{bytes.NewReader(pattern(name, n))}, int64(e.longer()))
		if err == nil {
			return fmt.Errorf("%d bytes were taken for %d", n, e.longer())
		}
		if err := e.lacks(ctx, name); err != nil {
			return fmt.Errorf("%d bytes of %d: %w", n, e.longer(), err)
		}
	}
	return nil
}

func putReaderLong(ctx context.Context, e *env) error {
	for _, size := range []int{0, 1, e.h.Piece, e.longer()} {
		name := e.name(fmt.Sprintf("long-%d", size))
		err := want("a byte too many", e.store.Put(ctx, name, onlyReader{bytes.NewReader(pattern(name, size+1))}, int64(size)), engine.ErrInvalid)
		if err == nil {
			err = e.lacks(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("%d bytes for a size of %d: %w", size+1, size, err)
		}
	}
	return nil
}

// putReaderOdd uses readers that are legal and rare: few bytes at a time, and bytes together with the end.
func putReaderOdd(ctx context.Context, e *env) error {
	for kind, odd := range map[string]func(io.Reader) io.Reader{"one": iotest.OneByteReader, "half": iotest.HalfReader, "data-and-end": iotest.DataErrReader} {
		name := e.name(kind)
		data := pattern(name, 9999)
		if err := e.store.Put(ctx, name, odd(bytes.NewReader(data)), int64(len(data))); err != nil {
			return fmt.Errorf("%s reader: %w", kind, err)
		}
		if err := e.holds(ctx, name, data); err != nil {
			return fmt.Errorf("%s reader: %w", kind, err)
		}
	}
	return nil
}

func putAgain(ctx context.Context, e *env) error {
	name := e.name("again")
	data := pattern(name, 100_000)
	for range 3 {
		if err := e.put(ctx, name, data); err != nil {
			return err
		}
		if err := e.holds(ctx, name, data); err != nil {
			return err
		}
	}
	// A try that fails does not take away what is there.
	if err := e.store.Put(ctx, name, iotest.ErrReader(errors.New("broken")), int64(len(data))); err == nil {
		return fmt.Errorf("a broken source was taken")
	}
	return e.holds(ctx, name, data)
}

func putReopen(ctx context.Context, e *env) error { return survives(ctx, e, e.reopen) }
func putCrash(ctx context.Context, e *env) error  { return survives(ctx, e, e.crash) }

// survives puts, creates and deletes, goes through what happens, and looks again; twice, so that what survived once
// survives again.
func survives(ctx context.Context, e *env, happen func(context.Context) error) error {
	kept := map[string][]byte{}
	for round := range 2 {
		for i, n := range []int{0, 513, e.longer()} {
			put, created := e.name(fmt.Sprintf("%d/put/%d", round, i)), e.name(fmt.Sprintf("%d/created/%d", round, i))
			kept[put], kept[created] = pattern(put, n), pattern(created, n)
			if err := errors.Join(e.put(ctx, put, kept[put]), e.store.Create(ctx, created, kept[created])); err != nil {
				return err
			}
		}
		if err := happen(ctx); err != nil {
			return err
		}
		for name, data := range kept {
			if err := e.holds(ctx, name, data); err != nil {
				return fmt.Errorf("round %d, %s: %w", round, name, err)
			}
		}
	}
	return nil
}

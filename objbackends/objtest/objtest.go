// Package objtest certifies object stores: each sentence of the contract of [engine.ObjectStore] that can be checked
// from outside is a named check that quotes it when it fails.
//
// A backend joins by a [Harness]. The package does not import testing: a Go test and a command are two runners of the
// same checks.
//
//	for _, c := range objtest.Checks() {
//		t.Run(c.Name, func(t *testing.T) {
//			if err := objtest.Run(t.Context(), harness(t), c); err != nil {
//				t.Error(err)
//			}
//		})
//	}
package objtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"strings"

	"github.com/headpond/headpond/engine"
)

// Harness is what a check needs of the store under test.
type Harness struct {
	// Open opens the store; always the same one. Earlier handles may still be open.
	Open func(ctx context.Context) (engine.ObjectStore, error)
	// Crash loses everything that is not durable in the store's domain, and with it all open handles; Open works
	// afterwards. nil: the store cannot be crashed, and checks that need it do not apply.
	Crash func() error
	// Many is how many objects the checks of long lists make; 0 is 2500, which is more than two pages of any store.
	Many int
	// Piece is how many bytes of a put the store writes or sends at once; 0 is 256 KiB. Checks put objects around that
	// length and longer, so that they cross the seams of a store that puts in parts.
	Piece int
}

// Check is one sentence of the contract.
type Check struct {
	Name     string
	Sentence string // word for word from a doc comment of package engine
	Crashes  bool   // it needs [Harness].Crash
	run      func(ctx context.Context, e *env) error
}

// ErrNotApplicable is what [Run] returns for a check that needs what the harness lacks; it says what.
var ErrNotApplicable = errors.New("not applicable")

// Run runs one check on the store of the harness, under names of its own. An error quotes the sentence. The context
// ends a check that hangs; no check depends on time otherwise.
func Run(ctx context.Context, h Harness, c Check) error {
	if c.Crashes && h.Crash == nil {
		return fmt.Errorf("%s: %w: the store cannot be crashed", c.Name, ErrNotApplicable)
	}
	if h.Many <= 0 {
		h.Many = 2500
	}
	if h.Piece <= 0 {
		h.Piece = 256 << 10
	}
	e := &env{h: h, prefix: "objtest-" + strings.ToLower(rand.Text()[:10])}
	err := e.open(ctx)
	if err == nil {
		err = c.run(ctx, e)
	}
	if err = errors.Join(err, e.close(ctx)); err != nil {
		return fmt.Errorf("%s: %w\n\tcontract: %s", c.Name, err, c.Sentence)
	}
	return nil
}

// Checks returns all checks, in an order that puts the simple before what builds on it.
func Checks() []Check {
	return slices.Concat(nameChecks(), putChecks(), createChecks(), getChecks(), listChecks(), deleteChecks(), handleChecks())
}

// env is one check's store and names.
type env struct {
	h      Harness
	store  engine.ObjectStore
	prefix string
}

func (e *env) open(ctx context.Context) error {
	s, err := e.h.Open(ctx)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	e.store = s
	return nil
}

// close removes what the check left and closes the store; a check that closed it has nothing to remove.
func (e *env) close(ctx context.Context) error {
	if e.store == nil {
		return nil
	}
	var names []string
	err := e.store.List(ctx, e.prefix, func(a engine.ObjectAttrs) bool {
		names = append(names, a.Name)
		return true
	})
	if err == nil {
		_ = e.store.Delete(ctx, names) // a courtesy to stores that live on
	}
	return e.store.Close()
}

func (e *env) reopen(ctx context.Context) error {
	if err := e.store.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	e.store = nil
	return e.open(ctx)
}

func (e *env) crash(ctx context.Context) error {
	if err := e.h.Crash(); err != nil {
		return fmt.Errorf("crash: %w", err)
	}
	old := e.store
	e.store = nil
	_ = old.Close() // whatever it says: its store is gone
	return e.open(ctx)
}

// longer is the length of objects of more than one piece.
func (e *env) longer() int { return e.h.Piece + e.h.Piece/8 + 1 }

// name is a name of the check's own.
func (e *env) name(s string) string { return e.prefix + "/" + s }

// pattern is n bytes that depend on seed and have no period.
func pattern(seed string, n int) []byte {
	b := make([]byte, n)
	_, _ = mathrand.NewChaCha8(sha256.Sum256([]byte(seed))).Read(b) // never fails
	return b
}

func (e *env) put(ctx context.Context, name string, data []byte) error {
	if err := e.store.Put(ctx, name, onlyReader{bytes.NewReader(data)}, int64(len(data))); err != nil {
		return fmt.Errorf("put of %d bytes: %w", len(data), err)
	}
	return nil
}

// onlyReader hides what else a reader can do, so that a store cannot count on it.
type onlyReader struct{ io.Reader }

func (e *env) get(ctx context.Context, name string, off, n int64) ([]byte, error) {
	r, err := e.store.Get(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	return b.Bytes(), errors.Join(err, r.Close())
}

// holds checks that get, head and list all show the object with these bytes.
func (e *env) holds(ctx context.Context, name string, want []byte) error {
	got, err := e.get(ctx, name, 0, -1)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("get read %d bytes that are not the %d that were put", len(got), len(want))
	}
	a, err := e.store.Head(ctx, name)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	if attrs := (engine.ObjectAttrs{Name: name, Size: int64(len(want))}); a != attrs {
		return fmt.Errorf("head says %+v, not %+v", a, attrs)
	}
	listed, err := e.list(ctx, name)
	if err != nil {
		return err
	}
	if listed[name] != int64(len(want)) {
		return fmt.Errorf("list shows %v, not %s with %d bytes", listed, name, len(want))
	}
	return nil
}

// lacks checks that get, head and list all do not know the object.
func (e *env) lacks(ctx context.Context, name string) error {
	if b, err := e.get(ctx, name, 0, -1); !errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("get read %d bytes of an absent object: error %w", len(b), orNone(err))
	}
	if _, err := e.store.Head(ctx, name); !errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("head of an absent object: error %w", orNone(err))
	}
	listed, err := e.list(ctx, name)
	if err != nil {
		return err
	}
	if _, there := listed[name]; there {
		return fmt.Errorf("list shows an absent object")
	}
	return nil
}

// allOrNothing checks that the object is absent or whole.
func (e *env) allOrNothing(ctx context.Context, name string, want []byte) error {
	_, err := e.store.Head(ctx, name)
	if errors.Is(err, engine.ErrNotFound) {
		return e.lacks(ctx, name)
	}
	return e.holds(ctx, name, want)
}

// list returns names and sizes, and fails if a name comes twice or does not begin with prefix.
func (e *env) list(ctx context.Context, prefix string) (map[string]int64, error) {
	sizes := map[string]int64{}
	var bad error
	err := e.store.List(ctx, prefix, func(a engine.ObjectAttrs) bool {
		if _, twice := sizes[a.Name]; twice {
			bad = fmt.Errorf("list of %q shows %s twice", prefix, a.Name)
		}
		if !strings.HasPrefix(a.Name, prefix) {
			bad = fmt.Errorf("list of %q shows %s", prefix, a.Name)
		}
		sizes[a.Name] = a.Size
		return bad == nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	return sizes, bad
}

var errNone = errors.New("none")

// orNone lets messages show that there was no error.
func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// want checks that err is the sentinel.
func want(what string, err, sentinel error) error {
	if !errors.Is(err, sentinel) {
		return fmt.Errorf("%s: error %w, want %w", what, orNone(err), sentinel)
	}
	return nil
}

package engine

import (
	"context"
	"io"
)

// ObjectStore keeps immutable objects by name.
//
// Names are slash-separated, 1 to 512 bytes of A-Z a-z 0-9 . _ - and /, no empty, "." or ".." element; others are
// [ErrInvalid]. A name is never used for two different contents. Deadlines, retries, budgets and verification of content
// are the engine's: a backend makes one attempt and says truthfully what came of it.
//
// All methods may be called concurrently. After Close every method returns [ErrClosed]; a second Close returns nil.
//
// Errors after which nothing happened: [ErrInvalid], [ErrDenied], [ErrNotFound], [ErrExists], [ErrFull]. After
// [ErrUnavailable], or the context's error, a put or delete may have happened. Unreachable is never [ErrNotFound].
type ObjectStore interface {
	// Info describes the store. It is constant and needs no I/O.
	Info() ObjectStoreInfo

	// Put stores size bytes read from r under the name. When it returns nil the object is durable and visible to Get, Head
	// and List; before that nothing of it is visible, and after an error no part of it ever is: all or nothing.
	// r is read once, to its end; a reader that fails or ends early fails the put, and a reader with bytes left over is
	// [ErrInvalid]. The name is not used before, or holds the same bytes.
	Put(ctx context.Context, name string, r io.Reader, size int64) error

	// Create is Put for a small object, if the name is absent. Of concurrent creates of one name exactly one returns nil;
	// the others return [ErrExists]. data is borrowed for the call.
	Create(ctx context.Context, name string, data []byte) error

	// Get returns a reader of the bytes [off, off+n) of the object. n of -1 means to the end. A range that starts at or
	// beyond the end is [ErrInvalid], save the empty range at the end, which reads nothing; one that reaches beyond the end
	// is cut there. The caller closes the reader. An error may come from Get or from a later Read; fewer bytes than asked
	// for are never passed off as the end: Read then returns [io.ErrUnexpectedEOF] or another error.
	Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)

	// Head returns the object's attributes.
	Head(ctx context.Context, name string) (ObjectAttrs, error)

	// List calls fn for the objects whose name begins with prefix, in no particular order, each once. An object that was
	// there from before the call until after it is among them; others may be. A false from fn ends the list without error.
	List(ctx context.Context, prefix string, fn func(ObjectAttrs) bool) error

	// Delete removes the named objects. Deleting the absent succeeds. On an error any of them may be gone.
	Delete(ctx context.Context, names []string) error

	// Close releases what the store holds.
	Close() error
}

// ObjectAttrs describes one object.
type ObjectAttrs struct {
	Name string
	Size int64 // bytes
}

// ObjectStoreInfo describes a store.
type ObjectStoreInfo struct {
	URL    string // where it is, without credentials
	Domain Domain // what its objects survive
}

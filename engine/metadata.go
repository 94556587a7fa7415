package engine

import "context"

// Metadata is a small set of keys with compare-and-swap: topics, their configuration, producer-id blocks. With one
// broker the log itself holds it; a view of it is in the [Index].
//
// All methods may be called concurrently. A change is durable and visible to every reader when CompareAndSwap returns nil.
type Metadata interface {
	// Get returns the value and revision of a key, or [ErrNotFound].
	Get(key string) (MetaChange, error)

	// List calls fn for the keys that begin with prefix, in key order, until it returns false.
	List(prefix string, fn func(MetaChange) bool) error

	// CompareAndSwap writes the key if its revision is rev; 0 stands for absent. A nil value deletes the key. It returns the
	// new revision, which is greater than every earlier one of any key. A key with another revision is [ErrExists] and
	// nothing happened; after [ErrUnavailable] it is unknown.
	CompareAndSwap(ctx context.Context, key string, rev uint64, value []byte) (uint64, error)
}

package engine

import (
	"errors"
	"fmt"
)

// The errors of this package and of every backend. Each one tells the caller what to do next; they are matched with
// [errors.Is], never by text. Backends wrap them with what was attempted.
var (
	// ErrNotFound: what was asked for is positively absent. Never returned when the answer could not be had.
	ErrNotFound = errors.New("not found")
	// ErrExists: a conditional create lost; the winner is there to be read.
	ErrExists = errors.New("already exists")
	// ErrFenced: a later owner has taken over. The caller stops writing for good.
	ErrFenced = errors.New("fenced by a later owner")
	// ErrUnavailable: the call may be repeated; whether it took effect may be unknown.
	ErrUnavailable = errors.New("unavailable")
	// ErrCorrupt: stored bytes are not what was stored. The caller stops; see [CorruptError].
	ErrCorrupt = errors.New("corrupt")
	// ErrFull: no room now; nothing was consumed. It heals after a trim or once room is made.
	ErrFull = errors.New("full")
	// ErrDenied: credentials or permissions are refused. The caller backs off and alerts; it deletes nothing.
	ErrDenied = errors.New("denied")
	// ErrInvalid: the request can never succeed as it is; it is not retried.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: the record is larger than the log can ever take. It is an [ErrInvalid].
	ErrTooLarge = fmt.Errorf("%w: too large", ErrInvalid)
	// ErrClosed: the handle was closed.
	ErrClosed = errors.New("closed")
	// ErrPoisoned: an earlier write or sync on this handle failed or outlasted its deadline, so nothing on it is
	// trusted any more. The outcome of what was admitted and not done is unknown until the log is opened again.
	// It is an [ErrUnavailable].
	ErrPoisoned = fmt.Errorf("%w: poisoned by an earlier failure", ErrUnavailable)
)

// CorruptError says where stored bytes are not what was stored. It matches [ErrCorrupt].
type CorruptError struct {
	Where  string // the file, device or object
	Offset int64  // byte offset within Where of the first byte that is known to be wrong; negative when unknown
	Reason string // what was expected and what was found
	Err    error  // the cause, when there is one
}

// Error names the place and the reason.
func (e *CorruptError) Error() string {
	s := "corrupt: " + e.Where
	if e.Offset >= 0 {
		s += fmt.Sprintf(" at byte %d", e.Offset)
	}
	s += ": " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes the error match [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// errPartitionGone is why the handle of a partition can't be used any more.
var errPartitionGone = fmt.Errorf("partition: %w: its topic was deleted", ErrNotFound)

// errIndex marks failures of the index, which can be rebuilt, apart from those of the log, which can't.
var errIndex = errors.New("index")

// errMisplaced says that log and objects do not belong together, which no new session mends.
var errMisplaced = errors.New("log and objects do not belong together")

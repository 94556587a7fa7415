package engine

import (
	"context"
	"time"
)

// Position is where a record ends in a WAL. Positions are ordered as records were admitted, start at zero (the end of
// nothing), survive reopening and mean nothing to anyone but the WAL: a caller only compares them. A record of a WAL
// spans (previous record's position, its own position].
type Position uint64

// ID is a 128-bit random identity: of a cluster, of a WAL, of a topic. The zero ID is none.
type ID [16]byte

// WAL is a write-ahead log: an ordered sequence of records with one writer.
//
// Done means durable in the declared domain: a record that is done survives every failure smaller than
// [Capabilities].Domain, and so does every record before it.
//
// All methods may be called concurrently. After Close every method but Close returns [ErrClosed]; a second Close
// returns what the first did.
type WAL interface {
	// Info describes this opening of the log. It is constant and needs no I/O.
	Info() WALInfo

	// Append admits one record, or refuses it at once and consumes nothing. An admitted append ends done, or with the
	// handle poisoned. Appends take effect in call order, and their completions fire in call order, each exactly once,
	// from one goroutine of the WAL; a completion must not block and must not call the WAL's Close.
	//
	// The record's bytes are the concatenation of its parts. The parts are borrowed until the completion fires and the
	// WAL never writes to them; the WAL makes the only copy. Append never waits for I/O or for room.
	//
	// The returned position is that of the record. A refusal is one of [ErrFull] (heals after a trim), [ErrTooLarge],
	// [ErrFenced], [ErrPoisoned] or [ErrClosed]; after it the completion never fires.
	Append(record Record, done func(error)) (Position, error)

	// Read calls fn for each record in (from, to], in order. Records at or below the trim position may be missing: a
	// from below it is [ErrNotFound]. to is at most the last done position, else [ErrInvalid]. The bytes passed to fn
	// belong to the WAL and are valid during the call only. A false from fn ends the read without error.
	// A record that cannot be read back as it was written is [ErrCorrupt]; a failed read is [ErrUnavailable].
	Read(ctx context.Context, from, to Position, fn func(Position, []byte) bool) error

	// Replay calls fn for every record from the trim position to the recovered end, in order. It returns a prefix of
	// what was admitted by earlier openings that includes all that was done. Its bytes are as Read's. An error from fn
	// ends the replay and is returned.
	Replay(ctx context.Context, fn func(Position, []byte) error) error

	// Trim tells the WAL that records at or below the position are no longer needed. It is a hint: it may be lazy, it
	// never passes its argument, and a position at or below an earlier trim is ignored. Space is reused or deleted only
	// after the trim position is durable. Beyond the last done position it is [ErrInvalid].
	Trim(ctx context.Context, to Position) error

	// Stats reports fill and counters. It never blocks on I/O.
	Stats() WALStats

	// Close waits for the appends that were admitted, marks a clean end, and releases the log. An append that cannot
	// end is failed, so that every completion has fired when Close returns.
	Close() error
}

// Record is one append.
type Record struct {
	// Parts are joined to form the record, so that a header and a payload need no common buffer.
	Parts [][]byte
	// Internal records may use the last part of the capacity, which other records may not: commits must go through
	// when the log is full, since only they lead to a trim.
	Internal bool
}

// Size is the length of the record in bytes.
func (r Record) Size() int {
	n := 0
	for _, p := range r.Parts {
		n += len(p)
	}
	return n
}

// WALInfo describes one opening of a WAL.
type WALInfo struct {
	ID    ID       // identity of the log, given when it was made
	URL   string   // where it is, without credentials
	Epoch uint64   // owner epoch of this opening; greater than every earlier one's
	Trim  Position // trim position at open
	End   Position // recovered end: everything at or below it is done
	// Fresh says that the open made the log; there was nothing before.
	Fresh bool
	// Cut is how many bytes of torn tail the open dropped: bytes that never were acknowledged.
	Cut int64
	Capabilities
}

// Capabilities are what a WAL declares; each is certified by the conformance checks.
type Capabilities struct {
	Domain    Domain  // what the records survive
	Fencing   Fencing // how an earlier owner is kept out
	Takeover  bool    // another host can open the log of a dead one
	MaxRecord int     // largest record in bytes
}

// Domain is what durable data survives: every failure smaller than it.
type Domain int

// The durable domains, smallest first.
const (
	DomainProcess Domain = iota // lost with the process
	DomainHost                  // survives the process and a power failure, not the loss of the host's disk
	DomainZone                  // survives the loss of the host
	DomainRegion                // survives the loss of a zone
)

// String is the name used in messages and reports.
func (d Domain) String() string {
	return [...]string{"process", "host", "zone", "region"}[d]
}

// Fencing is how a WAL keeps an earlier owner from writing.
type Fencing int

// The kinds of fencing.
const (
	FencingNone     Fencing = iota // nothing does
	FencingAdvisory                // a lock that a well-behaved owner respects
	FencingEnforced                // an earlier owner's writes fail where they land
)

// String is the name used in messages and reports.
func (f Fencing) String() string {
	return [...]string{"none", "advisory", "enforced"}[f]
}

// WALOptions are what an engine asks of an opening.
type WALOptions struct {
	// MinEpoch is a lower bound: the new owner's epoch is the greater of it and the highest epoch in the log, plus one.
	MinEpoch uint64
	// Create makes the log when there is none. Without it, an absent log is [ErrNotFound], save one of [DomainProcess]: that is
	// made anew by every process.
	Create bool
	// ReadOnly opens without claiming the log: nothing is written, appends and trims are [ErrInvalid].
	ReadOnly bool
	// OnWrite, when set, is called after each device write with what it took, from the writing goroutine; it must not block.
	OnWrite func(WALWrite)
}

// WALWrite describes one write to the log's device.
type WALWrite struct {
	Bytes   int           // including headers and padding
	Records int           // records in it
	Elapsed time.Duration // from issue to durable
	Err     error
}

// WALStats is a moment's state of a WAL.
type WALStats struct {
	Capacity int64    // bytes that records, headers and padding may take
	Used     int64    // of these, not reusable yet
	Trim     Position // last trim that is durable
	Done     Position // last done position
	Admitted Position // last admitted position
	Poisoned error    // why the handle is poisoned, or nil
}

// WALOpener opens the same log each time it is called. Where fencing is advisory, it fails while an earlier owner holds
// the log. Opening for writing settles the past: what was read is made durable first, then the new epoch and the recovered
// end are, so that everything at or below the recovered end is done and nothing above it ever appears.
// A log that exists and is not intact is [ErrCorrupt]; one that another owner holds is [ErrFenced] and names the holder;
// one of another format, version or identity is [ErrInvalid].
type WALOpener func(ctx context.Context, o WALOptions) (WAL, error)

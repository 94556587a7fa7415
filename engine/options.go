package engine

import (
	"fmt"
	"log/slog"
	"time"
)

// Options are what an engine is made of. The components are required, save where a field says otherwise; a setting's zero
// value stands for its default.
type Options struct {
	// OpenWAL opens the log. The engine calls it again after a poisoned handle.
	OpenWAL WALOpener
	// WALURL is where OpenWAL's log is, without credentials, as it is registered beside the objects.
	WALURL string
	// OpenRegisteredWAL opens the log that an earlier start registered under the URL, when OpenWAL leads to another log: the
	// engine then drains the old one first. Nil: such a start is refused.
	OpenRegisteredWAL func(url string) (WALOpener, error)
	// Store keeps the objects.
	Store ObjectStore
	// Index is the index. The engine closes it, as it does the WAL; it does not close the store.
	Index Index
	// ReopenIndex opens the index again after a failure. Nil: an index that fails ends the engine.
	ReopenIndex func() (Index, error)

	// Batches knows record batches' insides, for look-ups by time. Required.
	Batches BatchReader

	// Retention tells how long a topic's records stay. Nil: for ever.
	Retention func(*Topic) Retention
	// Logger gets what an operator should know. Nil: [slog.Default].
	Logger *slog.Logger
	// Events is told what happens, for metrics. Nil: nobody is.
	Events *Events
	// Now is the wall clock. Nil: [time.Now]. Intervals are measured with the package time itself.
	Now func() time.Time

	// Memory bounds all that the engine keeps in memory by its own budgets, in bytes: recent batches, cached blocks, uploads,
	// directories. Default 128 MiB, at least 16 MiB.
	Memory int64
	// UploadBytes is how much undelivered log starts an upload. Default: Memory/8, from 1 MiB to 64 MiB.
	UploadBytes int64
	// UploadAge is how old the oldest batch gets before an upload starts. Default 30 s. Negative: age starts none.
	UploadAge time.Duration
	// SegmentBytes is how much of one upload a partition must have to get an object of its own. Default: UploadBytes/4.
	SegmentBytes int64
	// HoldFull is how long an append waits for room before it is refused with [ErrFull]. Default 5 s.
	HoldFull time.Duration
	// ProducerExpiry is how long an idle producer's sequence numbers are known. Default 24 h.
	ProducerExpiry time.Duration
	// RetentionInterval is the time between two looks at retention and at objects to delete. Default 1 min.
	RetentionInterval time.Duration
	// DeleteGrace is how long an object stays after nothing refers to it any more. Default 5 min.
	DeleteGrace time.Duration
	// StoreTimeout is the deadline of one attempt at the object store that moves up to 1 MiB; larger ones get as much again for
	// every 8 MiB. Default 30 s.
	StoreTimeout time.Duration
}

// Retention is how long records stay. Whole runs go, oldest first.
type Retention struct {
	Time  time.Duration // by the largest timestamp of a run; negative: for ever
	Bytes int64         // per partition; negative: any number
}

// BatchReader reads inside record batches, compressed ones too.
type BatchReader interface {
	// FindTime returns the first record of the batch with a timestamp of at least ts, or false when it has none.
	FindTime(batch []byte, ts int64) (offset, timestamp int64, found bool, err error)
}

// withDefaults returns a copy with every default filled in, or says which option is wrong.
func (o Options) withDefaults() (Options, error) {
	if o.OpenWAL == nil || o.Store == nil || o.Index == nil || o.Batches == nil {
		return o, fmt.Errorf("%w: an engine needs OpenWAL, Store, Index and Batches", ErrInvalid)
	}
	if o.Retention == nil {
		o.Retention = func(*Topic) Retention { return Retention{Time: -1, Bytes: -1} }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Events == nil {
		o.Events = new(Events)
	}
	o.Events = o.Events.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	setDefault(&o.Memory, 128<<20)
	if o.Memory < 16<<20 {
		return o, fmt.Errorf("%w: Memory is %d bytes and must be at least 16 MiB", ErrInvalid, o.Memory)
	}
	setDefault(&o.UploadBytes, min(max(o.Memory/8, 1<<20), 64<<20))
	setDefault(&o.UploadAge, 30*time.Second)
	setDefault(&o.SegmentBytes, o.UploadBytes/4)
	setDefault(&o.HoldFull, 5*time.Second)
	setDefault(&o.ProducerExpiry, 24*time.Hour)
	setDefault(&o.RetentionInterval, time.Minute)
	setDefault(&o.DeleteGrace, 5*time.Minute)
	setDefault(&o.StoreTimeout, 30*time.Second)
	if o.UploadBytes < 0 || o.SegmentBytes < 0 {
		return o, fmt.Errorf("%w: UploadBytes and SegmentBytes must not be negative", ErrInvalid)
	}
	return o, nil
}

func setDefault[T int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

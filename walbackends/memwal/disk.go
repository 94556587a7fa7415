// Package memwal is the write-ahead log in memory: the reference that states the contract of [engine.WAL] in the
// fewest words, for tests and for brokers that may forget.
//
// A [Disk] stands for the device. It outlives the handles that are opened on it, so that a test can close, crash and
// reopen a log within one process.
package memwal

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/headpond/headpond/engine"
)

// Defaults of [Options].
const (
	DefaultCapacity  = 256 << 20
	DefaultMaxRecord = 16 << 20
)

// recordOverhead is added to each record's length in positions and in the fill, so that empty records have positions
// of their own and a flood of them meets the capacity.
const recordOverhead = 16

// reserveShare is the part of the capacity, as its divisor, that only internal records may use.
const reserveShare = 16

// Options of a [Disk]. The zero value works.
type Options struct {
	Capacity  int64 // bytes of records that are not trimmed; 0 is DefaultCapacity
	MaxRecord int   // largest record in bytes; 0 is the smaller of DefaultMaxRecord and a quarter of the capacity
	ID        engine.ID
}

func (o Options) withDefaults() Options {
	if o.Capacity <= 0 {
		o.Capacity = DefaultCapacity
	}
	if o.MaxRecord <= 0 {
		o.MaxRecord = int(min(DefaultMaxRecord, o.Capacity/4))
	}
	if o.ID == (engine.ID{}) {
		rand.Read(o.ID[:]) // never fails
	}
	return o
}

// Disk holds the records of one log. Its methods may be called concurrently.
type Disk struct {
	opts Options

	mu      sync.Mutex
	made    bool
	epoch   uint64
	trim    engine.Position
	done    engine.Position
	records []record // done, above trim, in order; an element never changes
	owner   *wal     // the handle that may write
	failure error    // of the next write
	stalled bool     // writes do not end
}

type record struct {
	end  engine.Position
	data []byte
}

// New makes an empty disk.
func New(o Options) *Disk { return &Disk{opts: o.withDefaults()} }

// Open is an [engine.WALOpener]. The one owner at a time holds the disk until its handle is closed or the disk crashes.
func (d *Disk) Open(ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.ReadOnly && !d.made {
		return nil, fmt.Errorf("open mem:: %w", engine.ErrNotFound)
	}
	if !o.ReadOnly && d.owner != nil {
		return nil, fmt.Errorf("open mem:: %w: held by epoch %d of this process", engine.ErrFenced, d.epoch)
	}
	w := &wal{disk: d, opts: o, admitted: d.done, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	if !o.ReadOnly {
		d.epoch = max(d.epoch, o.MinEpoch) + 1
		d.owner = w
		d.failure, d.stalled = nil, false
	}
	w.info = engine.WALInfo{
		ID: d.opts.ID, URL: "mem:", Epoch: d.epoch, Trim: d.trim, End: d.done, Fresh: !d.made,
		Capabilities: engine.Capabilities{
			Domain: engine.DomainProcess, Fencing: engine.FencingAdvisory, MaxRecord: d.opts.MaxRecord,
		},
	}
	d.made = true
	if o.ReadOnly {
		close(w.ended)
	} else {
		go w.run()
	}
	return w, nil
}

// Crash forgets what is not done and frees the disk for the next Open. The handle that owned it is poisoned, and its
// admitted appends complete so.
func (d *Disk) Crash() {
	d.mu.Lock()
	w := d.owner
	d.owner = nil
	if w != nil {
		w.poisonLocked(fmt.Errorf("%w: the disk crashed", engine.ErrPoisoned))
	}
	d.mu.Unlock()
}

// FailNext makes the next write fail with err, which poisons the handle. The records of that write are lost.
func (d *Disk) FailNext(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = err
}

// Stall makes writes wait until the returned function is called. Close and Crash fail what waits.
func (d *Disk) Stall() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalled = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stalled = false
		if d.owner != nil {
			d.owner.signal()
		}
	}
}

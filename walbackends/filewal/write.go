package filewal

import (
	"errors"
	"fmt"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
)

// writer gathers records into frames and settles their writes. Its fields belong to the gathering goroutine.
type writer struct {
	*wal
	builders [2]frame.Builder // one fills while the other is written
	fill     int              // the one that fills
	room     int              // most bytes, padding included, of the frame that fills

	last  frame.Header // the last sealed frame
	dirty bool         // it holds records and no later frame's mark covers them

	flight   *flight // being written
	requests chan *flight
	results  chan *flight
	deadline *time.Timer // of the write in flight
	idle     *time.Timer
	idleSet  bool
	idleDue  bool

	completions chan completion
	spare       chan []pending // emptied slices of completions
}

// flight is one frame on its way to the disk.
type flight struct {
	seg     *segment
	offset  int64
	bytes   []byte
	header  frame.Header
	records []pending
	elapsed time.Duration
	err     error
}

// completion is what became of records, in order.
type completion struct {
	records []pending
	err     error
}

func newWriter(w *wal, last frame.Header) *writer {
	o := &writer{
		wal: w, last: last,
		requests: make(chan *flight, 1), results: make(chan *flight, 1),
		deadline: stoppedTimer(), idle: stoppedTimer(),
		completions: make(chan completion, 4), spare: make(chan []pending, 4),
	}
	go o.run()
	return o
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// run gathers and issues until the log is closed or poisoned, and then ends what is left.
func (o *writer) run() {
	defer close(o.ended)
	go o.write()
	completed := make(chan struct{})
	go func() {
		defer close(completed)
		o.complete()
	}()
	for !o.over() {
		select {
		case <-o.wake:
		case f := <-o.results:
			o.settle(f)
		case <-o.deadline.C:
			o.expire()
		case <-o.idle.C:
			o.idleSet, o.idleDue = false, true
		}
	}
	o.deadline.Stop()
	o.idle.Stop()
	close(o.requests)
	o.abandon()
	close(o.completions)
	<-completed
}

// over gathers and issues what can be, and reports whether there is nothing left to wait for.
func (o *writer) over() bool {
	for {
		o.gather()
		if o.flight != nil || !o.issue() {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	settled := o.flight == nil && o.gone == len(o.queue) && !o.dirty && o.trimWanted == o.trim
	return o.poisoned != nil || o.closed && settled
}

// gather copies queued records into the frame that fills. Its copy may take a while, so it looks out for the result of
// the write in flight.
func (o *writer) gather() {
	b := &o.builders[o.fill]
	for {
		o.mu.Lock()
		waiting := o.queue[o.gone+b.Records():]
		addr, poisoned := o.addr, o.poisoned
		o.mu.Unlock()
		if len(waiting) == 0 || poisoned != nil {
			return
		}
		if o.flight != nil {
			select {
			case f := <-o.results:
				o.settle(f)
			default:
			}
		}
		for i := range waiting[:min(len(waiting), 64)] {
			p := &waiting[i]
			size := frame.Align(frame.HeaderSize+b.Payload()+frame.RecordHeader+p.size, sector)
			if b.Records() == 0 {
				start := o.geo.fit(addr, uint64(size))
				left := int(o.geo.segment) - int(o.geo.offset(start))
				o.room = min(left, max(size, frame.Align(frame.HeaderSize+o.opts.FrameBytes, sector)))
				b.Grow(min(o.room, max(size, o.opts.FrameBytes)), o.opts.FrameBytes, sector)
			}
			if size > o.room {
				return
			}
			b.Add(p.parts, p.size)
		}
	}
}

// issue seals the frame that has filled, or a frame without records where one is due, and hands it to the disk.
// It reports whether it did.
func (o *writer) issue() bool {
	b := &o.builders[o.fill]
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.poisoned != nil {
		return false
	}
	kind := frame.Records
	if b.Records() == 0 {
		if o.gone < len(o.queue) || !o.closingDueLocked() {
			return false
		}
		kind = frame.Closing
	}
	f := o.sealLocked(b, kind)
	if f == nil {
		return false
	}
	o.idleDue = false
	o.flight = f
	o.fill = 1 - o.fill
	o.builders[o.fill].Reset()
	o.deadline.Reset(o.opts.WriteDeadline)
	o.requests <- f // never blocks: one frame is in flight
	return true
}

// closingDueLocked says whether to write a frame without records: it shuts the window in which the last frame is not
// covered by a mark, when nothing follows it for a while, and makes a trim durable when that frees a segment.
// Otherwise a trim travels with the next frame.
func (o *writer) closingDueLocked() bool {
	trim := o.trimWanted > o.trim
	if trim && len(o.live) > 1 && o.live[1].first <= o.trimWanted {
		return true
	}
	if !o.dirty && !trim {
		return false
	}
	if o.closed || o.idleDue {
		return true
	}
	if !o.idleSet {
		o.idleSet = true
		o.idle.Reset(o.opts.IdleAfter)
	}
	return false
}

// sealLocked places the frame and completes its bytes. It takes the records in it off the queue.
func (o *writer) sealLocked(b *frame.Builder, kind frame.Kind) *flight {
	f := &flight{header: frame.Header{
		Kind: kind, WAL: o.info.ID, Epoch: o.info.Epoch, Sequence: o.last.Sequence + 1,
		First: o.last.End(), Mark: o.last.End(), Trim: o.trimWanted, Previous: o.last.Checksum,
	}}
	size := uint64(frame.Align(frame.HeaderSize+b.Payload(), sector))
	start := o.geo.fit(o.addr, size)
	f.header.Lap, f.header.Place = o.geo.lap(start), uint64(o.geo.offset(start))
	f.offset = o.geo.offset(start)
	f.seg = o.live[len(o.live)-1]
	if f.seg.lap != f.header.Lap {
		if f.seg = o.rollLocked(f.header.Lap, f.header.First); f.seg == nil {
			return nil
		}
	}
	f.bytes = b.Seal(&f.header, sector)
	f.seg.add(&f.header, f.offset)
	o.addr = start + size
	o.last = f.header
	f.records = o.takeLocked(b.Records())
	return f
}

// rollLocked begins a segment in a free file. Admission has seen to it that there is one.
func (w *wal) rollLocked(lap uint64, first engine.Position) *segment {
	if len(w.free) == 0 {
		w.poisonLocked(fmt.Errorf("%w: no free segment for lap %d with %d files", engine.ErrFull, lap, len(w.files)))
		return nil
	}
	slot := w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	s := &segment{lap: lap, slot: slot, file: w.files[slot], first: first}
	w.live = append(w.live, s)
	return s
}

// takeLocked removes the first n records from the queue.
func (o *writer) takeLocked(n int) []pending {
	var out []pending
	select {
	case out = <-o.spare:
	default:
	}
	taken := o.queue[o.gone : o.gone+n]
	out = append(out, taken...)
	clear(taken) // lets go of the buffers
	o.gone += n
	switch {
	case o.gone == len(o.queue):
		o.queue, o.gone = o.queue[:0], 0
		o.worst, o.drifted = o.addr, false
	case o.gone > len(o.queue)/2:
		o.queue = o.queue[:copy(o.queue, o.queue[o.gone:])]
		clear(o.queue[len(o.queue):cap(o.queue)])
		o.gone = 0
	}
	return out
}

// write performs the writes, one at a time.
func (o *writer) write() {
	for f := range o.requests {
		start := time.Now()
		n, err := f.seg.file.WriteAt(f.bytes, f.offset)
		if err == nil && n < len(f.bytes) {
			err = fmt.Errorf("short write of %d bytes", n)
		}
		if err == nil {
			err = f.seg.file.SyncData()
		}
		f.elapsed, f.err = time.Since(start), err
		if o.ask.OnWrite != nil {
			o.ask.OnWrite(engine.WALWrite{Bytes: len(f.bytes), Records: len(f.records), Elapsed: f.elapsed, Err: err})
		}
		o.results <- f
	}
}

// settle notes what became of the write in flight.
func (o *writer) settle(f *flight) {
	o.deadline.Stop()
	o.flight = nil
	o.mu.Lock()
	err := f.err
	switch {
	case err != nil:
		err = fmt.Errorf("write %d bytes to %s at %d: %w", len(f.bytes), f.seg.file.Name(), f.offset, err)
	case f.elapsed > o.opts.WriteDeadline:
		err = o.outlasted(f)
	}
	if err != nil {
		o.poisonLocked(err)
		o.flight = f // abandoned with the rest
		o.mu.Unlock()
		return
	}
	o.done = f.header.End()
	o.trim = max(o.trim, f.header.Trim)
	o.dirty = f.header.Kind == frame.Records
	o.recycleLocked()
	o.mu.Unlock()
	if o.idleSet {
		o.idle.Stop()
		o.idleSet = false
	}
	o.completions <- completion{f.records, nil}
}

func (o *writer) outlasted(f *flight) error {
	return fmt.Errorf("a write of %d bytes to %s at %d outlasted %v", len(f.bytes), f.seg.file.Name(), f.offset, o.opts.WriteDeadline)
}

// expire poisons the log when the write in flight has outlasted its deadline. The write itself cannot be called back.
func (o *writer) expire() {
	select {
	case f := <-o.results: // it has just returned
		o.settle(f)
		return
	default:
	}
	f := o.flight
	o.mu.Lock()
	o.poisonLocked(o.outlasted(f))
	o.stuck = true
	o.mu.Unlock()
	go func() {
		<-o.results
		o.mu.Lock()
		defer o.mu.Unlock()
		o.stuck = false
		o.releaseLocked()
	}()
}

func (w *wal) poisonLocked(cause error) {
	if w.poisoned == nil {
		if !errors.Is(cause, engine.ErrPoisoned) {
			cause = fmt.Errorf("%w: %w", engine.ErrPoisoned, cause)
		}
		w.poisoned = cause
	}
	w.signal()
}

// abandon fails what was admitted and has not ended.
func (o *writer) abandon() {
	o.mu.Lock()
	left := o.takeLocked(len(o.queue) - o.gone)
	err := o.poisoned
	o.mu.Unlock()
	if o.flight != nil {
		o.completions <- completion{o.flight.records, err}
	}
	if len(left) > 0 {
		o.completions <- completion{left, err}
	}
}

// complete fires completions, in order.
func (o *writer) complete() {
	for c := range o.completions {
		for i := range c.records {
			c.records[i].done(c.err)
		}
		clear(c.records)
		select {
		case o.spare <- c.records[:0]:
		default:
		}
	}
}

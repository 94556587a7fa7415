package memwal

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/headpond/headpond/engine"
)

// wal is one opening of a [Disk]. disk.mu guards all that changes.
type wal struct {
	disk *Disk
	opts engine.WALOptions
	info engine.WALInfo

	admitted engine.Position
	queue    []pending
	poisoned error
	closed   bool

	wake  chan struct{} // something for run to look at
	ended chan struct{} // run has returned: every completion has fired
}

type pending struct {
	record
	done func(error)
}

func (w *wal) Info() engine.WALInfo { return w.info }

func (w *wal) Append(r engine.Record, done func(error)) (engine.Position, error) {
	size := r.Size()
	w.disk.mu.Lock()
	defer w.disk.mu.Unlock()
	if err := w.refuseLocked(); err != nil {
		return 0, fmt.Errorf("append to mem:: %w", err)
	}
	if size > w.disk.opts.MaxRecord {
		return 0, fmt.Errorf("append to mem:: %w: %d bytes, at most %d", engine.ErrTooLarge, size, w.disk.opts.MaxRecord)
	}
	end := w.admitted + engine.Position(size+recordOverhead)
	limit := w.disk.opts.Capacity
	if !r.Internal {
		limit -= limit / reserveShare
	}
	if used := int64(end - w.disk.trim); used > limit {
		return 0, fmt.Errorf("append to mem:: %w: %d of %d bytes", engine.ErrFull, used, limit)
	}
	w.admitted = end
	w.queue = append(w.queue, pending{record{end, slices.Concat(r.Parts...)}, done})
	w.signal()
	return end, nil
}

// refuseLocked says why nothing may be written, or nil.
func (w *wal) refuseLocked() error {
	switch {
	case w.closed:
		return engine.ErrClosed
	case w.opts.ReadOnly:
		return fmt.Errorf("%w: opened read-only", engine.ErrInvalid)
	}
	return w.poisoned
}

func (w *wal) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *wal) poisonLocked(err error) {
	if w.poisoned == nil {
		w.poisoned = err
	}
	w.signal()
}

// run writes what is queued and fires completions, until the handle is closed or poisoned and nothing is queued.
func (w *wal) run() {
	defer close(w.ended)
	for range w.wake {
		for w.write() {
		}
		w.disk.mu.Lock()
		over := (w.closed || w.poisoned != nil) && len(w.queue) == 0
		w.disk.mu.Unlock()
		if over {
			return
		}
	}
}

// write ends what is queued, or reports false when there is nothing to end now.
func (w *wal) write() bool {
	d := w.disk
	start := time.Now()
	d.mu.Lock()
	batch := w.queue
	if len(batch) == 0 || d.stalled && !w.closed && w.poisoned == nil {
		d.mu.Unlock()
		return false
	}
	w.queue = nil
	if d.stalled && w.poisoned == nil {
		w.poisoned = fmt.Errorf("%w: closed while the disk stalls", engine.ErrPoisoned)
	}
	if d.failure != nil && w.poisoned == nil {
		w.poisoned = fmt.Errorf("%w: %w", engine.ErrPoisoned, d.failure)
		d.failure = nil
	}
	err := w.poisoned
	bytes := 0
	if err == nil {
		for _, p := range batch {
			d.records = append(d.records, p.record)
			bytes += len(p.data) + recordOverhead
		}
		d.done = batch[len(batch)-1].end
	}
	d.mu.Unlock()
	if w.opts.OnWrite != nil {
		w.opts.OnWrite(engine.WALWrite{Bytes: bytes, Records: len(batch), Elapsed: time.Since(start), Err: err})
	}
	for _, p := range batch {
		p.done(err)
	}
	return true
}

func (w *wal) Read(ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error {
	d := w.disk
	d.mu.Lock()
	records, trim, end, closed := d.records, d.trim, w.endLocked(), w.closed
	d.mu.Unlock()
	switch {
	case closed:
		return fmt.Errorf("read mem:: %w", engine.ErrClosed)
	case to > end || from > to:
		return fmt.Errorf("read mem:: %w: (%d, %d] is not within the log's end %d", engine.ErrInvalid, from, to, end)
	case from < trim:
		return fmt.Errorf("read mem:: %w: %d is below the trim position %d", engine.ErrNotFound, from, trim)
	}
	return each(ctx, records, from, to, func(p engine.Position, b []byte) (bool, error) { return fn(p, b), nil })
}

// endLocked is the last position that this handle may read.
func (w *wal) endLocked() engine.Position {
	if w.opts.ReadOnly {
		return w.info.End
	}
	return w.disk.done
}

func (w *wal) Replay(ctx context.Context, fn func(engine.Position, []byte) error) error {
	d := w.disk
	d.mu.Lock()
	records, trim, closed := d.records, d.trim, w.closed
	d.mu.Unlock()
	if closed {
		return fmt.Errorf("replay mem:: %w", engine.ErrClosed)
	}
	return each(ctx, records, trim, w.info.End, func(p engine.Position, b []byte) (bool, error) {
		err := fn(p, b)
		return err == nil, err
	})
}

// each calls fn for the records in (from, to] with a buffer that the next call overwrites, as other logs' do.
func each(ctx context.Context, records []record, from, to engine.Position,
	fn func(engine.Position, []byte) (bool, error),
) error {
	first := sort.Search(len(records), func(i int) bool { return records[i].end > from })
	var buf []byte
	defer func() { clear(buf[:cap(buf)]) }()
	for _, r := range records[first:] {
		if r.end > to {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = append(buf[:0], r.data...)
		if more, err := fn(r.end, buf); !more {
			return err
		}
	}
	return nil
}

func (w *wal) Trim(ctx context.Context, to engine.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := w.refuseLocked(); err != nil {
		return fmt.Errorf("trim mem:: %w", err)
	}
	if to > d.done {
		return fmt.Errorf("trim mem:: %w: %d is beyond the last done position %d", engine.ErrInvalid, to, d.done)
	}
	n := sort.Search(len(d.records), func(i int) bool { return d.records[i].end > to })
	if n > 0 {
		d.trim = d.records[n-1].end
		d.records = slices.Clone(d.records[n:]) // lets go of the memory; readers keep what they hold
	}
	return nil
}

func (w *wal) Stats() engine.WALStats {
	d := w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	return engine.WALStats{
		Capacity: d.opts.Capacity, Used: int64(w.admitted - d.trim),
		Trim: d.trim, Done: w.endLocked(), Admitted: w.admitted, Poisoned: w.poisoned,
	}
}

func (w *wal) Close() error {
	d := w.disk
	d.mu.Lock()
	w.closed = true
	w.signal()
	d.mu.Unlock()
	<-w.ended
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner == w {
		d.owner = nil
	}
	return w.poisoned
}

// Package filewal is the write-ahead log in files of a local directory, the default of a broker.
//
// The log is a chain of frames ([internal/frame]) in preallocated segment files, which are reused once they are trimmed.
// One goroutine gathers records into frames, one writes a frame and syncs its file, one fires completions. A frame leaves
// at once when no write is in flight, and fills while one is; so the group grows with the load, and an idle log adds no
// delay. The layout is docs/format/filewal.md.
//
// Its domain is the host, its fencing advisory: a lock on a file of the directory.
package filewal

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/internal/vfs"
)

// wal is one opening of the log.
type wal struct {
	dir  string
	fs   vfs.FS
	opts Options
	ask  engine.WALOptions
	info engine.WALInfo
	geo  geometry
	lock io.Closer // nil when read-only

	wake  chan struct{} // something for the gatherer to look at
	ended chan struct{} // every completion has fired

	mu       sync.Mutex
	head     header
	files    []vfs.File // by slot
	live     []*segment // in order; the last one is written to
	free     []int      // slots, the next one to use last
	limit    int        // segments that the capacity allows
	growing  bool
	grown    chan struct{} // closed when the last growth ended; nil before the first
	growErr  error
	growNext time.Time // no earlier than which growing is tried again

	queue    []pending // admitted and not sealed into a frame; queue[:gone] are
	gone     int
	admitted engine.Position
	worst    uint64 // where the log's address would be if each queued record got a frame of its own, or more
	drifted  bool   // worst may be more
	addr     uint64 // behind the last sealed frame

	done       engine.Position
	trimWanted engine.Position
	trim       engine.Position // durable
	poisoned   error
	closed     bool
	left       bool // Close has waited as long as it will
	stuck      bool // a write outlasted its deadline and has not returned

	closeOnce sync.Once
	closeErr  error
}

// pending is an admitted record.
type pending struct {
	parts [][]byte
	size  int
	end   engine.Position
	done  func(error)
}

func (w *wal) Info() engine.WALInfo { return w.info }

func (w *wal) Append(r engine.Record, done func(error)) (engine.Position, error) {
	size := r.Size()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refuseLocked(); err != nil {
		return 0, fmt.Errorf("append to %s: %w", w.info.URL, err)
	}
	if size > w.info.MaxRecord {
		return 0, fmt.Errorf("append to %s: %w: %d bytes, at most %d", w.info.URL, engine.ErrTooLarge, size, w.info.MaxRecord)
	}
	if err := w.admitLocked(cost(size), r.Internal); err != nil {
		return 0, fmt.Errorf("append to %s: %w", w.info.URL, err)
	}
	w.admitted += engine.Position(frame.RecordHeader + size)
	w.queue = append(w.queue, pending{r.Parts, size, w.admitted, done})
	w.signal()
	return w.admitted, nil
}

// refuseLocked says why nothing may be written, or nil.
func (w *wal) refuseLocked() error {
	switch {
	case w.closed:
		return engine.ErrClosed
	case w.ask.ReadOnly:
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

func (w *wal) Trim(ctx context.Context, to engine.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refuseLocked(); err != nil {
		return fmt.Errorf("trim %s: %w", w.info.URL, err)
	}
	if to > w.done {
		return fmt.Errorf("trim %s: %w: %d is beyond the last done position %d", w.info.URL, engine.ErrInvalid, to, w.done)
	}
	if to > w.trimWanted {
		w.trimWanted = to
		w.signal()
	}
	return nil
}

func (w *wal) Stats() engine.WALStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	segments := w.limit
	if w.growErr != nil { // what the disk has no room for can't be waited for
		segments = min(segments, len(w.files))
	}
	s := engine.WALStats{
		Capacity: int64(segments-1) * int64(w.geo.segment),
		Used:     int64(w.addr-w.tailLocked()) + int64(w.admitted-w.sealedLocked()),
		Trim:     w.trim, Done: w.done, Admitted: w.admitted, Poisoned: w.poisoned,
	}
	return s
}

// sealedLocked is the position up to which records are in frames.
func (w *wal) sealedLocked() engine.Position {
	if w.gone == len(w.queue) {
		return w.admitted
	}
	return w.queue[w.gone].end - engine.Position(frame.RecordHeader+w.queue[w.gone].size)
}

// tailLocked is the address at which the oldest segment begins.
func (w *wal) tailLocked() uint64 { return w.live[0].lap * w.geo.segment }

// Close lets what was admitted end, by the write deadline at the latest. When a write is stuck beyond that, the lock on
// the log is kept until it returns: until then its bytes may still land.
func (w *wal) Close() error {
	w.mu.Lock()
	w.closed = true
	w.signal()
	w.mu.Unlock()
	<-w.ended
	w.closeOnce.Do(func() {
		w.awaitGrowth()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closeErr = w.poisoned
		w.left = true
		w.releaseLocked()
	})
	return w.closeErr
}

// awaitGrowth waits for a segment that is being added, as long as a write may take.
func (w *wal) awaitGrowth() {
	w.mu.Lock()
	grown, growing := w.grown, w.growing
	w.mu.Unlock()
	if !growing {
		return
	}
	t := time.NewTimer(w.opts.WriteDeadline)
	defer t.Stop()
	select {
	case <-grown:
	case <-t.C:
	}
}

// releaseLocked closes the files and frees the lock, once Close has waited and nothing may still be written. Reads in
// progress fail.
func (w *wal) releaseLocked() {
	if !w.left || w.stuck || w.growing {
		return
	}
	for _, f := range w.files {
		f.Close() // nothing is in flight and what matters is synced
	}
	if w.lock != nil {
		w.lock.Close()
		w.lock = nil
	}
}

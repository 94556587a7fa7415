package filewal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/headpond/headpond/engine"
)

func (w *wal) Read(ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error {
	w.mu.Lock()
	done, trim, closed := w.done, w.trimWanted, w.closed
	w.mu.Unlock()
	var err error
	switch {
	case closed:
		err = engine.ErrClosed
	case to > done || from > to:
		err = fmt.Errorf("%w: (%d, %d] is not within the log's end %d", engine.ErrInvalid, from, to, done)
	case from < trim:
		err = fmt.Errorf("%w: %d is below the trim position %d", engine.ErrNotFound, from, trim)
	default:
		err = w.each(ctx, from, to, func(p engine.Position, b []byte) (bool, error) { return fn(p, b), nil })
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", w.info.URL, err)
	}
	return nil
}

func (w *wal) Replay(ctx context.Context, fn func(engine.Position, []byte) error) error {
	w.mu.Lock()
	trim, closed := w.trim, w.closed
	w.mu.Unlock()
	if closed {
		return fmt.Errorf("replay %s: %w", w.info.URL, engine.ErrClosed)
	}
	var failed error
	err := w.each(ctx, min(trim, w.info.End), w.info.End, func(p engine.Position, b []byte) (bool, error) {
		failed = fn(p, b)
		return failed == nil, nil
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return fmt.Errorf("replay %s: %w", w.info.URL, err)
	}
	return nil
}

// readAhead is how much of a file is read at a time.
const readAhead = 256 << 10

var windows = sync.Pool{New: func() any { b := make([]byte, 0, readAhead); return &b }}

// each calls fn for the records in (from, to] until it returns false. It holds no lock meanwhile, only the segment that
// it is in, so that its file is not used anew.
func (w *wal) each(ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) (bool, error)) error {
	if from == to {
		return nil
	}
	window := windows.Get().(*[]byte)
	s := scanner{id: w.head.id, segment: int64(w.geo.segment), buf: (*window)[:0]}
	defer func() {
		if cap(s.buf) <= 4*readAhead { // what a large record took goes
			*window = s.buf[:0]
		}
		windows.Put(window)
	}()
	seg, at, err := w.pin(from)
	if err != nil {
		return err
	}
	defer func() { w.unpin(seg) }()
	off, next := at.offset, at.first // where the next frame and its records begin
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var end int64
		seg, off, end, err = w.advance(seg, off)
		if err != nil {
			return err
		}
		if s.file != seg.file || s.lap != seg.lap {
			s.file, s.lap, s.buf, s.start = seg.file, seg.lap, s.buf[:0], 0
		}
		s.ahead = int(min(readAhead, end-off))
		h, b, err := s.at(off)
		if err != nil || h.First != next {
			return w.unreadable(seg, off, err)
		}
		over := false
		h.Each(b, func(p engine.Position, record []byte) bool {
			if p <= from {
				return true
			}
			var more bool
			more, err = fn(p, record)
			over = !more || p >= to
			return !over
		})
		if err != nil || over {
			return err
		}
		next = h.End()
		off += int64(h.Size(sector))
	}
}

// unreadable explains a frame that was written and cannot be read back.
func (w *wal) unreadable(seg *segment, off int64, err error) error {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	switch {
	case closed:
		return engine.ErrClosed
	case err != nil && !errors.Is(err, errHole):
		return err
	case w.ask.ReadOnly:
		s := scanner{id: w.head.id, file: seg.file, segment: int64(w.geo.segment)}
		if h, _, err := s.at(0); err == nil && h.Lap > seg.lap {
			return fmt.Errorf("%w: trimmed by the owner meanwhile", engine.ErrNotFound)
		}
	}
	return &engine.CorruptError{Where: seg.file.Name(), Offset: off, Reason: "a frame is not as it was written", Err: err}
}

// pin finds the frame that a read from a position begins with and keeps its segment.
func (w *wal) pin(from engine.Position) (*segment, indexEntry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.live, from, func(s *segment, p engine.Position) int {
		if s.first <= p {
			return -1
		}
		return 1
	})
	if i == 0 && w.live[0].first > from {
		return nil, indexEntry{}, fmt.Errorf("%w: position %d is trimmed", engine.ErrNotFound, from)
	}
	seg := w.live[max(0, i-1)]
	seg.pins++
	return seg, seg.seek(from), nil
}

func (w *wal) unpin(seg *segment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seg.pins--
	w.recycleLocked()
}

// advance moves the pin to the segment in which a read continues, and says where that segment's frames end.
func (w *wal) advance(seg *segment, off int64) (*segment, int64, int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for off >= seg.end {
		i := slices.Index(w.live, seg)
		if i < 0 || i+1 == len(w.live) {
			return seg, 0, 0, fmt.Errorf("%w: segment %d ends at byte %d before the position asked for", engine.ErrCorrupt, seg.lap, off)
		}
		seg.pins--
		seg, off = w.live[i+1], 0
		seg.pins++
		w.recycleLocked()
	}
	return seg, off, seg.end, nil
}

// recycleLocked frees the oldest segments that hold nothing beyond the durable trim and that no read is in.
func (w *wal) recycleLocked() {
	if w.ask.ReadOnly {
		return
	}
	n := 0
	for n+1 < len(w.live) && w.live[n].pins == 0 && w.live[n+1].first <= w.trim {
		w.freeLocked(w.live[n].slot)
		n++
	}
	w.live = slices.Delete(w.live, 0, n)
}

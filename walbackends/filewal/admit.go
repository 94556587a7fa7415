package filewal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/vfs"
)

// Admission never lets in what might not fit. It follows the log's address as if every queued record had a frame of its
// own. Frames that hold several records take no more, and a frame is split where a segment ends, so that the true
// address stays at or below the assumed one record by record. Frames without records are only written while nothing is
// queued; the last segment is kept for them.

// admitLocked moves the assumed address behind a record that takes n bytes at most, or refuses with [engine.ErrFull].
func (w *wal) admitLocked(n uint64, internal bool) error {
	segments := len(w.files)
	if !internal { // what frees the room of a log that was made smaller must go through
		segments = min(segments, w.limit)
	}
	usable := uint64(max(0, segments-1)) * w.geo.segment
	limit := w.tailLocked() + usable
	if !internal {
		limit -= reserve(usable)
	}
	end := w.geo.fit(w.worst, n) + n
	if end > limit && w.drifted {
		w.rebaseLocked()
		end = w.geo.fit(w.worst, n) + n
	}
	if len(w.files) < w.limit && end+2*w.geo.segment > limit {
		w.growLocked()
	}
	if end > limit {
		if segments < w.limit {
			if w.growErr != nil {
				return fmt.Errorf("%w: %d of %d bytes, and %w", engine.ErrFull, segments*int(w.geo.segment), w.opts.Capacity, w.growErr)
			}
			return fmt.Errorf("%w: a segment is being added", engine.ErrFull)
		}
		return fmt.Errorf("%w: %d of %d bytes", engine.ErrFull, w.worst-w.tailLocked(), usable)
	}
	w.worst, w.drifted = end, true
	return nil
}

// rebaseLocked brings the assumed address back to what the queued records may take from here.
func (w *wal) rebaseLocked() {
	w.worst, w.drifted = w.addr, false
	for _, p := range w.queue[w.gone:] {
		n := cost(p.size)
		w.worst = w.geo.fit(w.worst, n) + n
	}
}

// growRetry is the pause between attempts to add a segment while the file system is full.
const growRetry = time.Second

// growLocked starts to add a segment file, unless one is being added or has just failed to be.
func (w *wal) growLocked() {
	if w.growing || w.closed || time.Now().Before(w.growNext) {
		return
	}
	w.growing, w.grown = true, make(chan struct{})
	go w.grow(w.head, len(w.files))
}

func (w *wal) grow(head header, slot int) {
	head.slots++
	f, err := addSlot(w.fs, w.dir, head, slot)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.growing, w.growErr = false, err
	if err != nil {
		w.growNext = time.Now().Add(growRetry)
	} else {
		w.head = head
		w.files = append(w.files, f)
		w.freeLocked(slot)
	}
	close(w.grown)
	w.releaseLocked()
}

// freeLocked gives a file back. The lowest is used first: its blocks have been written before, which makes syncs cheaper,
// and the highest goes when the log is made smaller.
func (w *wal) freeLocked(slot int) {
	i, _ := slices.BinarySearchFunc(w.free, slot, func(a, b int) int { return b - a })
	w.free = slices.Insert(w.free, i, slot)
}

// addSlot makes a segment file durable and then the header that counts it.
func addSlot(fsys vfs.FS, dir string, head header, slot int) (vfs.File, error) {
	f, err := makeSlot(fsys, dir, slot, int64(head.segment))
	if err == nil {
		if err = fsys.SyncDir(dir); err == nil {
			err = writeHeader(fsys, dir, head)
		}
	}
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close(), fsys.Remove(slotName(dir, slot)))
		}
		return nil, fmt.Errorf("adding %s: %w", slotName(dir, slot), err)
	}
	return f, nil
}

// makeSlot makes a segment file of zeros with its space reserved, in place of a leftover.
func makeSlot(fsys vfs.FS, dir string, slot int, size int64) (vfs.File, error) {
	name := slotName(dir, slot)
	if err := removeIfThere(fsys, name); err != nil {
		return nil, err
	}
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	err = f.Preallocate(size)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(name))
	}
	return f, nil
}

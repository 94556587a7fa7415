package filewal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/internal/vfs"
)

// recovered is what the files of a log say.
type recovered struct {
	live []*segment // the segments that hold the log, in order
	last frame.Header
	addr uint64 // behind the last frame
	trim engine.Position
	cut  int64
}

// recovery reads a log. It writes nothing.
type recovery struct {
	ctx   context.Context
	dir   string
	geo   geometry
	id    engine.ID
	files []vfs.File // by slot
	// moving says that an owner may be writing meanwhile.
	moving bool
	// visit, when set, sees each frame that belongs to the log.
	visit func(slot int, h *frame.Header)
	// restart, when set, is called before the log is read from its beginning: what visit saw before does not count.
	restart func()

	window []byte
}

// scanner reads a slot, from here on with the one window that the recovery has: it ends the use of an earlier scanner.
func (r *recovery) scanner(slot int, lap uint64) *scanner {
	if r.window == nil {
		r.window = make([]byte, min(1<<20, r.geo.segment))
	}
	return &scanner{
		id: r.id, file: r.files[slot], segment: int64(r.geo.segment), lap: lap,
		ahead: len(r.window), buf: r.window[:0],
	}
}

// head is what is known of a slot from its first frame.
type head struct {
	slot  int
	frame frame.Header
}

// run reads the log. Where an owner may be using files anew meanwhile, what looks like damage is looked at again.
func (r *recovery) run() (*recovered, error) {
	out, err := r.once()
	for range 3 {
		if !r.moving || !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrUnavailable) {
			break
		}
		if again, err := r.once(); err == nil {
			return again, nil
		}
	}
	return out, err
}

// once finds the segments, and walks the log from the one that holds the trim position to its end.
func (r *recovery) once() (*recovered, error) {
	if r.restart != nil {
		r.restart()
	}
	heads, unknown, err := r.heads()
	if err != nil {
		return nil, err
	}
	laps := slices.Sorted(maps.Keys(heads))
	if len(laps) == 0 {
		return nil, r.lost(unknown)
	}
	start, trim, err := r.begin(heads, laps)
	if err != nil {
		return nil, err
	}
	out, err := r.walk(heads, start, trim)
	if err != nil {
		return nil, err
	}
	if err := r.end(out, heads, unknown); err != nil {
		return out, err
	}
	return out, nil
}

// heads reads the first frame of every slot. A slot whose first frame is not intact is unknown: never used, or
// begun and torn, or rotten.
func (r *recovery) heads() (map[uint64]head, []int, error) {
	heads := make(map[uint64]head)
	var unknown []int
	highest := -1
	for slot := range r.files {
		if err := r.ctx.Err(); err != nil {
			return nil, nil, err
		}
		s := r.scanner(slot, 0)
		s.ahead = sector
		h, _, err := s.at(0)
		switch {
		case errors.Is(err, errHole):
			unknown = append(unknown, slot)
			continue
		case err != nil:
			return nil, nil, err
		}
		if other, ok := heads[h.Lap]; ok {
			return nil, nil, r.corrupt(slot, 0, fmt.Sprintf("segment %d is also in %s", h.Lap, slotName(r.dir, other.slot)))
		}
		heads[h.Lap] = head{slot, h}
		highest = max(highest, slot)
	}
	if len(heads) > 0 {
		// The lowest free file is always used first, so the files above the first one beyond those that hold frames never were:
		// to read them all would cost more than the log itself.
		unknown = slices.DeleteFunc(unknown, func(slot int) bool { return slot > highest+1 })
	}
	return heads, unknown, nil
}

// lost explains a log that has a header and no first frame. The header is written after the first frame is durable.
func (r *recovery) lost(unknown []int) error {
	for _, slot := range unknown {
		h, ok, err := r.scanner(slot, 0).find(0, func(*frame.Header) bool { return true })
		if err != nil {
			return err
		}
		if ok {
			return r.corrupt(slot, 0, fmt.Sprintf("no intact frame, but frame %d at byte %d is one", h.Sequence, h.Place))
		}
	}
	return &engine.CorruptError{Where: r.dir, Offset: -1, Reason: "the log has a header and not one intact frame"}
}

// begin finds the segment that holds the trim position. Every frame carries the trim that was known when it was written,
// so the frames of the newest segment, and failing these the first frames of all, say the last one that is durable.
func (r *recovery) begin(heads map[uint64]head, laps []uint64) (uint64, engine.Position, error) {
	var trim engine.Position
	for _, h := range heads {
		trim = max(trim, h.frame.Trim)
	}
	newest := laps[len(laps)-1]
	s := r.scanner(heads[newest].slot, newest)
	for off := int64(0); ; {
		h, _, err := s.at(off)
		if errors.Is(err, errHole) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
		trim = max(trim, h.Trim)
		off += int64(h.Size(sector))
	}
	start := newest
	for start > 0 && heads[start].frame.First > trim {
		if _, ok := heads[start-1]; !ok {
			h := heads[start]
			if start == 1 && h.frame.First == 0 {
				break
			}
			return 0, 0, r.corrupt(h.slot, 0, fmt.Sprintf(
				"segment %d is missing: segment %d begins at position %d, beyond the trim position %d",
				start-1, start, h.frame.First, trim))
		}
		start--
	}
	return start, trim, nil
}

// walk follows the chain of frames from the beginning of a segment to the first place that holds no next frame.
func (r *recovery) walk(heads map[uint64]head, lap uint64, trim engine.Position) (*recovered, error) {
	out := &recovered{trim: trim}
	var s *scanner
	enter := func(lap uint64) *segment {
		h := heads[lap]
		s = r.scanner(h.slot, lap)
		return &segment{lap: lap, slot: h.slot, file: r.files[h.slot], first: h.frame.First}
	}
	seg := enter(lap)
	for {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		h, _, err := s.at(seg.end)
		if err == nil && !follows(out, &h) {
			err = errHole
		}
		if errors.Is(err, errHole) && len(seg.index) > 0 {
			next, ok := heads[seg.lap+1]
			if !ok || !follows(out, &next.frame) {
				return out, nil
			}
			seg = enter(seg.lap + 1)
			continue
		}
		if errors.Is(err, errHole) {
			err = fmt.Errorf("%w: %s changed while it was read", engine.ErrUnavailable, slotName(r.dir, seg.slot))
		}
		if err != nil {
			return nil, err
		}
		if len(seg.index) == 0 {
			out.live = append(out.live, seg)
		}
		out.addr = seg.lap*r.geo.segment + uint64(seg.end)
		seg.add(&h, seg.end)
		out.addr += uint64(h.Size(sector))
		out.last = h
		out.trim = max(out.trim, h.Trim)
		if r.visit != nil {
			r.visit(seg.slot, &h)
		}
	}
}

// follows says whether a frame is the next one of the log. The first frame of a walk has nothing to follow.
func follows(out *recovered, h *frame.Header) bool {
	last := &out.last
	return len(out.live) == 0 ||
		h.Sequence == last.Sequence+1 && h.Previous == last.Checksum && h.First == last.End() && h.Epoch >= last.Epoch
}

// end decides what the hole behind the last frame is. One write is in flight at a time, so any intact frame beyond
// the hole was issued after the frame in the hole was done.
func (r *recovery) end(out *recovered, heads map[uint64]head, unknown []int) error {
	seg := out.live[len(out.live)-1]
	later := func(h *frame.Header) bool {
		return h.Sequence > out.last.Sequence && h.Epoch >= out.last.Epoch && h.Lap >= seg.lap
	}
	rot := func(h *frame.Header, slot int) error {
		if r.moving {
			// The owner may have written between the two reads: then the hole is none any more.
			if now, _, err := r.scanner(seg.slot, seg.lap).at(seg.end); err == nil && follows(out, &now) {
				return nil
			}
			if h.Lap > seg.lap && follows(out, h) {
				return nil
			}
		}
		return r.corrupt(seg.slot, seg.end, fmt.Sprintf(
			"frame %d is not intact, and frame %d in %s at byte %d was written after it was done",
			out.last.Sequence+1, h.Sequence, slotName(r.dir, slot), h.Place))
	}
	s := r.scanner(seg.slot, seg.lap)
	claim, _, err := s.at(seg.end)
	if err != nil && !errors.Is(err, errHole) {
		return err
	}
	if err != nil && claim.Sequence == out.last.Sequence+1 {
		out.cut = int64(claim.Size(sector))
	}
	if h, ok, err := s.find(seg.end, later); err != nil {
		return err
	} else if ok {
		return rot(&h, seg.slot)
	}
	for _, h := range heads {
		if h.frame.Lap > seg.lap && later(&h.frame) {
			return rot(&h.frame, h.slot)
		}
	}
	for _, slot := range unknown {
		s := r.scanner(slot, 0)
		claim, _, err := s.at(0)
		if err != nil && !errors.Is(err, errHole) {
			return err
		}
		if err != nil && claim.Lap == seg.lap+1 && claim.Sequence == out.last.Sequence+1 {
			out.cut = int64(claim.Size(sector))
		}
		h, ok, err := s.find(0, later)
		switch {
		case err != nil:
			return err
		case ok && h.Lap == seg.lap+1:
			return r.corrupt(slot, 0, fmt.Sprintf("frame %d is not intact, and frame %d at byte %d was written after it was done",
				out.last.Sequence+1, h.Sequence, h.Place))
		case ok:
			return rot(&h, slot)
		}
	}
	return nil
}

func (r *recovery) corrupt(slot int, off int64, reason string) error {
	return &engine.CorruptError{Where: slotName(r.dir, slot), Offset: off, Reason: reason}
}

package engine

import (
	"errors"
	"fmt"
	"sort"

	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/recordbatch"
)

// reader adds one partition's batches to a response, from where they lie in memory.
//
//	offset:   log start ──────── committed ──────────────────── high watermark
//	          objects, by the index      │ the log's chunks, in memory or not
//	                                     │ (recent uploaded ones are in memory too)
type reader struct {
	f       *fetch
	p       *Partition
	offset  int64 // of the next batch
	room    int   // of the partition's MaxBytes
	offsets Offsets
	err     error
	missing blockRef // the block that holds offset, if it is not in memory
	cursor  *cursor  // in the partition's runs; nil until one is needed
}

// place is where an offset was found to be.
type place int

const (
	nowhere  place = iota // nothing to read, or no room for it
	inTail                // its batches were added; there may be more elsewhere
	inObject              // below the partition's committed offset
	inLog                 // in a chunk of the log that is not in memory
)

// more adds the batches of the next place. It reports false at the end of what can be added now.
func (r *reader) more() bool {
	where, log := r.tail()
	switch where {
	case inTail:
		return true
	case inObject:
		return r.object()
	case inLog:
		return r.block(log.s.ref(log.chunk))
	}
	return false
}

// tail adds batches of the tail, or says where the offset is.
func (r *reader) tail() (place, blockRef) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	r.offsets = p.offsetsLocked()
	switch {
	case p.err != nil:
		r.err = p.err
		return nowhere, blockRef{}
	case r.offset < p.logStart || r.offset > p.high:
		r.err = fmt.Errorf("offset %d: %w: it is not within [%d, %d]", r.offset, ErrOutOfRange, p.logStart, p.high)
		return nowhere, blockRef{}
	case r.offset == p.high || !r.fits(1):
		return nowhere, blockRef{}
	}
	i := p.findRunLocked(r.offset)
	if i < len(p.tail) && p.tail[i].base <= r.offset {
		added, full := r.runs(p.tail[i:], p.high)
		switch {
		case full:
			return nowhere, blockRef{}
		case added:
			return inTail, blockRef{}
		case r.offset >= p.committed:
			return inLog, blockRef{s: p.s, chunk: p.tail[i].chunk}
		}
	}
	if r.offset < p.committed {
		return inObject, blockRef{}
	}
	r.err = &CorruptError{Where: "log", Offset: -1, Reason: fmt.Sprintf(
		"offset %d of partition %d of topic id %x is below the high watermark %d, and neither in the log's directory nor in objects", r.offset, p.id.Partition, p.id.Topic, p.high)}
	return nowhere, blockRef{}
}

// runs adds the batches from r.offset on that are done and in memory, as far as they follow each other. full says that there was no
// room for the next one. The partition's mu is held.
func (r *reader) runs(runs []*chunkRun, high int64) (added, full bool) {
	for _, run := range runs {
		batches := run.batches
		if len(batches) == 0 {
			return added, false
		}
		i := 0
		if batches[0].last < r.offset {
			i = sort.Search(len(batches), func(i int) bool { return batches[i].last >= r.offset })
		}
		for ; i < len(batches); i++ {
			b := &batches[i]
			switch {
			case b.last >= high: // not done yet; what is beyond it isn't either
				return added, true
			case b.base > r.offset: // what is between isn't in memory
				return added, false
			case !r.fits(len(b.data)) || !r.add(b.data, b.buf):
				return added, true
			}
			r.offset = b.last + 1
			added = true
		}
	}
	return added, true
}

// add adds batches to the response. Without memory for them it reports false.
func (r *reader) add(data []byte, buf *buffer.Buffer) bool {
	short, ok := r.f.resp.add(data, buf)
	if !ok {
		if r.f.resp.Bytes == 0 {
			r.f.short = max(r.f.short, short)
		}
		return false
	}
	r.room -= len(data)
	return true
}

// object adds the batches of the block of an object that holds the offset.
func (r *reader) object() bool {
	if r.cursor == nil {
		r.cursor = r.f.e.cache.takeCursor(r.p, r.offset)
	}
	ref, err := r.cursor.locate(r.f.e.index(), r.offset)
	if err != nil {
		return r.lost(err, true)
	}
	return r.block(ref)
}

// lost handles an offset that is not where it should be: in an object, if it is indexed, else in the log. Retention or a deletion may
// have overtaken the look-up; else it is a hole.
func (r *reader) lost(err error, indexed bool) bool {
	r.p.mu.Lock()
	gone := r.p.err != nil || r.p.logStart > r.offset
	r.p.mu.Unlock()
	if gone {
		return true // to be told so by the tail
	}
	if !errors.Is(err, ErrCorrupt) {
		r.err = unavailable(err)
		return false
	}
	// A commit reaches the index before it reaches the partition.
	switch state, indexErr := r.f.e.index().Partition(r.p.id); {
	case indexErr != nil:
		r.err = unavailable(indexErr)
	case state.LogStart > r.offset:
		r.err = fmt.Errorf("offset %d: %w: it is not within [%d, %d]", r.offset, ErrOutOfRange, state.LogStart, r.offsets.HighWatermark)
	case indexed && state.End <= r.offset:
		r.err = fmt.Errorf("offset %d: %w: the partition is being deleted", r.offset, ErrUnavailable)
	default:
		r.f.e.o.Events.Damaged(err)
		r.err = err
	}
	return false
}

// block adds the batches of a block from the offset on, if the block is in memory.
func (r *reader) block(ref blockRef) bool {
	key := ref.key()
	b, err := r.f.find(key)
	switch {
	case err == nil && b == nil:
		r.missing = ref
		return false
	case errors.Is(err, ErrNotFound) && r.f.forgive(key):
		// The upload of what was in the log, or the removal of an object, has overtaken the look-up: look again, once.
		if r.cursor != nil {
			r.cursor.forget()
		}
		return true
	case err != nil && r.superseded(ref):
		return true // the log was opened again, and the partition has a new directory of it
	case err != nil:
		r.f.e.cache.forget(key)
		if errors.Is(err, ErrCorrupt) { // the load has told it
			r.err = err
			return false
		}
		return r.lost(ref.failure(err), ref.run != nil)
	}
	defer b.release()
	before := r.offset
	var full bool
	if b.pieces != nil {
		full = r.logBatches(b)
	} else {
		full = r.objectBatches(b)
	}
	if r.offset == before && !full && r.err == nil {
		return r.lost(&CorruptError{Where: ref.String(), Offset: -1, Reason: fmt.Sprintf(
			"offset %d of partition %d of topic id %x is not in it", r.offset, r.p.id.Partition, r.p.id.Topic)}, ref.run != nil)
	}
	if !full {
		r.f.e.cache.finished(key)
	}
	return !full && r.err == nil
}

// superseded tells whether the block is of an earlier opening of the log.
func (r *reader) superseded(ref blockRef) bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return ref.chunk != nil && (r.p.s != ref.s || r.p.err != nil)
}

// objectBatches adds the batches of an object's block from the offset on. They lie one after another, so that they are one piece.
func (r *reader) objectBatches(b *block) (full bool) {
	data := b.buf.Bytes()
	from, to := 0, 0
	next := r.offset
	for to < len(data) {
		v := recordbatch.Batch(data[to:])
		if len(v) < recordbatch.HeaderSize || v.Size() > len(v) || v.Size() < recordbatch.HeaderSize {
			return false // the checksum was right, so it was written so; the caller reports what is missing
		}
		size := v.Size()
		if v.LastOffset() < r.offset {
			from, to = to+size, to+size
			continue
		}
		if !r.fitsWith(to-from, size) {
			full = true
			break
		}
		to += size
		next = v.NextOffset()
	}
	if to > from {
		if !r.add(data[from:to:to], b.buf) {
			return true
		}
		r.offset = next
	}
	return full
}

// logBatches adds the batches of a chunk's run from the offset on, up to the high watermark.
func (r *reader) logBatches(b *block) (full bool) {
	pieces := b.pieces[r.p.id]
	i := sort.Search(len(pieces), func(i int) bool { return pieces[i].last >= r.offset })
	data := b.buf.Bytes()
	for ; i < len(pieces); i++ {
		p := &pieces[i]
		switch {
		case p.last >= r.offsets.HighWatermark:
			return true
		case p.base > r.offset:
			return false // a hole, which the caller reports if it begins here
		}
		size := int(p.size)
		if !r.fits(size) || !r.add(data[p.at:int(p.at)+size:int(p.at)+size], b.buf) {
			return true
		}
		r.offset = p.last + 1
	}
	return false
}

// fits tells whether n bytes more are within the limits. The first batch of a response always is.
func (r *reader) fits(n int) bool { return r.fitsWith(0, n) }

// fitsWith is fits when some bytes are to be added before.
func (r *reader) fitsWith(some, n int) bool {
	resp := r.f.resp
	return resp.Bytes+some == 0 || some+n <= r.room && some+n <= r.f.req.MaxBytes-resp.Bytes
}

// leave gives the cursor back for the fetch that goes on here, and reads ahead for it.
func (r *reader) leave() {
	if r.cursor != nil {
		r.f.e.cache.putCursor(r.cursor, r.offset)
		r.cursor = nil
	}
}

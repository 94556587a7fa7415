package engine

import (
	"errors"
	"fmt"
)

// blockRef says where a block is: in an object, as the index says, or in the log.
type blockRef struct {
	run *Run // of an object
	i   int  // of run's blocks

	s     *session // of the log
	chunk *chunk
	to    Position // end of what is done in the chunk
}

// blockKey names a block in the cache. Objects are never changed; a chunk lives no longer than its session, and what is in it
// up to a position doesn't change.
type blockKey struct {
	object string
	pos    int64
	chunk  *chunk
	to     Position
}

func (r blockRef) isSet() bool { return r.run != nil || r.chunk != nil }

func (r blockRef) block() *Block { return &r.run.Blocks[r.i] }

func (r blockRef) key() blockKey {
	if r.chunk != nil {
		return blockKey{chunk: r.chunk, to: r.to}
	}
	return blockKey{object: r.run.Object, pos: r.block().Pos}
}

// String names the place for messages.
func (r blockRef) String() string {
	if r.chunk != nil {
		return r.s.info.URL
	}
	return r.run.Object
}

// failure is what a reader of the block is told when it can't be loaded.
func (r blockRef) failure(err error) error {
	switch {
	case errors.Is(err, ErrCorrupt):
		return err
	case r.chunk != nil && errors.Is(err, ErrNotFound):
		return &CorruptError{Where: r.String(), Offset: -1, Err: err, Reason: fmt.Sprintf(
			"no commit covers the records from position %d on, and the log does not have them any more", r.chunk.from)}
	case r.chunk == nil && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid)):
		return &CorruptError{Where: r.String(), Offset: r.block().Pos, Err: err,
			Reason: "the index says that the block is here, and the store does not have it"}
	case errors.Is(err, ErrClosed):
		return fmt.Errorf("%w: read %s: %v", ErrUnavailable, r, err) // the log is about to be opened again, or the engine ends
	}
	return unavailable(err)
}

// ref returns a reference to what is readable of a chunk of the log now: batches that are done.
func (s *session) ref(c *chunk) blockRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	return blockRef{s: s, chunk: c, to: min(c.to, s.done)}
}

// find returns a block, with a hold, from what this fetch has loaded or from the cache; or why it couldn't be loaded; or nil.
func (f *fetch) find(key blockKey) (*block, error) {
	if b, err := f.loaded(key); b != nil || err != nil {
		return b, err
	}
	b := f.e.cache.get(key)
	if !f.again {
		f.e.o.Events.CacheRead(b != nil)
	}
	if b == nil {
		return nil, f.e.cache.failure(key)
	}
	return b, nil
}

func (f *fetch) loaded(key blockKey) (*block, error) {
	if len(f.loads) == 0 {
		return nil, nil
	}
	c := f.e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range f.loads {
		if got, ok := l.blocks[key]; ok {
			if got.block != nil {
				got.block.retain()
			}
			return got.block, got.err
		}
	}
	return nil, nil
}

// forgive lets a block be absent once: it reports true the first time, and forgets the load that found it so.
func (f *fetch) forgive(key blockKey) bool {
	if f.absent[key] {
		return false
	}
	if f.absent == nil {
		f.absent = make(map[blockKey]bool)
	}
	f.absent[key] = true
	for i, l := range f.loads {
		if l.has(key) {
			l.release(f.woken)
			f.loads = append(f.loads[:i], f.loads[i+1:]...)
			break
		}
	}
	return true
}

// mustWait tells whether the cache can't hold a block that is missing, so that it can't be loaded behind the answer's back.
func (f *fetch) mustWait() bool {
	for _, c := range f.cold {
		if charge([]blockRef{c.block})+cacheEntryCost > f.e.cache.limits.cache*3/4 {
			return true
		}
	}
	return false
}

// plan lists what to load for the cold partitions, in the request's order, up to what one fetch may have in flight.
func (f *fetch) plan() []blockRef {
	var refs []blockRef
	left := min(int64(f.req.MaxBytes), f.e.cache.limits.reads/2)
	for i := range f.cold {
		c := &f.cold[i]
		if i > 0 && left <= 0 {
			break
		}
		if c.cursor == nil {
			refs = append(refs, c.block)
			left -= charge([]blockRef{c.block})
			continue
		}
		want := min(int64(f.req.Partitions[c.i].MaxBytes), left)
		c.cursor.ahead = c.offset
		more := c.cursor.blocks(f.e.index(), c.offset, max(want, c.cursor.window, 1))
		for _, r := range more {
			left -= int64(r.block().Len)
		}
		if n := len(more); n > 0 {
			c.cursor.ahead = more[n-1].block().LastOffset + 1
		}
		refs = append(refs, more...)
	}
	return refs
}

// behind starts to load what is missing, as far as there is room for it, and waits for nothing.
func (f *fetch) behind() {
	f.e.cache.loadBehind(f.plan())
	f.putCursors()
}

// putCursors gives the cursors of the cold partitions back.
func (f *fetch) putCursors() {
	for _, c := range f.cold {
		if c.cursor != nil {
			f.e.cache.putCursor(c.cursor, c.offset)
		}
	}
	clear(f.cold)
	f.cold = f.cold[:0]
}

// release ends the fetch's holds.
func (f *fetch) release() {
	for _, l := range f.loads {
		l.release(f.woken)
	}
	f.loads = nil
	f.putCursors()
}

package engine

import (
	"container/list"
	"errors"
	"fmt"
	"sort"
)

// cursor is where one reader of a partition goes on in its runs. Whoever fetches from the offset where a fetch ended is taken for the
// same reader: its next look-up costs nothing, and the more it reads in sequence the more is read ahead for it.
type cursor struct {
	p      *Partition
	offset int64
	runs   []*Run // the one that holds offset, and some that follow it
	steps  int    // fetches in sequence
	window int64  // bytes to read ahead
	ahead  int64  // offset after the last block that was asked for
}

// Read-ahead starts with the second fetch in sequence and doubles with each.
const firstWindow = 256 << 10

// maxRuns is how many runs a cursor knows ahead.
const maxRuns = 64

// What a cursor is counted as, in bytes, besides its runs' blocks.
const (
	cursorCost = 256
	runCost    = 192
	blockCost  = 48
)

func (c *cursor) cost() int64 {
	n := int64(cursorCost)
	for _, r := range c.runs {
		n += runCost + int64(cap(r.Blocks))*blockCost
	}
	return n
}

// forget drops what the cursor knows of the index.
func (c *cursor) forget() { c.runs, c.ahead = nil, 0 }

// locate returns the block that holds the offset. That there is none is [ErrCorrupt]: offsets have no holes.
func (c *cursor) locate(idx Index, offset int64) (blockRef, error) {
	c.drop(offset)
	if len(c.runs) == 0 || c.runs[0].FirstOffset > offset {
		c.forget()
		run, err := idx.Run(c.p.id, offset)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && run.FirstOffset > offset:
			return blockRef{}, &CorruptError{Where: "index", Offset: -1, Reason: fmt.Sprintf(
				"no run holds offset %d of partition %d of topic id %x", offset, c.p.id.Partition, c.p.id.Topic)}
		case err != nil:
			return blockRef{}, fmt.Errorf("look up offset %d of partition %d of topic id %x: %w", offset, c.p.id.Partition, c.p.id.Topic, err)
		}
		c.runs = append(c.runs, &run)
	}
	run := c.runs[0]
	i := run.find(offset)
	if i == len(run.Blocks) || run.Blocks[i].FirstOffset > offset {
		return blockRef{}, &CorruptError{Where: run.Object, Offset: -1, Reason: fmt.Sprintf(
			"no block holds offset %d of partition %d of topic id %x", offset, c.p.id.Partition, c.p.id.Topic)}
	}
	return blockRef{run: run, i: i}, nil
}

// find returns the index of the block that holds the offset, or of the first one above it.
func (r *Run) find(offset int64) int {
	return sort.Search(len(r.Blocks), func(i int) bool { return r.Blocks[i].LastOffset >= offset })
}

// drop forgets the runs below the offset.
func (c *cursor) drop(offset int64) {
	n := 0
	for n < len(c.runs) && c.runs[n].LastOffset < offset {
		n++
	}
	clear(c.runs[:n])
	c.runs = c.runs[n:]
}

// blocks lists the blocks from the offset on, which follow each other, until they have the wanted bytes.
func (c *cursor) blocks(idx Index, offset, want int64) []blockRef {
	var refs []blockRef
	for i := 0; want > 0; i++ {
		if i == len(c.runs) && !c.extend(idx, offset, want) {
			break
		}
		run := c.runs[i]
		for j := run.find(offset); j < len(run.Blocks) && want > 0; j++ {
			refs = append(refs, blockRef{run: run, i: j})
			want -= int64(run.Blocks[j].Len)
			offset = run.Blocks[j].LastOffset + 1
		}
	}
	return refs
}

// extend learns of further runs. A look-up that fails is left to the fetch that needs it.
func (c *cursor) extend(idx Index, offset, want int64) bool {
	if n := len(c.runs); n > 0 {
		offset = c.runs[n-1].LastOffset + 1
	}
	before := len(c.runs)
	_ = idx.Runs(c.p.id, offset, func(r Run) bool {
		if r.FirstOffset > offset {
			return false
		}
		offset = r.LastOffset + 1
		want -= r.Bytes()
		c.runs = append(c.runs, &r)
		return want > 0 && len(c.runs) < maxRuns
	})
	return len(c.runs) > before
}

// cursorTable keeps the cursors of the readers that were here last, bounded in bytes.
type cursorTable struct {
	limit int64
	bytes int64
	at    map[cursorKey]*list.Element // of *cursor
	order *list.List                  // least recently used first
}

type cursorKey struct {
	p      *Partition
	offset int64
}

func newCursorTable(limit int64) cursorTable {
	return cursorTable{limit: limit, at: make(map[cursorKey]*list.Element), order: list.New()}
}

func (t *cursorTable) take(key cursorKey) *cursor {
	el := t.at[key]
	if el == nil {
		return nil
	}
	delete(t.at, key)
	c := t.order.Remove(el).(*cursor)
	t.bytes -= c.cost()
	return c
}

func (t *cursorTable) put(c *cursor) {
	key := cursorKey{c.p, c.offset}
	t.take(key)
	t.at[key] = t.order.PushBack(c)
	t.bytes += c.cost()
	for t.bytes > t.limit {
		first := t.order.Front().Value.(*cursor)
		t.take(cursorKey{first.p, first.offset})
	}
}

// takeCursor returns the cursor of the reader that is at the offset, or a new one. It is the caller's until it is put back.
func (c *blockCache) takeCursor(p *Partition, offset int64) *cursor {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cur := c.cursors.take(cursorKey{p, offset}); cur != nil {
		return cur
	}
	return &cursor{p: p, offset: offset}
}

// putCursor keeps a cursor for the fetch that goes on at the offset, and reads ahead for it.
func (c *blockCache) putCursor(cur *cursor, offset int64) {
	if offset > cur.offset {
		cur.offset = offset
		if cur.steps++; cur.steps > 1 {
			cur.window = min(max(2*cur.window, firstWindow), c.limits.window)
		}
		cur.drop(offset)
		c.readAhead(cur)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cursors.put(cur)
}

// readAhead loads the blocks within the cursor's window, once half of it is used up, so that reads are large.
func (c *blockCache) readAhead(cur *cursor) {
	if cur.window == 0 {
		return
	}
	refs := cur.blocks(c.e.index(), cur.offset, cur.window)
	var asked int64
	n := 0
	for n < len(refs) && refs[n].block().LastOffset < cur.ahead {
		asked += int64(refs[n].block().Len)
		n++
	}
	if asked > cur.window/2 || n == len(refs) {
		return
	}
	if c.loadBehind(refs[n:]) {
		cur.ahead = refs[len(refs)-1].block().LastOffset + 1
	}
}

package engine

import (
	"time"

	"github.com/headpond/headpond/internal/buffer"
)

// A chunk is a stretch of the WAL, some MiB long, with a directory of the batches in it. It is the unit in which recent batches
// are kept in memory, dropped from it, read back from the WAL, and uploaded.
//
//	   WAL   ──┬────────────┬────────────┬────────────┬──────
//	           │  uploaded, │ in the WAL │  in memory │ open,
//	chunks     │  in memory │    only    │            │ filling
//	         ──┴────────────┴────────────┴────────────┴──────
//
// While a chunk is in memory each run lists its batches; once it is dropped from memory only the run's bounds remain, so that the
// directory of a long WAL stays small.
type chunk struct {
	from, to Position // records in (from, to]; to grows until the chunk is sealed
	born     time.Time
	bytes    int64 // of batches
	mem      int64 // memory of its buffers and lists; 0 when it is not in memory
	dir      int64 // memory of its directory
	undone   int   // batches that are admitted and not done
	sealed   bool
	uploaded bool // a done commit covers it

	runs  map[*Partition]*chunkRun
	order []*chunkRun // in the order of their first batches

	last *buffer.Buffer // the buffer counted last in mem
}

// A chunkRun is one partition's batches in one chunk. Offsets are [base, last]; they are contiguous. Its partition's mu guards it.
type chunkRun struct {
	p       *Partition
	chunk   *chunk
	base    int64
	last    int64
	maxTime int64
	bytes   int64
	count   int         // batches
	batches []tailBatch // in offset order; nil when the chunk is not in memory
}

// tailBatch is one batch in memory.
type tailBatch struct {
	base, last int64
	maxTime    int64
	data       []byte         // the whole batch
	buf        *buffer.Buffer // holds data
}

// What the directory and the lists are counted as, in bytes; measured with unsafe.Sizeof and rounded up for map and slice room.
const (
	chunkRunCost  = 192
	tailBatchCost = 96
)

// inMemory tells whether the chunk's batches are in memory.
func (c *chunk) inMemory() bool { return c.mem > 0 || !c.sealed }

// add notes a batch that was admitted at pos. buf is nil when the batch is not kept in memory. The session's mu and p's are held.
func (c *chunk) add(p *Partition, b tailBatch, pos Position, keep bool) {
	r := c.runs[p]
	if r == nil {
		r = &chunkRun{p: p, chunk: c, base: b.base, maxTime: b.maxTime}
		c.runs[p] = r
		c.order = append(c.order, r)
		c.dir += chunkRunCost
		p.tail = append(p.tail, r)
	}
	r.last = b.last
	r.maxTime = max(r.maxTime, b.maxTime)
	r.bytes += int64(len(b.data))
	r.count++
	c.to = pos
	c.bytes += int64(len(b.data))
	if !keep {
		return
	}
	b.buf.Retain()
	r.batches = append(r.batches, b)
	c.mem += tailBatchCost
	if b.buf != c.last { // batches of one request share a buffer
		c.mem += int64(b.buf.Cap())
		c.last = b.buf
	}
}

// unload drops the chunk's batches from memory and returns how much memory that freed. The session's mu is held.
func (c *chunk) unload() int64 {
	for _, r := range c.order {
		r.p.mu.Lock()
		batches := r.batches
		r.batches = nil
		r.p.mu.Unlock()
		for i := range batches {
			batches[i].buf.Release()
		}
	}
	freed := c.mem
	c.mem, c.last = 0, nil
	return freed
}

package engine

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/headpond/headpond/internal/buffer"
)

// blockCache holds what was read from objects and from the log, bounded in bytes, and the loads that fill it.
//
// A consumer that scans a backlog reads each block once, so what was read is of little worth until somebody else reads it too, and
// what was loaded and nobody has read yet is about to be. There are three queues, and room is made from the first that has any:
//
//	used       read to its end once          oldest first
//	shared     read to its end again         least recently used first; at most half of the cache, the rest goes to used
//	fresh      not read to its end yet       oldest first
//
// Loads that nobody waits for don't displace fresh blocks that are younger than freshFor, so that readers find what was loaded for
// them however many there are.
type blockCache struct {
	e      *Engine
	limits cacheLimits

	reads     *semaphore.Weighted // bytes of loads that run, or whose blocks are not taken over yet
	responses *semaphore.Weighted // bytes that fetch responses hold

	mu      sync.Mutex
	entries map[blockKey]*list.Element // of *cacheEntry
	queues  [queueCount]cacheQueue
	loads   map[blockKey]*load // that run, by each block that they bring
	loading int64              // bytes of the loads that run
	failed  map[blockKey]failure
	cursors cursorTable
}

// cacheLimits are shares of Options.Memory, in bytes.
type cacheLimits struct {
	cache     int64 // blocks
	reads     int64 // loads in flight
	responses int64
	cursors   int64
	extent    int64 // of one read of an object, unless a block is larger
	window    int64 // read ahead of one reader
}

const (
	cacheShare  = 8  // of Memory, for each of cache, reads and responses
	cursorShare = 64 // of Memory, for the readers' cursors
	maxExtent   = 4 << 20
	maxWindow   = 8 << 20
)

// freshFor is how long a block that nobody has read is safe from loads that nobody waits for.
const freshFor = 3 * time.Second

func newBlockCache(e *Engine) *blockCache {
	share := e.o.Memory / cacheShare
	l := cacheLimits{
		cache: share, reads: share, responses: share, cursors: e.o.Memory / cursorShare,
		extent: min(maxExtent, share/4), window: min(maxWindow, share/4),
	}
	return &blockCache{
		e: e, limits: l,
		reads: semaphore.NewWeighted(l.reads), responses: semaphore.NewWeighted(l.responses),
		entries: make(map[blockKey]*list.Element),
		loads:   make(map[blockKey]*load),
		failed:  make(map[blockKey]failure),
		cursors: newCursorTable(l.cursors),
	}
}

// context is one that ends when the engine closes.
func (c *blockCache) context() context.Context { return closingContext{closing: c.e.closing} }

type closingContext struct{ closing <-chan struct{} }

func (closingContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c closingContext) Done() <-chan struct{}     { return c.closing }
func (closingContext) Value(any) any               { return nil }
func (c closingContext) Err() error {
	select {
	case <-c.closing:
		return context.Canceled
	default:
		return nil
	}
}

// block is what was read at once and is cached as one: a block of an object, whose batches lie one after another, or a chunk of the
// log with a directory of them. It is immutable.
type block struct {
	buf    *buffer.Buffer
	pieces map[PartitionID][]logPiece // nil for an object's
	size   int64                      // memory that it takes
	holds  atomic.Int32
}

// logPiece is one batch in a chunk that was read back.
type logPiece struct {
	base, last int64
	maxTime    int64
	at, size   int32 // in the buffer
}

const logPieceCost = 40

// newBlock makes a block with one hold. It takes over the caller's hold of buf.
func newBlock(buf *buffer.Buffer, pieces map[PartitionID][]logPiece) *block {
	b := &block{buf: buf, pieces: pieces, size: int64(buf.Cap()) + cacheEntryCost}
	for _, p := range pieces {
		b.size += chunkRunCost + int64(cap(p))*logPieceCost
	}
	b.holds.Store(1)
	return b
}

func (b *block) retain() { b.holds.Add(1) }

func (b *block) release() {
	if b.holds.Add(-1) == 0 {
		b.buf.Release()
	}
}

type queueName int

const (
	usedQueue queueName = iota
	sharedQueue
	freshQueue
	queueCount
)

// cacheQueue is in the order of eviction.
type cacheQueue struct {
	list.List
	bytes int64
}

type cacheEntry struct {
	key   blockKey
	block *block
	queue queueName
	since time.Time // when it was loaded
}

// cacheEntryCost is what an entry takes besides its bytes; measured with unsafe.Sizeof and rounded up for map room.
const cacheEntryCost = 256

// failure is why a load that nobody waited for brought no block. The next fetch of the block is told, since it might not wait either.
type failure struct {
	err   error
	since time.Time
}

// Failures are few and short-lived: whoever reads again after this long tries again.
const (
	failedFor = time.Second
	maxFailed = 1024
)

// failLocked remembers what a load found that nobody waited for. That the store can't be reached is no finding.
func (c *blockCache) failLocked(key blockKey, err error) {
	if errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrInvalid) {
		return
	}
	now := time.Now()
	maps.DeleteFunc(c.failed, func(_ blockKey, f failure) bool { return now.Sub(f.since) > failedFor })
	if len(c.failed) < maxFailed {
		c.failed[key] = failure{err, now}
	}
}

// failure returns what a load of the block found that nobody waited for, or nil.
func (c *blockCache) failure(key blockKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.failed[key]
	if !ok || time.Since(f.since) > failedFor {
		return nil
	}
	return f.err
}

// forget forgets a failure that somebody was told of.
func (c *blockCache) forget(key blockKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failed, key)
}

// get returns a block, with a hold, or nil.
func (c *blockCache) get(key blockKey) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.entries[key]
	if el == nil {
		return nil
	}
	b := el.Value.(*cacheEntry).block
	b.retain()
	return b
}

// finished notes that a reader has come to the end of a block, or of its partition's part of it.
func (c *blockCache) finished(key blockKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.entries[key]
	if el == nil {
		return
	}
	to := sharedQueue
	if el.Value.(*cacheEntry).queue == freshQueue {
		to = usedQueue
	}
	c.moveLocked(el, to)
	shared := &c.queues[sharedQueue]
	for shared.bytes > c.limits.cache/2 {
		c.moveLocked(shared.Front(), usedQueue)
	}
}

func (c *blockCache) moveLocked(el *list.Element, to queueName) {
	e := c.dropLocked(el)
	e.queue = to
	c.queues[to].bytes += e.block.size
	c.entries[e.key] = c.queues[to].PushBack(e)
}

func (c *blockCache) dropLocked(el *list.Element) *cacheEntry {
	e := el.Value.(*cacheEntry)
	q := &c.queues[e.queue]
	q.Remove(el)
	q.bytes -= e.block.size
	delete(c.entries, e.key)
	return e
}

// putLocked adds a block that was loaded, and makes room for it. What is larger than the cache is left out.
func (c *blockCache) putLocked(key blockKey, b *block) {
	if b.size > c.limits.cache || c.entries[key] != nil {
		return
	}
	c.ageLocked()
	for q := range queueCount {
		for c.bytesLocked()+b.size > c.limits.cache {
			el := c.queues[q].Front()
			if el == nil {
				break
			}
			c.dropLocked(el).block.release()
		}
	}
	b.retain()
	c.queues[freshQueue].bytes += b.size
	c.entries[key] = c.queues[freshQueue].PushBack(&cacheEntry{key: key, block: b, queue: freshQueue, since: time.Now()})
}

func (c *blockCache) bytesLocked() (n int64) {
	for i := range c.queues {
		n += c.queues[i].bytes
	}
	return n
}

// ageLocked lets blocks go that nobody came for.
func (c *blockCache) ageLocked() {
	fresh := &c.queues[freshQueue]
	for fresh.Len() > 0 && time.Since(fresh.Front().Value.(*cacheEntry).since) > freshFor {
		c.moveLocked(fresh.Front(), usedQueue)
	}
}

// roomLocked tells whether size bytes that nobody waits for may be loaded, besides the loads that run.
func (c *blockCache) roomLocked(size int64) bool {
	c.ageLocked()
	return c.queues[freshQueue].bytes+c.loading+size <= c.limits.cache*3/4
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/objectfile"
	"github.com/headpond/headpond/internal/recordbatch"
)

// load is one read of an object or of the log, which brings one or more blocks. Whoever waits for it has a hold. Its memory counts as
// in flight until the last hold ends: the blocks are then in the cache, in responses, or forgotten, as errors are.
type load struct {
	c      *blockCache
	charge int64
	refs   []blockRef // in the order of their places

	// c.mu guards these.
	holds   int
	waiters []chan struct{}
	blocks  map[blockKey]loaded // nil until it is done
}

// loaded is the outcome for one block: a block, which the load holds, or an error.
type loaded struct {
	block *block
	err   error
}

func (l *load) has(key blockKey) bool {
	return slices.ContainsFunc(l.refs, func(r blockRef) bool { return r.key() == key })
}

// release ends the hold of who waits on the channel.
func (l *load) release(waiter chan struct{}) {
	l.c.mu.Lock()
	l.waiters = slices.DeleteFunc(l.waiters, func(w chan struct{}) bool { return w == waiter })
	l.holds--
	last := l.holds == 0
	l.c.mu.Unlock()
	if !last {
		return
	}
	for _, b := range l.blocks {
		if b.block != nil {
			b.block.release()
		}
	}
	l.c.reads.Release(l.charge)
}

// loadBehind starts to load blocks that nobody waits for, while there is room for them. It reports whether all are loading or loaded.
func (c *blockCache) loadBehind(refs []blockRef) bool {
	_, refs = c.missing(refs, nil)
	for _, x := range c.extents(refs) {
		n := c.charge(x)
		c.mu.Lock()
		room := c.roomLocked(n)
		c.mu.Unlock()
		if !room || !c.reads.TryAcquire(n) {
			return false
		}
		c.start(x, n, nil)
	}
	return true
}

// demand starts the loads that the fetch waits for, and joins those that run already. It waits for memory only as long as it has
// none to wait for.
func (f *fetch) demand(ctx context.Context) error {
	c := f.e.cache
	if f.woken == nil {
		f.woken = make(chan struct{}, 1)
	}
	f.dropEnded()
	joined, refs := c.missing(f.plan(), f.woken)
	f.loads = append(f.loads, joined...)
	for _, x := range c.extents(refs) {
		n := c.charge(x)
		if !c.reads.TryAcquire(n) {
			if len(f.loads) > 0 {
				return nil
			}
			if err := c.reads.Acquire(ctx, n); err != nil {
				return err
			}
		}
		f.loads = append(f.loads, c.start(x, n, f.woken)...)
	}
	return nil
}

// dropEnded ends the holds of loads that have ended: what they brought was of no use, and nothing is held while memory is waited for.
func (f *fetch) dropEnded() {
	c := f.e.cache
	f.loads = slices.DeleteFunc(f.loads, func(l *load) bool {
		c.mu.Lock()
		ended := l.blocks != nil
		c.mu.Unlock()
		if ended {
			l.release(f.woken)
		}
		return ended
	})
}

// missing joins the loads that bring some of the blocks, and returns the blocks that are neither cached nor loading. Without a waiter
// nothing is joined.
func (c *blockCache) missing(refs []blockRef, waiter chan struct{}) (joined []*load, rest []blockRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missingLocked(refs, waiter)
}

func (c *blockCache) missingLocked(refs []blockRef, waiter chan struct{}) (joined []*load, rest []blockRef) {
	for _, r := range refs {
		key := r.key()
		if c.entries[key] != nil {
			continue
		}
		l := c.loads[key]
		switch {
		case l == nil:
			rest = append(rest, r)
		case waiter != nil && !slices.Contains(l.waiters, waiter):
			l.holds++
			l.waiters = append(l.waiters, waiter)
			joined = append(joined, l)
		}
	}
	return joined, rest
}

// start starts a load of the blocks that are still missing, and returns it and what it joined. It takes over n bytes of reads.
func (c *blockCache) start(refs []blockRef, n int64, waiter chan struct{}) []*load {
	c.mu.Lock()
	defer c.mu.Unlock()
	loads, refs := c.missingLocked(refs, waiter)
	if len(refs) == 0 {
		c.reads.Release(n)
		return loads
	}
	l := &load{c: c, charge: n, refs: refs, holds: 1}
	if waiter != nil {
		l.holds++
		l.waiters = append(l.waiters, waiter)
		loads = append(loads, l)
	}
	for _, r := range refs {
		c.loads[r.key()] = l
	}
	c.loading += n
	go l.run()
	return loads
}

// run reads, hands the blocks to the cache and wakes who waits.
func (l *load) run() {
	c := l.c
	ctx, cancel := context.WithTimeout(c.context(), 2*c.e.o.StoreTimeout)
	defer cancel()
	var blocks map[blockKey]loaded
	if l.refs[0].chunk != nil {
		b, err := readLog(ctx, l.refs[0])
		blocks = map[blockKey]loaded{l.refs[0].key(): {b, err}}
	} else {
		blocks = l.readObject(ctx)
	}
	for _, b := range blocks {
		if errors.Is(b.err, ErrCorrupt) {
			c.e.o.Events.Damaged(b.err)
		}
	}
	c.mu.Lock()
	for key, b := range blocks {
		if b.block != nil {
			c.putLocked(key, b.block)
		} else if l.holds == 1 {
			c.failLocked(key, b.err)
		}
	}
	for _, r := range l.refs {
		delete(c.loads, r.key())
	}
	c.loading -= l.charge
	l.blocks = blocks
	for _, w := range l.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	c.mu.Unlock()
	l.release(nil)
}

// readObject reads the blocks of an object in one read.
func (l *load) readObject(ctx context.Context) map[blockKey]loaded {
	blocks := make(map[blockKey]loaded, len(l.refs))
	object := l.refs[0].run.Object
	pos, end := span(l.refs)
	buf, err := l.c.e.store.get(ctx, object, pos, end-pos)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = l.c.shortened(object, end, err)
	}
	if err != nil {
		for _, r := range l.refs {
			blocks[r.key()] = loaded{err: err}
		}
		return blocks
	}
	defer buf.Release()
	for _, r := range l.refs {
		b, err := l.cut(ctx, r, buf, pos)
		blocks[r.key()] = loaded{b, err}
	}
	return blocks
}

// shortened tells whether a body that ended early did so because the object is shorter than it should be.
func (c *blockCache) shortened(object string, end int64, err error) error {
	ctx, cancel := context.WithTimeout(c.context(), c.e.o.StoreTimeout)
	defer cancel()
	attrs, headErr := c.e.store.head(ctx, object)
	if headErr != nil || attrs.Size >= end {
		return err
	}
	return &CorruptError{Where: object, Offset: attrs.Size, Reason: fmt.Sprintf("the object ends here; the index knows %d bytes of it", end)}
}

// cut makes a block of what was read from pos on. Bytes that are not what was written are asked for once more: what is wrong may
// have happened on the way.
func (l *load) cut(ctx context.Context, r blockRef, buf *buffer.Buffer, pos int64) (*block, error) {
	at := r.block().Pos - pos
	data := buf.Bytes()[at : at+int64(r.block().Len)]
	err := l.c.verify(r, data)
	if err == nil {
		if len(l.refs) == 1 {
			buf.Retain()
			return newBlock(buf, nil), nil
		}
		b := buffer.Get(len(data))
		copy(b.Bytes(), data)
		return newBlock(b, nil), nil
	}
	l.c.e.o.Logger.Warn("a block was read damaged and is read again", "object", r.run.Object, "pos", r.block().Pos, "err", err)
	b, getErr := l.c.e.store.get(ctx, r.run.Object, r.block().Pos, int64(r.block().Len))
	if getErr != nil {
		return nil, getErr
	}
	if err := l.c.verify(r, b.Bytes()); err != nil {
		b.Release()
		return nil, err
	}
	return newBlock(b, nil), nil
}

// verify checks a block's bytes.
func (c *blockCache) verify(r blockRef, data []byte) error {
	b := r.block()
	err := objectfile.VerifyBlock(objectfile.ID(c.e.cluster),
		objectfile.Partition{Topic: objectfile.ID(r.run.Topic), Partition: r.run.Partition},
		objectfile.Block{Position: b.Pos, Length: b.Len, First: b.FirstOffset, Last: b.LastOffset, MaxTimestamp: b.MaxTimestamp, Sum: b.Sum},
		data)
	if err != nil {
		return &CorruptError{Where: r.run.Object, Offset: b.Pos, Reason: err.Error()}
	}
	return nil
}

// readLog reads a chunk back from the log, with a directory of its batches. Batches that a commit covered before the chunk was
// made are left out.
func readLog(ctx context.Context, r blockRef) (*block, error) {
	r.s.mu.Lock()
	from := r.chunk.from
	bases := make(map[PartitionID]int64, len(r.chunk.order))
	for _, run := range r.chunk.order {
		bases[run.p.id] = run.base
	}
	buf := buffer.Get(int(r.chunk.bytes))
	r.s.mu.Unlock()

	pieces := make(map[PartitionID][]logPiece, len(bases))
	at := 0
	var bad error
	err := r.s.wal.Read(ctx, from, r.to, func(pos Position, record []byte) bool {
		kind, id, body, err := splitRecord(record)
		if err != nil {
			bad = err
			return false
		}
		b := recordbatch.Batch(body)
		if base, ok := bases[id]; kind != walBatch || !ok || len(b) >= recordbatch.HeaderSize && b.BaseOffset() < base {
			return true
		}
		if len(b) < recordbatch.HeaderSize || len(b) > len(buf.Bytes())-at {
			bad = &CorruptError{Where: r.String(), Offset: -1, Reason: fmt.Sprintf("the record at position %d has %d bytes", pos, len(record))}
			return false
		}
		pieces[id] = append(pieces[id], logPiece{base: b.BaseOffset(), last: b.LastOffset(), maxTime: b.MaxTimestamp(), at: int32(at), size: int32(len(b))})
		at += copy(buf.Bytes()[at:], b)
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		buf.Release()
		return nil, fmt.Errorf("read back the log from position %d to %d: %w", from, r.to, err)
	}
	return newBlock(buf, pieces), nil
}

// await waits until one of the loads has brought a block, and for the others as long again; or until all have ended.
func (f *fetch) await(ctx context.Context) error {
	start := time.Now()
	var enough <-chan time.Time
	for {
		running, came := f.progress()
		if running == 0 {
			return nil
		}
		if came && enough == nil {
			t := time.NewTimer(time.Since(start) + time.Millisecond)
			defer t.Stop()
			enough = t.C
		}
		select {
		case <-f.woken:
		case <-enough:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// progress tells how many loads run, and whether any has brought a block.
func (f *fetch) progress() (running int, came bool) {
	f.e.cache.mu.Lock()
	defer f.e.cache.mu.Unlock()
	for _, l := range f.loads {
		if l.blocks == nil {
			running++
		}
		for _, b := range l.blocks {
			came = came || b.err == nil
		}
	}
	return running, came
}

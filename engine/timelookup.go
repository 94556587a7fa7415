package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headpond/headpond/internal/recordbatch"
)

// A look-up by time goes through the largest timestamps that index and directory know of runs, blocks and batches, and reads only the
// blocks that may hold the answer: one, unless a producer's batch header promised a timestamp that its records do not have.

// none is the answer that there is no such record.
var none = TimedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}

// FindTime returns the first record with a timestamp of at least ts (ms since 1970); its Offset is -1 when there is none. A batch that
// the log start lies in counts from the log start on.
func (p *Partition) FindTime(ctx context.Context, ts int64) (TimedOffset, error) {
	l := timeLookup{p: p, ts: ts, absent: make(map[blockKey]bool)}
	o, err := p.Offsets()
	if err != nil {
		return none, err
	}
	l.offset = o.LogStart
	for {
		found, more, err := l.step(ctx)
		if err != nil {
			return none, fmt.Errorf("find time %d in partition %d of topic id %x: %w", ts, p.id.Partition, p.id.Topic, err)
		}
		if found != none || !more {
			return found, nil
		}
	}
}

// MaxTimestamp returns the first record that has the partition's largest timestamp.
func (p *Partition) MaxTimestamp(ctx context.Context) (TimedOffset, error) {
	largest := int64(recordbatch.NoTimestamp)
	o, err := p.Offsets()
	if err != nil {
		return none, err
	}
	err = p.e.index().Runs(p.id, o.LogStart, func(r Run) bool {
		largest = max(largest, r.MaxTimestamp)
		return true
	})
	if err != nil {
		return none, fmt.Errorf("largest timestamp of partition %d of topic id %x: %w", p.id.Partition, p.id.Topic, unavailable(err))
	}
	p.mu.Lock()
	for _, r := range p.tail {
		if len(r.batches) == 0 && r.last >= p.logStart {
			largest = max(largest, r.maxTime)
		}
		for i := range r.batches {
			if r.batches[i].last < p.high && r.batches[i].last >= p.logStart {
				largest = max(largest, r.batches[i].maxTime)
			}
		}
	}
	p.mu.Unlock()
	if largest == recordbatch.NoTimestamp {
		return none, nil
	}
	return p.FindTime(ctx, largest)
}

// Size is the number of bytes from the log start to the high watermark, to within one run.
func (p *Partition) Size() int64 {
	state, err := p.e.index().Partition(p.id)
	if err != nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := state.Bytes
	for _, r := range p.tail {
		if r.base >= state.End {
			n += r.bytes
		}
	}
	return n
}

// timeLookup is one search.
type timeLookup struct {
	p      *Partition
	ts     int64
	offset int64             // what is below has no answer
	absent map[blockKey]bool // blocks that were overtaken by an upload or a removal, once
}

// step searches the next place that may hold the answer. more is false at the end of the partition.
func (l *timeLookup) step(ctx context.Context) (found TimedOffset, more bool, err error) {
	p := l.p
	p.mu.Lock()
	before := l.offset
	err, l.offset = p.err, max(l.offset, p.logStart)
	committed, high := p.committed, p.high
	var hot []tailBatch
	var cold *chunkRun
	s := p.s
	if err == nil && l.offset >= committed {
		hot, cold = l.tailLocked()
	}
	p.mu.Unlock()
	switch {
	case err != nil || l.offset >= high:
		return none, false, err
	case l.offset < committed:
		found, err = l.objects(ctx, committed)
	case len(hot) > 0:
		found, err = l.batches(hot)
	case cold != nil:
		found, err = l.chunk(ctx, s.ref(cold.chunk), high)
	case l.offset == before:
		err = &CorruptError{Where: s.info.URL, Offset: -1, Reason: fmt.Sprintf("offset %d is neither in the log's directory nor in objects", l.offset)}
	}
	return found, true, err
}

// tailLocked returns the batches of the first run of the tail that may hold the answer, each with a hold, or the run if it is not in
// memory. It moves the offset past the runs that can't.
func (l *timeLookup) tailLocked() (hot []tailBatch, cold *chunkRun) {
	p := l.p
	for _, r := range p.tail[p.findRunLocked(l.offset):] {
		if r.maxTime < l.ts {
			l.offset = min(r.last+1, p.high)
			continue
		}
		next := l.offset
		for _, b := range r.batches {
			if b.last < next {
				continue
			}
			if b.base > next || b.last >= p.high {
				break
			}
			next = b.last + 1
			if b.maxTime >= l.ts {
				b.buf.Retain()
				hot = append(hot, b)
			} else if len(hot) == 0 {
				l.offset = next
			}
		}
		if len(hot) > 0 {
			return hot, nil
		}
		if next <= r.last && next < p.high {
			return nil, r
		}
	}
	return nil, nil
}

// batches searches batches of the tail, and ends their holds.
func (l *timeLookup) batches(hot []tailBatch) (TimedOffset, error) {
	defer func() {
		for _, b := range hot {
			b.buf.Release()
		}
	}()
	for _, b := range hot {
		if found, err := l.batch(b.data); found != none || err != nil {
			return found, err
		}
	}
	return none, nil
}

// batch searches one batch, and moves the offset past it when the answer is not in it.
func (l *timeLookup) batch(data []byte) (TimedOffset, error) {
	v := recordbatch.Batch(data)
	if v.LastOffset() >= l.offset && v.MaxTimestamp() >= l.ts {
		offset, ts, ok, err := l.p.e.o.Batches.FindTime(data, l.ts)
		if err != nil {
			return none, fmt.Errorf("batch at offset %d: %w", v.BaseOffset(), err)
		}
		if ok {
			return TimedOffset{Offset: max(offset, l.offset), Timestamp: ts, LeaderEpoch: v.LeaderEpoch()}, nil
		}
	}
	l.offset = max(l.offset, v.NextOffset())
	return none, nil
}

// objects searches the runs in objects below end.
func (l *timeLookup) objects(ctx context.Context, end int64) (TimedOffset, error) {
	var run *Run
	next := l.offset
	err := l.p.e.index().Runs(l.p.id, l.offset, func(r Run) bool {
		if r.MaxTimestamp >= l.ts {
			run = &r
			return false
		}
		next = r.LastOffset + 1
		return next < end
	})
	if err != nil {
		return none, unavailable(err)
	}
	l.offset = max(next, l.offset)
	if run == nil {
		l.offset = max(end, l.offset)
		return none, nil
	}
	for i := run.find(l.offset); i < len(run.Blocks); i++ {
		ref := blockRef{run: run, i: i}
		if ref.block().MaxTimestamp >= l.ts {
			found, again, err := l.block(ctx, ref)
			if found != none || again || err != nil {
				return found, err
			}
		}
	}
	l.offset = max(l.offset, run.LastOffset+1)
	return none, nil
}

// block searches one block of an object. again says that the index is to be asked again.
func (l *timeLookup) block(ctx context.Context, ref blockRef) (found TimedOffset, again bool, err error) {
	b, err := l.read(ctx, ref)
	if b == nil {
		return none, true, err
	}
	defer b.release()
	for data := b.buf.Bytes(); len(data) > 0; {
		v := recordbatch.Batch(data)
		if len(v) < recordbatch.HeaderSize || v.Size() > len(v) || v.Size() < recordbatch.HeaderSize {
			return none, false, &CorruptError{Where: ref.String(), Offset: ref.block().Pos, Reason: "the block does not consist of batches"}
		}
		if found, err := l.batch(data[:v.Size()]); found != none || err != nil {
			return found, false, err
		}
		data = data[v.Size():]
	}
	return none, false, nil
}

// chunk searches the partition's part of a chunk of the log that is not in memory.
func (l *timeLookup) chunk(ctx context.Context, ref blockRef, high int64) (TimedOffset, error) {
	b, err := l.read(ctx, ref)
	if b == nil {
		return none, err
	}
	defer b.release()
	data := b.buf.Bytes()
	before := l.offset
	for _, p := range b.pieces[l.p.id] {
		if p.last >= high || p.base > l.offset {
			break
		}
		if p.last < l.offset {
			continue
		}
		if found, err := l.batch(data[p.at : p.at+p.size]); found != none || err != nil {
			return found, err
		}
	}
	if l.offset == before {
		return none, &CorruptError{Where: ref.String(), Offset: -1, Reason: fmt.Sprintf("offset %d is not where the log's directory says", l.offset)}
	}
	return none, nil
}

// read reads a block, or returns nil when the search is to look for it again.
func (l *timeLookup) read(ctx context.Context, ref blockRef) (*block, error) {
	b, err := l.p.e.cache.read(ctx, ref)
	if errors.Is(err, ErrNotFound) && !l.absent[ref.key()] {
		l.absent[ref.key()] = true
		return nil, nil
	}
	if err != nil {
		return nil, ref.failure(err)
	}
	return b, nil
}

// read returns a block, with a hold, from the cache, or loads it.
func (c *blockCache) read(ctx context.Context, ref blockRef) (*block, error) {
	key := ref.key()
	woken := make(chan struct{}, 1)
	for {
		if b := c.get(key); b != nil {
			return b, nil
		}
		loads, rest := c.missing([]blockRef{ref}, woken)
		if len(rest) > 0 {
			n := c.charge(rest)
			if err := c.reads.Acquire(ctx, n); err != nil {
				return nil, fmt.Errorf("%w: read %s: %w", ErrUnavailable, ref, err)
			}
			loads = c.start(rest, n, woken)
		}
		for _, l := range loads { // one, or none if it came meanwhile
			select {
			case <-woken:
			case <-ctx.Done():
				l.release(woken)
				return nil, fmt.Errorf("%w: read %s: %w", ErrUnavailable, ref, ctx.Err())
			}
			c.mu.Lock()
			got := l.blocks[key]
			if got.block != nil {
				got.block.retain()
			}
			c.mu.Unlock()
			l.release(woken)
			return got.block, got.err
		}
	}
}

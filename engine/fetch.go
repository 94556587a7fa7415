package engine

import (
	"context"
	"fmt"
	"time"
)

// How a fetch reads:
//
//	first pass    every partition, in the request's order: what is in memory, be it recent batches or blocks in the cache
//	found any     answer now; what was missed is loaded behind the answer's back, for the next fetch to find
//	found none    load what was missed, in parallel, and answer with what comes first and with what comes about as fast
//
// So no partition's answer waits for another's object, and each fetch either answers at once or waits for its own reads only. Loads
// are shared between fetches, go on when their fetch has given up, and put what they read into the cache, where blocks that nobody
// has read yet stay longest. A partition that lags while others in the same fetch always have news is thus served by every other
// fetch or so: one starts the load, a later one finds the block, or is told why there is none. A block that the cache can't hold is
// waited for instead.

// defaultFetchTimeout is a fetch's Timeout when it has none.
const defaultFetchTimeout = 10 * time.Second

// maxHold is how long an answer is held up for a block that the cache can't hold. The load goes on, and the next fetch joins it.
const maxHold = time.Second

// fetch is one call of Engine.Fetch.
type fetch struct {
	e      *Engine
	req    *FetchRequest
	resp   *FetchResponse
	cold   []coldRead // partitions of which nothing is in memory
	next   []blockRef // blocks that would have followed what was found
	failed bool       // a partition has an error to tell
	short  int64      // memory that the first batch lacked; 0 when there was enough
	again  bool       // not the first pass

	loads  []*load           // that this fetch waits for, a hold each
	absent map[blockKey]bool // blocks that were not where the index or the directory said, once
	woken  chan struct{}     // has room for one token: one of loads has ended
}

// coldRead is a partition whose next batches are to be loaded.
type coldRead struct {
	i      int // of the request's partitions
	offset int64
	block  blockRef
	cursor *cursor // nil for the log
}

// Fetch is described at [Service].
func (e *Engine) Fetch(ctx context.Context, r *FetchRequest) *FetchResponse {
	f := fetch{e: e, req: r, resp: newFetchResponse(len(r.Partitions), e.cache.responses, e.cache.limits.responses)}
	f.pass()
	if f.short > 0 || len(f.cold) > 0 {
		f.slow(ctx)
	}
	if len(f.next) > 0 {
		e.cache.loadBehind(f.next)
	}
	f.resp.settle()
	return f.resp
}

// pass fills all results with what is in memory.
func (f *fetch) pass() {
	f.failed, f.short = false, 0
	f.next = f.next[:0]
	for i := range f.req.Partitions {
		f.partition(i)
	}
	f.again = true
}

// partition fills one result with what is in memory, and notes when there is more elsewhere.
func (f *fetch) partition(i int) {
	fp, res := &f.req.Partitions[i], &f.resp.Results[i]
	first, bytes := f.resp.begin()
	at := reader{f: f, p: fp.Partition, offset: fp.Offset, room: fp.MaxBytes}
	for at.more() {
	}
	*res = FetchResult{Offsets: at.offsets}
	f.resp.end(res, first, bytes)
	if res.Bytes > 0 {
		if at.missing.isSet() {
			f.next = append(f.next, at.missing)
		}
		at.leave()
		return // an error comes back with the fetch from where it lies
	}
	if at.err != nil {
		res.Err = at.err
		f.failed = true
	}
	if at.missing.isSet() {
		f.cold = append(f.cold, coldRead{i: i, offset: at.offset, block: at.missing, cursor: at.cursor})
		return
	}
	at.leave()
}

// slow goes on where the first pass found nothing, or not all.
func (f *fetch) slow(ctx context.Context) {
	defer f.release()
	if (f.resp.Bytes > 0 || f.failed) && !f.mustWait() {
		f.behind()
		return
	}
	timeout := f.req.Timeout
	if timeout <= 0 {
		timeout = defaultFetchTimeout
	}
	if f.resp.Bytes > 0 || f.failed {
		timeout = min(timeout, maxHold)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := f.wait(ctx)
		if err == nil {
			err = ctx.Err()
		}
		// Whatever came, from the store or from producers, is gathered in the request's order.
		f.resp.restart()
		f.putCursors()
		f.pass()
		switch {
		case f.resp.Bytes > 0 || f.failed || f.short == 0 && len(f.cold) == 0:
			f.behind()
			return
		case err != nil:
			f.unavailable(err)
			return
		}
	}
}

// wait waits for memory for the first batch, or for the loads of what is cold.
func (f *fetch) wait(ctx context.Context) error {
	if f.short > 0 {
		return f.resp.await(ctx, f.short)
	}
	f.resp.settle() // nothing is held while others may wait for it
	if err := f.demand(ctx); err != nil {
		return err
	}
	return f.await(ctx)
}

// unavailable says of each partition that has something that it did not come in time.
func (f *fetch) unavailable(err error) {
	for _, c := range f.cold {
		f.resp.Results[c.i].Err = fmt.Errorf("%w: offset %d: %s did not come in time: %w", ErrUnavailable, c.offset, c.block, err)
	}
	for i := range f.resp.Results {
		if res := &f.resp.Results[i]; f.short > 0 && res.HighWatermark > f.req.Partitions[i].Offset {
			res.Err = fmt.Errorf("%w: no memory for a response: %w", ErrUnavailable, err)
		}
	}
}

package engine

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/headpond/headpond/internal/buffer"
)

// FetchResponse is the outcome of a fetch.
type FetchResponse struct {
	Results []FetchResult // in the request's order
	Bytes   int           // of all results together

	budget  *semaphore.Weighted
	limit   int64            // of budget
	granted int64            // taken from budget
	used    int64            // of granted
	held    []*buffer.Buffer // one hold each
	pieces  [][]byte         // of all results, one result's after another's

	scratch []byte // of the last buffer for copies, which is in held
	copied  int    // bytes of scratch in use
	joined  int    // index of the last piece if it ends at copied, else -1
}

// Small batches are copied: a piece of its own in the write costs more than the copy, and a response that waits for a slow client would
// pin a whole buffer for a small part of it.
const (
	copyAlways     = 2 << 10 // largest batch that is copied in any case
	copyBytes      = 8 << 10 // largest batch that is copied
	copyShare      = 4       // where it is at most this part of its buffer, as a divisor
	minScratch     = 4 << 10
	maxScratch     = 64 << 10
	keptPieces     = 4096 // more than these are not kept for the next response
	keptResults    = 4096
	keptHeldBuffer = 1024
)

var responses = sync.Pool{New: func() any { return new(FetchResponse) }}

// newFetchResponse returns an empty response with n results. Memory for batches is taken from budget, which has limit bytes.
func newFetchResponse(n int, budget *semaphore.Weighted, limit int64) *FetchResponse {
	r := responses.Get().(*FetchResponse)
	r.budget, r.limit, r.joined = budget, limit, -1
	if cap(r.Results) < n {
		r.Results = make([]FetchResult, n)
	}
	r.Results = r.Results[:n]
	return r
}

// Release gives back the memory of the batches. The response and its results must not be used afterwards.
func (r *FetchResponse) Release() {
	for _, b := range r.held {
		b.Release()
	}
	if r.granted > 0 {
		r.budget.Release(r.granted)
	}
	clear(r.Results)
	clear(r.pieces)
	clear(r.held)
	*r = FetchResponse{Results: r.Results[:0], held: r.held[:0], pieces: r.pieces[:0]}
	if cap(r.Results) > keptResults || cap(r.pieces) > keptPieces || cap(r.held) > keptHeldBuffer {
		return
	}
	responses.Put(r)
}

// take takes n bytes of the budget; more than there are in all count as all, so that the largest batch comes through, alone.
func (r *FetchResponse) take(n int64) bool {
	n = min(n, r.limit)
	if short := r.used + n - r.granted; short > 0 {
		if !r.budget.TryAcquire(short) {
			return false
		}
		r.granted += short
	}
	r.used += n
	return true
}

// await waits until n bytes of the budget can be taken.
func (r *FetchResponse) await(ctx context.Context, n int64) error {
	n = min(n, r.limit)
	if err := r.budget.Acquire(ctx, n); err != nil {
		return err
	}
	r.granted += n
	return nil
}

// restart drops what was added and keeps what was granted.
func (r *FetchResponse) restart() {
	for _, b := range r.held {
		b.Release()
	}
	clear(r.held)
	clear(r.pieces)
	r.held, r.pieces = r.held[:0], r.pieces[:0]
	r.Bytes, r.used = 0, 0
	r.scratch, r.copied, r.joined = nil, 0, -1
}

// settle gives back what was granted and not used.
func (r *FetchResponse) settle() {
	if r.granted > r.used {
		r.budget.Release(r.granted - r.used)
		r.granted = r.used
	}
}

// cost is what adding data of a buffer takes from the budget.
func (r *FetchResponse) cost(data []byte, buf *buffer.Buffer) int64 {
	if copies(data, buf) {
		if len(data) <= len(r.scratch)-r.copied {
			return 0
		}
		return int64(r.nextScratch(len(data)))
	}
	if n := len(r.held); n > 0 && r.held[n-1] == buf {
		return 0
	}
	return int64(buf.Cap())
}

func copies(data []byte, buf *buffer.Buffer) bool {
	return len(data) <= copyAlways || len(data) <= copyBytes && copyShare*len(data) <= buf.Cap()
}

func (r *FetchResponse) nextScratch(n int) int {
	size := min(max(2*len(r.scratch), minScratch), maxScratch)
	for size < n {
		size *= 2
	}
	return size
}

// add appends whole batches, which lie in buf, to the results' pieces. It takes a hold of buf or copies them. When the budget has
// no room it reports false, and how much room is missing.
func (r *FetchResponse) add(data []byte, buf *buffer.Buffer) (missing int64, ok bool) {
	cost := r.cost(data, buf)
	if cost > 0 && !r.take(cost) {
		return cost, false
	}
	r.Bytes += len(data)
	if !copies(data, buf) {
		if cost > 0 {
			buf.Retain()
			r.held = append(r.held, buf)
		}
		r.pieces = append(r.pieces, data)
		r.joined = -1
		return 0, true
	}
	if cost > 0 {
		b := buffer.Get(int(cost))
		r.held = append(r.held, b)
		r.scratch, r.copied, r.joined = b.Bytes(), 0, -1
	}
	from := r.copied
	r.copied += copy(r.scratch[from:], data)
	if r.joined >= 0 {
		piece := r.pieces[r.joined]
		r.pieces[r.joined] = r.scratch[from-len(piece) : r.copied : r.copied]
		return 0, true
	}
	r.joined = len(r.pieces)
	r.pieces = append(r.pieces, r.scratch[from:r.copied:r.copied])
	return 0, true
}

// begin starts the pieces of one result; end makes those that were added since its batches.
func (r *FetchResponse) begin() (first, bytes int) {
	r.joined = -1
	return len(r.pieces), r.Bytes
}

func (r *FetchResponse) end(res *FetchResult, first, bytes int) {
	if n := len(r.pieces); n > first {
		res.Batches = r.pieces[first:n:n]
	}
	res.Bytes = r.Bytes - bytes
}

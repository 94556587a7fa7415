package engine

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/internal/buffer"
)

func TestFetchReturnsWholeBatchesWithinItsLimits(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p, q := r.partition(0), r.partition(1)
	for range 10 {
		r.tail(p, r.next(p, 1000))
		r.tail(q, r.next(q, 1000))
	}
	size := len(r.next(r.partition(2), 1000))
	for _, c := range []struct {
		name            string
		offset          int64
		maxP, maxQ, max int
		wantP, wantQ    []int64
	}{
		{"all of it", 0, 1 << 20, 1 << 20, 1 << 20, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"from the middle", 8, 1 << 20, 0, 1 << 20, []int64{8, 9}, nil},
		{"whole batches only", 0, 3*size - 1, 2 * size, 1 << 20, []int64{0, 1}, []int64{0, 1}},
		{"within the request's limit", 0, 1 << 20, 1 << 20, 12 * size, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []int64{0, 1}},
		{"the first batch whatever its size", 3, 1, 1, 1, []int64{3}, nil},
		{"nothing beyond it for a later partition", 0, size, 1, 1 << 20, []int64{0}, nil},
		{"at the high watermark", 10, 1 << 20, 2 * size, 1 << 20, nil, []int64{0, 1}},
	} {
		resp := r.fetchAll(c.max, FetchPartition{p, c.offset, c.maxP}, FetchPartition{q, 0, c.maxQ})
		if got := r.offsets(resp.Results[0]); !slices.Equal(got, c.wantP) {
			t.Errorf("%s: first partition %v, want %v", c.name, got, c.wantP)
		}
		if got := r.offsets(resp.Results[1]); !slices.Equal(got, c.wantQ) {
			t.Errorf("%s: second partition %v, want %v", c.name, got, c.wantQ)
		}
		if resp.Bytes != resp.Results[0].Bytes+resp.Results[1].Bytes {
			t.Errorf("%s: %d bytes, the results have %d and %d", c.name, resp.Bytes, resp.Results[0].Bytes, resp.Results[1].Bytes)
		}
		resp.Release()
	}
}

func TestFetchKeepsBelowTheHighWatermark(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.tail(p, r.next(p, 100))
	r.keep(p, r.next(p, 100), true) // admitted, not done
	resp := r.fetch(p, 0, 1<<20)
	defer resp.Release()
	if got := r.offsets(resp.Results[0]); !slices.Equal(got, []int64{0}) {
		t.Errorf("batches %v, want the one that is done", got)
	}
	if o := resp.Results[0].Offsets; o.HighWatermark != 1 || o.LogStart != 0 {
		t.Errorf("offsets %+v", o)
	}
}

func TestFetchRefusesOffsetsThatAreNotThere(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	for range 5 {
		r.tail(p, r.next(p, 100))
	}
	p.logStart = 2
	for offset, want := range map[int64]error{-1: ErrOutOfRange, 1: ErrOutOfRange, 2: nil, 5: nil, 6: ErrOutOfRange} {
		resp := r.fetch(p, offset, 1<<20)
		if err := resp.Results[0].Err; !errors.Is(err, want) {
			t.Errorf("offset %d: %v, want %v", offset, err, want)
		}
		if o := resp.Results[0].Offsets; o.LogStart != 2 || o.HighWatermark != 5 {
			t.Errorf("offset %d: offsets %+v", offset, o)
		}
		resp.Release()
	}
	p.err = errPartitionGone
	resp := r.fetch(p, 2, 1<<20)
	defer resp.Release()
	if err := resp.Results[0].Err; !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted partition: %v", err)
	}
}

func TestLargeBatchesAreNotCopiedAndOutliveTheirChunk(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.tail(p, r.next(p, 60<<10))
	data := p.tail[0].batches[0].data
	resp := r.fetch(p, 0, 1<<20)
	if &resp.Results[0].Batches[0][0] != &data[0] {
		t.Error("the batch was copied")
	}
	r.s.chunks[0].unload()
	r.offsets(resp.Results[0]) // a released buffer is overwritten in race builds
	resp.Release()
}

func TestSmallBatchesOfLargeBuffersAreCopiedTogether(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	buf := buffer.Get(1 << 20)
	defer buf.Release()
	at := 0
	for range 100 {
		b := r.next(p, 100)
		n := copy(buf.Bytes()[at:], b)
		r.s.mu.Lock()
		p.mu.Lock()
		c := r.s.openChunkFor(true)
		r.s.admitted++
		r.s.done = r.s.admitted
		r.s.addLocked(c, p, tailBatch{base: b.BaseOffset(), last: b.LastOffset(), data: buf.Bytes()[at : at+n], buf: buf}, r.s.admitted, true)
		p.high = p.next
		p.mu.Unlock()
		r.s.mu.Unlock()
		at += n
	}
	resp := r.fetch(p, 0, 1<<20)
	defer resp.Release()
	if got := r.offsets(resp.Results[0]); len(got) != 100 {
		t.Fatalf("%d batches, want 100", len(got))
	}
	if n := len(resp.Results[0].Batches); n > 5 {
		t.Errorf("%d pieces for 100 small batches", n)
	}
	if resp.granted > 64<<10 {
		t.Errorf("%d bytes of memory for %d bytes of batches", resp.granted, resp.Bytes)
	}
}

func TestFetchWaitsForMemoryOfResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		p := r.partition(0)
		for range 40 {
			r.tail(p, r.next(p, 60<<10))
		}
		var held []*FetchResponse
		for offset := int64(0); ; {
			resp := r.e.Fetch(t.Context(), &FetchRequest{Partitions: []FetchPartition{{p, offset, 1 << 20}}, MaxBytes: 1 << 20, Timeout: time.Second})
			if err := resp.Results[0].Err; err != nil {
				if !errors.Is(err, ErrUnavailable) {
					t.Errorf("without memory: %v", err)
				}
				resp.Release()
				break
			}
			offset += int64(len(r.offsets(resp.Results[0])))
			held = append(held, resp)
			if offset == 40 {
				t.Fatal("responses hold more memory than there is")
			}
		}
		got := make(chan *FetchResponse)
		go func() { got <- r.fetch(p, 39, 1<<20) }()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("a response took memory that there is not")
		default:
		}
		held[0].Release()
		resp := <-got
		if n := len(r.offsets(resp.Results[0])); n != 1 {
			t.Errorf("%d batches once there is memory, want 1", n)
		}
		for _, h := range append(held[1:], resp) {
			h.Release()
		}
	})
}

func TestBatchLargerThanAllMemoryOfResponsesIsServed(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.tail(p, r.next(p, 2500<<10))
	resp := r.fetch(p, 0, 1)
	defer resp.Release()
	if got := r.offsets(resp.Results[0]); len(got) != 1 {
		t.Errorf("%d batches, want 1", len(got))
	}
}

func BenchmarkFetchNothingOf1000Partitions(b *testing.B) {
	r := newReadRig(b, 128<<20)
	req := &FetchRequest{MaxBytes: 50 << 20}
	for i := range 1000 {
		p := r.partition(int32(i))
		r.tail(p, r.next(p, 100))
		req.Partitions = append(req.Partitions, FetchPartition{p, 1, 1 << 20})
	}
	b.ReportAllocs()
	for b.Loop() {
		r.e.Fetch(b.Context(), req).Release()
	}
}

func BenchmarkFetchHot64KiB(b *testing.B) {
	r := newReadRig(b, 128<<20)
	p := r.partition(0)
	for range 16 {
		r.tail(p, r.next(p, 64<<10-100))
	}
	req := &FetchRequest{MaxBytes: 1 << 20, Partitions: []FetchPartition{{p, 0, 1 << 20}}}
	b.ReportAllocs()
	for b.Loop() {
		resp := r.e.Fetch(b.Context(), req)
		b.SetBytes(int64(resp.Bytes))
		resp.Release()
	}
}

// One fetch has a block and waits for memory for its response; another was given that memory, and what it wanted it for has left
// memory meanwhile, so that it waits for a load, for which the first one's block leaves no room.
func TestFetchesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = 2500 << 10 // more than all memory of loads, and of responses
		r := newReadRig(t, 16<<20)
		defer r.close()
		c := r.e.cache
		hot, cold := r.partition(0), r.partition(1)
		r.tail(hot, r.next(hot, large))
		r.segment("one", cold, 1, large)
		if !c.responses.TryAcquire(c.limits.responses) {
			t.Fatal("there is no memory to begin with")
		}
		got := make(chan *FetchResponse)
		go func() { got <- r.fetch(hot, 0, 1) }()
		synctest.Wait()
		go func() { got <- r.fetch(cold, 0, 1) }()
		synctest.Wait()
		if c.reads.TryAcquire(1) {
			t.Fatal("the block does not take all memory of loads")
		}
		r.s.mu.Lock()
		r.s.sealLocked(r.s.chunks[0])
		r.s.chunks[0].unload()
		r.s.mu.Unlock()
		c.responses.Release(c.limits.responses)
		for range 2 {
			resp := <-got
			if n := len(r.offsets(resp.Results[0])); n != 1 {
				t.Errorf("%d batches, want 1", n)
			}
			resp.Release()
		}
	})
}

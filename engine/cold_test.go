package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/internal/recordbatch"
)

func TestFetchGoesFromObjectsThroughTheLogIntoMemory(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.segment("one", p, 5, 1000)
	r.segment("two", p, 5, 1000)
	r.inLog(p, r.next(p, 1000), r.next(p, 1000))
	r.inLog(p, r.next(p, 1000))
	for range 3 {
		r.tail(p, r.next(p, 1000))
	}
	for offset := range int64(16) {
		if offset < 15 {
			resp := r.fetch(p, offset, 1)
			if got := r.offsets(resp.Results[0]); !slices.Equal(got, []int64{offset}) {
				t.Errorf("one batch from offset %d: %v", offset, got)
			}
			resp.Release()
		}
		r.drain(p, offset, 1<<20)
	}
	resp := r.fetch(p, 2, 1<<20)
	defer resp.Release()
	if got := r.offsets(resp.Results[0]); len(got) != 14 {
		t.Errorf("once all is in memory, one fetch has %d batches, want 14", len(got))
	}
}

func TestBatchOfManyRecordsIsFoundFromItsMiddle(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	batch := func() recordbatch.Batch {
		b := r.nextWith(p, make3(p.next)...)
		return b
	}
	r.object("one", blocks{p, [][]recordbatch.Batch{{batch(), batch()}, {batch(), batch()}}})
	r.inLog(p, batch(), batch())
	r.tail(p, batch())
	for offset := range int64(21) {
		resp := r.fetch(p, offset, 1)
		if got := r.offsets(resp.Results[0]); !slices.Equal(got, []int64{offset / 3 * 3}) {
			t.Errorf("offset %d: batches %v, want the one that holds it", offset, got)
		}
		resp.Release()
	}
}

func TestFetchesOfOneBlockShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		p := r.partition(0)
		r.segment("one", p, 1, 1000)
		open := make(chan struct{})
		r.store.hook = func(context.Context, string, int64, []byte) error { <-open; return nil }
		var work sync.WaitGroup
		for range 20 {
			work.Go(func() {
				resp := r.fetch(p, 0, 1<<20)
				r.offsets(resp.Results[0])
				resp.Release()
			})
		}
		synctest.Wait()
		close(open)
		work.Wait()
		if n := r.store.count(); n != 1 {
			t.Errorf("%d reads of the store, want 1", n)
		}
	})
}

func TestAbsentObjectIsNamedAndNothingIsSkipped(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p, q := r.partition(0), r.partition(1)
	r.segment("gone", p, 3, 1000)
	r.segment("here", q, 3, 1000)
	delete(r.store.objects, "gone")
	check := func(res FetchResult) {
		t.Helper()
		var where *CorruptError
		if !errors.As(res.Err, &where) || where.Where != "gone" || where.Offset != 0 {
			t.Fatalf("error %v, want ErrCorrupt that names the object", res.Err)
		}
		if res.Bytes != 0 {
			t.Error("an offset was skipped")
		}
	}
	for range 2 {
		resp := r.fetch(p, 0, 1<<20)
		check(resp.Results[0])
		resp.Release()
	}
	if len(r.damaged) == 0 {
		t.Error("no event tells of the damage")
	}
	// Beside a partition that always has something the fetch does not wait, but it does tell.
	r.untilFails(func() error {
		resp := r.fetchAll(1<<20, FetchPartition{p, 0, 1 << 20}, FetchPartition{q, 0, 1 << 20})
		defer resp.Release()
		if got := r.offsets(resp.Results[1]); len(got) != 3 {
			t.Errorf("the other partition has %v", got)
		}
		if resp.Results[0].Err != nil {
			check(resp.Results[0])
		}
		return resp.Results[0].Err
	})
}

func TestShortenedObjectIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		p := r.partition(0)
		r.segment("short", p, 2, 1000)
		r.store.objects["short"] = r.store.objects["short"][:1500]
		first := r.fetch(p, 0, 1)
		if got := r.offsets(first.Results[0]); len(got) != 1 {
			t.Errorf("batches %v, want the one that is there", got)
		}
		first.Release()
		err := ErrUnavailable
		for i := 0; i < 10 && errors.Is(err, ErrUnavailable); i++ { // until the attempts to get the rest have ended
			resp := r.fetch(p, 1, 1<<20)
			err = resp.Results[0].Err
			resp.Release()
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("error %v, want ErrCorrupt", err)
		}
		var where *CorruptError
		if len(r.damaged) == 0 || !errors.As(r.damaged[0], &where) || where.Where != "short" || where.Offset != 1500 {
			t.Errorf("damage %v, want one that names object and position", r.damaged)
		}
	})
}

func TestObjectThatMovedIsFoundAgain(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.segment("old", p, 3, 1000)
	// A compaction has put the run into another object and the old one is gone, after the look-up.
	r.store.hook = func(_ context.Context, name string, _ int64, _ []byte) error {
		if name != "old" {
			return nil
		}
		r.index.mu.Lock()
		defer r.index.mu.Unlock()
		r.index.runs[p.id][0].Object = "new"
		r.store.put("new", r.store.objects["old"])
		return ErrNotFound
	}
	r.drain(p, 0, 1<<20)
	if len(r.damaged) > 0 {
		t.Errorf("damage was told of: %v", r.damaged)
	}
}

func TestUploadThatOvertakesAReadOfTheLogIsFound(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	batches := []recordbatch.Batch{r.next(p, 1000), r.next(p, 1000)}
	r.inLog(p, batches...)
	// The upload commits and the log is trimmed between the look at the directory and the read.
	r.log.hook = func(context.Context) error {
		r.log.hook = nil
		r.object("uploaded", blocks{p, [][]recordbatch.Batch{batches}})
		return ErrNotFound
	}
	r.drain(p, 0, 1<<20)
	if r.log.reads != 1 || r.store.count() != 1 {
		t.Errorf("%d reads of the log and %d of the store, want 1 and 1", r.log.reads, r.store.count())
	}
}

func TestRecordsThatTheLogLostAreAnError(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.inLog(p, r.next(p, 1000))
	for name, lose := range map[string]func(){
		"trimmed": func() { r.log.hook = func(context.Context) error { return ErrNotFound } },
		"empty":   func() { r.log.hook, r.log.records = nil, nil },
	} {
		lose()
		resp := r.fetch(p, 0, 1<<20)
		if err := resp.Results[0].Err; !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "fake:log") {
			t.Errorf("%s: error %v, want ErrCorrupt that names the log", name, err)
		}
		resp.Release()
	}
}

func TestHoleInTheIndexIsAnError(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.segment("one", p, 2, 1000)
	r.segment("two", p, 2, 1000)
	r.segment("three", p, 2, 1000)
	r.index.runs[p.id] = slices.Delete(r.index.runs[p.id], 1, 2)
	for range 3 { // also when it is loaded ahead and in the cache
		resp := r.fetch(p, 0, 1<<20)
		if got := r.offsets(resp.Results[0]); !slices.Equal(got, []int64{0, 1}) {
			t.Errorf("batches %v, want those before the hole", got)
		}
		resp.Release()
	}
	resp := r.fetch(p, 2, 1<<20)
	defer resp.Release()
	if err := resp.Results[0].Err; !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "offset 2") {
		t.Errorf("error %v, want ErrCorrupt that names the offset", err)
	}
}

func TestOffsetThatRetentionOvertakesIsOutOfRange(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.segment("one", p, 2, 1000)
	r.segment("two", p, 2, 1000)
	r.index.hook = func(PartitionID, int64) error {
		r.index.hook = nil
		r.index.runs[p.id] = r.index.runs[p.id][1:]
		p.mu.Lock()
		p.logStart = 2
		p.mu.Unlock()
		return nil
	}
	resp := r.fetch(p, 0, 1<<20)
	defer resp.Release()
	if err := resp.Results[0].Err; !errors.Is(err, ErrOutOfRange) {
		t.Errorf("error %v, want ErrOutOfRange", err)
	}
}

// A commit is in the index a moment before the partition knows of it.
func TestCommitThatThePartitionDoesNotKnowYetIsNoHole(t *testing.T) {
	for _, c := range []struct {
		name   string
		commit func(*readRig)
		want   error
	}{
		{"retention", func(r *readRig) { r.index.logStart = 2 }, ErrOutOfRange},
		{"deletion", func(*readRig) {}, ErrUnavailable},
	} {
		r := newReadRig(t, 16<<20)
		p := r.partition(0)
		r.segment("one", p, 2, 1000)
		delete(r.index.runs, p.id)
		c.commit(r)
		resp := r.fetch(p, 0, 1<<20)
		if err := resp.Results[0].Err; !errors.Is(err, c.want) || errors.Is(err, ErrCorrupt) || len(r.damaged) > 0 {
			t.Errorf("%s: error %v and damage %v, want %v", c.name, err, r.damaged, c.want)
		}
		resp.Release()
		r.close()
	}
}

// The log fails and is opened again between the look at the directory and the read: the new opening has the records too.
func TestReadOfALogThatIsOpenedAgainGoesOn(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	b := r.next(p, 1000)
	r.inLog(p, b)
	r.log.hook = func(context.Context) error {
		r.log.hook = nil
		p.mu.Lock()
		p.tail = nil
		old := r.s
		r.s = newSession(r.e, r.log)
		r.s.admitted, r.s.done = old.admitted, old.done
		p.s = r.s
		p.mu.Unlock()
		r.inLog(p, b)
		return ErrClosed
	}
	r.drain(p, 0, 1<<20)
}

func TestDamagedBlockIsReadAgainAndNeverServed(t *testing.T) {
	for _, c := range []struct {
		name  string
		times int64
		want  error
	}{{"once", 1, nil}, {"always", 1 << 30, ErrCorrupt}} {
		t.Run(c.name, func(t *testing.T) {
			r := newReadRig(t, 16<<20)
			defer r.close()
			p, q := r.partition(0), r.partition(1)
			r.object("one",
				blocks{q, [][]recordbatch.Batch{{r.next(q, 1000)}}},
				blocks{p, [][]recordbatch.Batch{{r.next(p, 1000)}}})
			bad := r.index.runs[p.id][0].Blocks[0]
			var flips atomic.Int64
			r.store.hook = func(_ context.Context, _ string, off int64, data []byte) error {
				if flips.Add(1) <= c.times {
					data[bad.Pos-off+100] ^= 1
				}
				return nil
			}
			resp := r.fetchAll(1<<20, FetchPartition{p, 0, 1 << 20}, FetchPartition{q, 0, 1 << 20})
			defer resp.Release()
			if err := resp.Results[0].Err; !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if got := r.offsets(resp.Results[1]); len(got) != 1 {
				t.Error("the other partition's block of the same read is missing")
			}
			if c.want == nil {
				if got := r.offsets(resp.Results[0]); len(got) != 1 || len(r.damaged) > 0 {
					t.Errorf("batches %v, damage %v", got, r.damaged)
				}
				return
			}
			var where *CorruptError
			if len(r.damaged) != 1 || !errors.As(r.damaged[0], &where) || where.Where != "one" || where.Offset != bad.Pos {
				t.Errorf("damage %v, want one that names object and position", r.damaged)
			}
		})
	}
}

// A store that answers nothing for one object holds up neither what is in memory, nor another object, nor the fetch for ever.
func TestStalledObjectHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		stalled, cold, hot := r.partition(0), r.partition(1), r.partition(2)
		r.segment("stalled", stalled, 2, 1000)
		r.segment("cold", cold, 2, 1000)
		r.tail(hot, r.next(hot, 1000))
		r.store.hook = func(ctx context.Context, name string, _ int64, _ []byte) error {
			if name == "stalled" {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(50 * time.Millisecond)
			return nil
		}
		fetch := func(ps ...*Partition) (*FetchResponse, time.Duration) {
			req := &FetchRequest{MaxBytes: 1 << 20, Timeout: 5 * time.Second}
			for _, p := range ps {
				req.Partitions = append(req.Partitions, FetchPartition{p, 0, 1 << 20})
			}
			start := time.Now()
			return r.e.Fetch(t.Context(), req), time.Since(start)
		}

		resp, took := fetch(stalled, hot)
		if len(r.offsets(resp.Results[0])) != 0 || len(r.offsets(resp.Results[1])) != 1 || took != 0 {
			t.Errorf("with something in memory: %d bytes after %v, want those at once", resp.Bytes, took)
		}
		resp.Release()

		resp, took = fetch(stalled, cold)
		if len(r.offsets(resp.Results[0])) != 0 || len(r.offsets(resp.Results[1])) != 2 || took > time.Second {
			t.Errorf("with another object: %d bytes after %v, want the other's", resp.Bytes, took)
		}
		resp.Release()

		resp, took = fetch(stalled)
		if err := resp.Results[0].Err; !errors.Is(err, ErrUnavailable) || took != 5*time.Second {
			t.Errorf("alone: %v after %v, want ErrUnavailable after the timeout", err, took)
		}
		resp.Release()
	})
}

// One partition always has news; the other's blocks come from a slow store, and from a cache that others fill meanwhile.
func TestColdPartitionIsNotStarvedByAHotOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		cold, hot := r.partition(0), r.partition(1)
		r.segment("cold", cold, 20, 100<<10)
		r.tail(hot, r.next(hot, 1000))
		r.store.hook = func(context.Context, string, int64, []byte) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		offset := int64(0)
		for fetches := 0; offset < 20; fetches++ {
			if fetches == 100 {
				t.Fatalf("at offset %d after %d fetches", offset, fetches)
			}
			start := time.Now()
			resp := r.fetchAll(1<<20, FetchPartition{cold, offset, 200 << 10}, FetchPartition{hot, 0, 1 << 20})
			if time.Since(start) > 0 {
				t.Fatal("a fetch that finds something in memory waited")
			}
			offset += int64(len(r.offsets(resp.Results[0])))
			resp.Release()
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func TestBlockLargerThanTheCacheIsServedBesideAHotPartition(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	cold, hot := r.partition(0), r.partition(1)
	r.segment("cold", cold, 2, 2500<<10)
	r.tail(hot, r.next(hot, 1000))
	offset := int64(0)
	for fetches := 0; offset < 2; fetches++ {
		if fetches == 10 {
			t.Fatalf("at offset %d after %d fetches", offset, fetches)
		}
		resp := r.fetchAll(1<<20, FetchPartition{cold, offset, 1 << 20}, FetchPartition{hot, 0, 1 << 20})
		offset += int64(len(r.offsets(resp.Results[0])))
		resp.Release()
	}
}

func TestBlockLargerThanTheCacheHoldsAnAnswerUpForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		cold, hot := r.partition(0), r.partition(1)
		r.segment("cold", cold, 1, 2500<<10)
		r.tail(hot, r.next(hot, 1000))
		r.store.hook = func(context.Context, string, int64, []byte) error {
			time.Sleep(2500 * time.Millisecond)
			return nil
		}
		for round, want := range []int{0, 0, 1} {
			start := time.Now()
			resp := r.fetchAll(4<<20, FetchPartition{cold, 0, 4 << 20}, FetchPartition{hot, 0, 1 << 20})
			got, beside := len(r.offsets(resp.Results[0])), len(r.offsets(resp.Results[1]))
			if took := time.Since(start); got != want || got+beside == 0 || took > time.Second {
				t.Errorf("round %d: %d cold and %d hot batches after %v, want %d cold", round, got, beside, took, want)
			}
			resp.Release()
		}
		if n := r.store.count(); n != 1 {
			t.Errorf("%d reads of the store, want 1", n)
		}
	})
}

// A consumer that lags on many small partitions reads few large pieces, and every partition gets its turn.
func TestManySmallColdPartitionsProgress(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	const partitions, uploads = 600, 4
	parts := make([]*Partition, partitions)
	for i := range parts {
		parts[i] = r.partition(int32(i))
	}
	for u := range uploads {
		var bundle []blocks
		for _, p := range parts {
			bundle = append(bundle, blocks{p, [][]recordbatch.Batch{{r.next(p, 700)}}})
		}
		r.object(fmt.Sprintf("bundle-%d", u), bundle...)
	}
	offsets := make(map[*Partition]int64)
	queue := slices.Clone(parts) // as sessions do: what was served goes to the back
	left := partitions * uploads
	for round := 0; left > 0; round++ {
		var ps []FetchPartition
		for _, p := range queue {
			ps = append(ps, FetchPartition{p, offsets[p], 1 << 20})
		}
		resp := r.fetchAll(300<<10, ps...)
		var served, waiting []*Partition
		for i, p := range queue {
			n := len(r.offsets(resp.Results[i]))
			offsets[p] += int64(n)
			left -= n
			if n > 0 {
				served = append(served, p)
			} else {
				waiting = append(waiting, p)
			}
		}
		resp.Release()
		if len(served) == 0 {
			t.Fatalf("round %d brought nothing, %d batches are left", round, left)
		}
		queue = append(waiting, served...)
	}
	if n := r.store.count(); n > partitions*uploads/4 {
		t.Errorf("%d reads of the store for %d blocks", n, partitions*uploads)
	}
}

func TestSequentialReaderReadsAheadInLargePieces(t *testing.T) {
	r := newReadRig(t, 128<<20)
	defer r.close()
	p := r.partition(0)
	for i := range 4 {
		r.segment(fmt.Sprintf("segment-%d", i), p, 100, 10<<10)
	}
	fetches := r.drain(p, 0, 20<<10)
	if n := r.store.count(); n > fetches/4 {
		t.Errorf("%d reads of the store in %d fetches", n, fetches)
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	seen := make(map[string]bool)
	for _, g := range r.store.gets {
		if seen[g] {
			t.Errorf("%s was read twice", g)
		}
		seen[g] = true
	}
}

func TestRandomReadsDoNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		p := r.partition(0)
		r.segment("one", p, 100, 10<<10)
		for _, offset := range []int64{10, 70, 30, 90, 50} {
			resp := r.fetch(p, offset, 12<<10)
			r.offsets(resp.Results[0])
			resp.Release()
			synctest.Wait()
		}
		c := r.e.cache
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.entries); n > 15 {
			t.Errorf("%d blocks were loaded for 5 reads of one", n)
		}
	})
}

// Whatever is asked for, memory stays within the shares.
func TestReadsKeepWithinTheirMemory(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	var parts []*Partition
	for i := range 6 {
		p := r.partition(int32(i))
		r.segment(fmt.Sprintf("one-%d", i), p, 3, 300<<10)
		r.inLog(p, r.next(p, 100<<10), r.next(p, 100<<10))
		if i == 0 {
			r.inLog(p, r.next(p, 2500<<10)) // larger than the shares
		}
		parts = append(parts, p)
	}
	c := r.e.cache
	var over atomic.Int64
	r.store.hook = func(context.Context, string, int64, []byte) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := c.bytesLocked(); n > c.limits.cache || c.loading > c.limits.reads {
			over.Store(max(n, c.loading))
		}
		return nil
	}
	var work sync.WaitGroup
	for i := range 12 {
		work.Go(func() { r.drain(parts[i%6], 0, 1<<20) })
	}
	work.Wait()
	if n := over.Load(); n > 0 {
		t.Errorf("%d bytes in cache or in flight", n)
	}
}

func TestReadOfTheLogThatFailsIsUnavailable(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.inLog(p, r.next(p, 1000))
	for _, fail := range []error{ErrUnavailable, ErrClosed, ErrPoisoned, errors.New("EIO")} {
		r.log.hook = func(context.Context) error { return fail }
		resp := r.fetch(p, 0, 1<<20)
		if err := resp.Results[0].Err; !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed) {
			t.Errorf("after %v: %v", fail, err)
		}
		resp.Release()
	}
	r.log.hook = nil
	r.drain(p, 0, 1<<20) // errors are not remembered
}

func TestOneReadOfTheLogServesAllPartitionsOfAChunk(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p, q := r.partition(0), r.partition(1)
	for range 5 {
		r.keep(p, r.next(p, 1000), false)
		r.keep(q, r.next(q, 1000), false)
	}
	p.high, q.high = p.next, q.next
	r.drain(p, 0, 1<<20)
	r.drain(q, 3, 1<<20)
	if r.log.reads != 1 {
		t.Errorf("%d reads of the log, want 1", r.log.reads)
	}
}

func BenchmarkColdScan(b *testing.B) {
	r := newReadRig(b, 64<<20)
	p := r.partition(0)
	for i := range 16 {
		r.segment(fmt.Sprintf("segment-%d", i), p, 4, 1<<20-100)
	}
	b.SetBytes(p.Size())
	b.ReportAllocs()
	for b.Loop() {
		offset := int64(0)
		for offset < p.high {
			resp := r.fetch(p, offset, 1<<20)
			offset += int64(len(resp.Results[0].Batches))
			resp.Release()
		}
	}
}

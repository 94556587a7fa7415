package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

// timed makes a batch of records with these timestamps.
func (r *readRig) timed(p *Partition, times ...int64) recordbatch.Batch {
	var records []recordbatchtest.Record
	for _, ts := range times {
		records = append(records, recordbatchtest.Record{Timestamp: ts, Value: []byte("v")})
	}
	return r.nextWith(p, records...)
}

func TestTimeIsFoundWhereverTheRecordLies(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.object("one", blocks{p, [][]recordbatch.Batch{{r.timed(p, 100, 110), r.timed(p, 120)}, {r.timed(p, 130, 125, 140)}}}) // offsets 0-5
	r.object("two", blocks{p, [][]recordbatch.Batch{{r.timed(p, 150)}, {r.timed(p, 160)}}})                                 // 6, 7
	r.inLog(p, r.timed(p, 170, 180), r.timed(p, 190))                                                                       // 8-10
	r.inLog(p, r.timed(p, 200))                                                                                             // 11
	r.tail(p, r.timed(p, 210, 205))                                                                                         // 12, 13
	r.tail(p, r.timed(p, 220))                                                                                              // 14
	for _, c := range []struct{ ts, offset, found int64 }{
		{0, 0, 100}, {100, 0, 100}, {101, 1, 110}, {111, 2, 120}, {121, 3, 130}, {131, 5, 140}, {150, 6, 150}, {151, 7, 160},
		{161, 8, 170}, {171, 9, 180}, {181, 10, 190}, {200, 11, 200}, {201, 12, 210}, {211, 14, 220}, {220, 14, 220}, {221, -1, -1},
	} {
		got, err := p.FindTime(t.Context(), c.ts)
		want := TimedOffset{Offset: c.offset, Timestamp: c.found, LeaderEpoch: 3}
		if c.offset < 0 {
			want = none
		}
		if err != nil || got != want {
			t.Errorf("time %d: %+v, %v, want %+v", c.ts, got, err, want)
		}
	}
	p.logStart = 4
	if got, err := p.FindTime(t.Context(), 0); err != nil || got.Offset != 4 {
		t.Errorf("from a log start within a batch: %+v, %v, want offset 4", got, err)
	}
	r.keep(p, r.timed(p, 500), true) // not done
	if got, err := p.FindTime(t.Context(), 500); err != nil || got != none {
		t.Errorf("a record that is not done was found: %+v, %v", got, err)
	}
	if got, err := p.MaxTimestamp(t.Context()); err != nil || got.Offset != 14 || got.Timestamp != 220 {
		t.Errorf("largest timestamp: %+v, %v, want 220 at offset 14", got, err)
	}
}

func TestLookUpByTimeReadsOneBlock(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	for i := range 50 {
		r.segment(fmt.Sprintf("segment-%d", i), p, 20, 1000) // a record's timestamp is its offset
	}
	got, err := p.FindTime(t.Context(), 777)
	if err != nil || got.Offset != 777 || r.store.count() != 1 {
		t.Errorf("%+v, %v after %d reads of the store, want offset 777 after 1", got, err, r.store.count())
	}
	if got, err := p.MaxTimestamp(t.Context()); err != nil || got.Offset != 999 || r.store.count() != 2 {
		t.Errorf("largest: %+v, %v after %d reads, want offset 999 after 2", got, err, r.store.count())
	}
}

func TestPromisedTimestampThatNoRecordHasIsPassedOver(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	lie := func(b recordbatch.Batch) recordbatch.Batch {
		b[35+5] = 1 // the largest timestamp becomes at least 65536
		return recordbatchtest.Seal(b)
	}
	r.object("one", blocks{p, [][]recordbatch.Batch{{lie(r.timed(p, 10)), r.timed(p, 20)}}})
	r.inLog(p, lie(r.timed(p, 30)), r.timed(p, 40))
	r.tail(p, lie(r.timed(p, 50)))
	r.tail(p, r.timed(p, 60))
	for ts, want := range map[int64]int64{15: 1, 25: 2, 35: 3, 45: 4, 55: 5, 61: -1} {
		if got, err := p.FindTime(t.Context(), ts); err != nil || got.Offset != want {
			t.Errorf("time %d: %+v, %v, want offset %d", ts, got, err, want)
		}
	}
}

func TestPartitionWithoutRecordsHasNoTime(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	if got, err := p.FindTime(t.Context(), 0); err != nil || got != none {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := p.MaxTimestamp(t.Context()); err != nil || got != none {
		t.Errorf("%+v, %v", got, err)
	}
	p.err = errPartitionGone
	if _, err := p.FindTime(t.Context(), 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted partition: %v", err)
	}
}

func TestLookUpByTimeSurvivesWhatOvertakesIt(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	b := r.timed(p, 10, 20)
	r.inLog(p, b)
	r.log.hook = func(context.Context) error {
		r.object("uploaded", blocks{p, [][]recordbatch.Batch{{b}}})
		return ErrNotFound
	}
	if got, err := p.FindTime(t.Context(), 15); err != nil || got.Offset != 1 {
		t.Errorf("%+v, %v, want offset 1", got, err)
	}
	q := r.partition(1)
	r.segment("gone", q, 1, 10)
	delete(r.store.objects, "gone")
	if _, err := q.FindTime(t.Context(), 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an absent object: %v, want ErrCorrupt", err)
	}
}

func TestSizeCountsObjectsAndTheTail(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	a, b, c := r.next(p, 1000), r.next(p, 2000), r.next(p, 3000)
	r.object("one", blocks{p, [][]recordbatch.Batch{{a}}})
	r.inLog(p, b)
	r.tail(p, c)
	if got, want := p.Size(), int64(len(a)+len(b)+len(c)); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

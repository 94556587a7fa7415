package producerstate_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/headpond/headpond/internal/producerstate"
)

// dup is the outcome of a duplicate whose first one got the offsets [base, last].
func dup(base, last, timestamp int64) producerstate.Outcome {
	return producerstate.Outcome{Duplicate: true, BaseOffset: base, LastOffset: last, Timestamp: timestamp}
}

func TestCheck(t *testing.T) {
	// Producer 1 in epoch 3 has batches of ten records: sequences 0 to 69 at offsets 1000 to 1069. Producer 2 has passed the
	// end of the sequences within a batch, producer 3 right at the end of one.
	table := producerstate.New(0)
	for i := range int32(7) {
		table.Append(1, 3, i*10, 10, 1000+int64(i)*10, int64(i))
	}
	table.Append(2, 0, math.MaxInt32-1, 4, 2000, 0) // MaxInt32-1, MaxInt32, 0, 1
	table.Append(3, 0, math.MaxInt32-1, 2, 3000, 0)

	for _, c := range []struct {
		name           string
		id             int64
		epoch          int16
		baseSeq, count int32
		want           producerstate.Outcome
		err            error
	}{
		{name: "next", id: 1, epoch: 3, baseSeq: 70, count: 5},
		{name: "last again", id: 1, epoch: 3, baseSeq: 60, count: 10, want: dup(1060, 1069, 6)},
		{name: "fifth last again", id: 1, epoch: 3, baseSeq: 20, count: 10, want: dup(1020, 1029, 2)},
		{name: "sixth last again", id: 1, epoch: 3, baseSeq: 10, count: 10, err: producerstate.ErrOutOfOrder},
		{name: "part of the last", id: 1, epoch: 3, baseSeq: 60, count: 5, err: producerstate.ErrOutOfOrder},
		{name: "last and more", id: 1, epoch: 3, baseSeq: 60, count: 11, err: producerstate.ErrOutOfOrder},
		{name: "gap", id: 1, epoch: 3, baseSeq: 71, count: 1, err: producerstate.ErrOutOfOrder},
		{name: "start over in the same epoch", id: 1, epoch: 3, baseSeq: 0, count: 1, err: producerstate.ErrOutOfOrder},
		{name: "older epoch", id: 1, epoch: 2, baseSeq: 70, count: 1, err: producerstate.ErrInvalidEpoch},
		{name: "older epoch, known sequences", id: 1, epoch: 2, baseSeq: 60, count: 10, err: producerstate.ErrInvalidEpoch},
		{name: "new epoch from 0", id: 1, epoch: 4, baseSeq: 0, count: 1},
		{name: "new epoch goes on", id: 1, epoch: 4, baseSeq: 70, count: 1, err: producerstate.ErrOutOfOrder},
		{name: "unknown producer from 0", id: 9, epoch: 0, baseSeq: 0, count: 1},
		{name: "unknown producer goes on", id: 9, epoch: 5, baseSeq: 1234, count: 1},
		{name: "after wrap within a batch", id: 2, epoch: 0, baseSeq: 2, count: 1},
		{name: "wrapped batch again", id: 2, epoch: 0, baseSeq: math.MaxInt32 - 1, count: 4, want: dup(2000, 2003, 0)},
		{name: "after wrap within a batch, from 0", id: 2, epoch: 0, baseSeq: 0, count: 1, err: producerstate.ErrOutOfOrder},
		{name: "wrap between batches", id: 3, epoch: 0, baseSeq: 0, count: 1},
	} {
		got, err := table.Check(c.id, c.epoch, c.baseSeq, c.count)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestNewEpochForgetsTheBatchesOfTheOld(t *testing.T) {
	table := producerstate.New(0)
	table.Append(1, 0, 0, 1, 100, 0)
	table.Append(1, 1, 0, 1, 101, 0)
	if got, err := table.Check(1, 1, 0, 1); err != nil || got != dup(101, 101, 0) {
		t.Errorf("got %+v, %v, want the batch of the new epoch", got, err)
	}
}

func TestForgottenProducerStartsAnywhereAndItsOldBatchesStayForgotten(t *testing.T) {
	table := producerstate.New(0)
	table.Append(1, 0, 0, 1, 100, 0)
	table.Append(1, 0, 50, 1, 200, 0) // passed while the producer was forgotten
	if _, err := table.Check(1, 0, 0, 1); !errors.Is(err, producerstate.ErrOutOfOrder) {
		t.Errorf("batch from before: %v, want ErrOutOfOrder", err)
	}
	if _, err := table.Check(1, 0, 51, 1); err != nil {
		t.Errorf("next batch: %v", err)
	}
}

func TestProducersExpireByTheTimeOfTheirLastBatch(t *testing.T) {
	table := producerstate.New(0)
	table.Append(1, 0, 0, 1, 0, 1000)
	table.Append(2, 0, 0, 1, 1, 1000)
	table.Append(3, 0, 0, 1, 2, 500)
	table.Append(2, 0, 1, 1, 3, 2000)
	table.Expire(1999, 1000)
	if n := table.Len(); n != 2 {
		t.Fatalf("%d producers are left, want 1 and 2", n)
	}
	table.Expire(2000, 1000)
	if n := table.Len(); n != 1 {
		t.Fatalf("%d producers are left, want 2", n)
	}
	if got, err := table.Check(2, 0, 0, 1); err != nil || got != dup(1, 1, 1000) {
		t.Errorf("producer 2: got %+v, %v, want its first batch", got, err)
	}
}

// Expire looks at the producers only when one may be old enough; that must never keep one.
func TestExpireForgetsEveryProducerThatIsOldEnoughAndNoOther(t *testing.T) {
	const maxAge = 20
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		table, last := producerstate.New(0), map[int64]int64{}
		for now := range int64(200) {
			id, timestamp := rng.Int64N(10), now-rng.Int64N(15)
			table.Append(id, 0, 0, 1, now, timestamp)
			last[id] = timestamp
			if rng.IntN(30) == 0 { // a state that was stored and read back expires as before
				var err error
				if table, err = producerstate.Decode(table.AppendTo(nil), 0); err != nil {
					t.Fatal(err)
				}
			}
			table.Expire(now, maxAge)
			for id, timestamp := range last {
				if now-timestamp >= maxAge {
					delete(last, id)
				}
			}
			if table.Len() != len(last) {
				t.Fatalf("seed %d, time %d: %d producers, want %d", seed, now, table.Len(), len(last))
			}
		}
	}
}

func TestOverTheCapTheProducerThatAppendedLongestAgoIsForgotten(t *testing.T) {
	table := producerstate.New(3)
	for i, id := range []int64{1, 2, 3, 1, 4} {
		table.Append(id, 0, int32(i), 1, int64(i), 0)
	}
	if n := table.Len(); n != 3 {
		t.Fatalf("%d producers, want 3", n)
	}
	if _, err := table.Check(2, 0, 77, 1); err != nil {
		t.Errorf("producer 2 should be unknown: %v", err)
	}
	for _, id := range []int64{1, 3, 4} {
		if _, err := table.Check(id, 0, 77, 1); !errors.Is(err, producerstate.ErrOutOfOrder) {
			t.Errorf("producer %d should be known: %v", id, err)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	table := producerstate.New(2)
	table.Append(1, 0, 0, 1, 0, 0)
	table.Append(2, 0, 0, 1, 1, 0)
	before := table.AppendTo(nil)
	clone := table.Clone()
	if !bytes.Equal(clone.AppendTo(nil), before) {
		t.Fatal("the clone differs")
	}
	clone.Append(1, 0, 1, 1, 2, 0)
	clone.Append(3, 0, 0, 1, 3, 0)
	clone.Expire(1, 0)
	if !bytes.Equal(table.AppendTo(nil), before) || clone.Len() != 0 {
		t.Error("changing the clone changed the table, or did not change the clone")
	}
}

// A history of admitted batches is cut at a random place. The snapshot derived from the one before it, and the batches
// after it, must lead to the table that saw all of them.
func TestSnapshotAndTheBatchesAfterItGiveTheSameState(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		whole, snapshot := producerstate.New(4), []byte(nil)
		stored := producerstate.New(4)
		sequences, offset := map[int64]int32{}, int64(0)
		for range rng.IntN(100) {
			id, count := rng.Int64N(6), 1+rng.Int32N(5)
			seq, known := sequences[id]
			if !known {
				seq = rng.Int32()
			}
			if out, err := whole.Check(id, 0, seq, count); err != nil || out.Duplicate {
				t.Fatalf("seed %d: %+v, %v", seed, out, err)
			}
			whole.Append(id, 0, seq, count, offset, offset)
			stored.Append(id, 0, seq, count, offset, offset)
			sequences[id] = int32((int64(seq) + int64(count)) & math.MaxInt32)
			offset += int64(count)
			if rng.IntN(8) == 0 {
				snapshot = stored.AppendTo(nil)
				var err error
				if stored, err = producerstate.Decode(snapshot, 4); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		if !bytes.Equal(stored.AppendTo(nil), whole.AppendTo(nil)) {
			t.Fatalf("seed %d: the states differ", seed)
		}
	}
}

package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/walbackends/memwal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func (r *rig) flush() {
	r.t.Helper()
	if err := r.e.Flush(r.ctx()); err != nil {
		r.t.Fatal("flush:", err)
	}
}

// Whatever moved where in between, what was appended is read back.
func TestAcknowledgedBatchesAreReadBack(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"from the tail":                         func(r *rig) {},
		"from objects":                          func(r *rig) { r.flush() },
		"after a restart":                       func(r *rig) { r.close().open() },
		"after a crash":                         func(r *rig) { r.disk.Crash(); r.close().open() },
		"after an upload and a restart":         func(r *rig) { r.flush(); r.close().open() },
		"after the index was lost":              func(r *rig) { r.close(); r.fs = vfs.NewMem(); r.open() },
		"after an upload and a lost index":      func(r *rig) { r.flush(); r.close(); r.fs = vfs.NewMem(); r.open() },
		"after two restarts and a lost index":   func(r *rig) { r.close().open(); r.flush(); r.close(); r.fs = vfs.NewMem(); r.open() },
		"after the log failed under the engine": func(r *rig) { r.failLog() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).open()
			r.fill(r.partition(r.topic("a", 2), 1), 0, 50, 100)
			between(r)
			p := r.partition(r.topic("a", 2), 1)
			r.expect(p, 0, 50)
			r.fill(p, 50, 50, 100)
			r.expect(p, 0, 100)
			between(r)
			r.expect(r.partition(r.topic("a", 2), 1), 0, 100)
		})
	}
}

// failLog makes the log fail under the engine and waits until it is open again. What was in flight then is unknown.
func (r *rig) failLog() {
	r.t.Helper()
	p := r.partition(r.topic("sacrifice", 1), 0)
	r.disk.FailNext(errors.New("injected"))
	if a := <-r.append(p, batch(0, 1, 10)); !errors.Is(a.Err, engine.ErrUnavailable) {
		r.t.Fatalf("append to a failing log: %v", a.Err)
	}
	r.reopened()
}

func TestIndexOfAnEarlierDayIsBroughtUp(t *testing.T) {
	r := newRig(t).open()
	tp := r.topic("a", 1)
	r.fill(r.partition(tp, 0), 0, 20, 1000)
	r.flush()
	r.close()
	old := copyFS(t, r.fs)
	r.open()
	r.topic("b", 3)
	r.fill(r.partition(r.topic("a", 1), 0), 20, 20, 1000)
	r.flush()
	if _, err := r.partition(tp, 0).DeleteRecords(r.ctx(), 5); err != nil {
		t.Fatal(err)
	}
	r.close()
	r.fs = old
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	if got := r.read(p, 5); len(got) != 35 || got[0] != "5/0" {
		t.Fatalf("%d records, first %q", len(got), got[:1])
	}
	if o, _ := p.Offsets(); o.LogStart != 5 || o.HighWatermark != 40 {
		t.Fatalf("offsets %+v", o)
	}
	if _, err := r.e.Topic("b"); err != nil {
		t.Fatal(err)
	}
}

// The log is trimmed, so index and batches come from objects alone.
func TestTrimmedLogAndLostIndexLoseNothing(t *testing.T) {
	r := newRig(t)
	r.disk = memwal.New(memwal.Options{Capacity: 4 << 20})
	r.options = func(o *engine.Options) { o.UploadBytes = 256 << 10 }
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	r.fill(p, 0, 200, 64<<10) // three times the log
	r.flush()
	r.close()
	r.fs = vfs.NewMem()
	r.open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 200)
}

func TestDuplicateOfTheLastFiveBatchesGetsItsFirstOffset(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"at once":                  func(*rig) {},
		"after a restart":          func(r *rig) { r.close().open() },
		"after an upload":          func(r *rig) { r.flush(); r.close().open() },
		"after the index was lost": func(r *rig) { r.flush(); r.close(); r.fs = vfs.NewMem(); r.open() },
		"after the log failed":     func(r *rig) { r.failLog() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).open()
			p := r.partition(r.topic("a", 1), 0)
			for seq := range 8 {
				r.must(p, idempotent(7, 0, int32(seq)))
			}
			between(r)
			p = r.partition(r.topic("a", 1), 0)
			for seq := 3; seq < 8; seq++ {
				a := <-r.append(p, idempotent(7, 0, int32(seq)))
				if a.Err != nil || a.BaseOffset != int64(seq) || !a.Duplicate {
					t.Fatalf("sequence %d again: %+v", seq, a)
				}
			}
			if a := <-r.append(p, idempotent(7, 0, 9)); !errors.Is(a.Err, engine.ErrOutOfOrderSequence) {
				t.Fatalf("a gap: %v", a.Err)
			}
			if a := <-r.append(p, idempotent(7, 1, 0)); a.Err != nil || a.BaseOffset != 8 {
				t.Fatalf("a new epoch: %+v", a)
			}
			if a := <-r.append(p, idempotent(7, 0, 8)); !errors.Is(a.Err, engine.ErrProducerFenced) {
				t.Fatalf("an old epoch: %v", a.Err)
			}
			r.expect0(p, 9)
		})
	}
}

func (r *rig) expect0(p *engine.Partition, n int) {
	r.t.Helper()
	if got := r.read(p, 0); len(got) != n {
		r.t.Fatalf("%d records, want %d", len(got), n)
	}
}

// A duplicate of a batch that is not durable yet must not be acknowledged before it.
func TestDuplicateOfAPendingBatchWaitsForIt(t *testing.T) {
	r := newRig(t).open()
	p := r.partition(r.topic("a", 1), 0)
	release := r.disk.Stall()
	first := r.append(p, idempotent(7, 0, 0))
	again := r.append(p, idempotent(7, 0, 0))
	select {
	case a := <-again:
		t.Fatalf("answered before the first copy was done: %+v", a)
	default:
	}
	release()
	if a := <-first; a.Err != nil || a.Duplicate {
		t.Fatalf("first: %+v", a)
	}
	if a := <-again; a.Err != nil || !a.Duplicate || a.BaseOffset != 0 {
		t.Fatalf("again: %+v", a)
	}
}

func TestNothingIsAcknowledgedAfterAFailedWrite(t *testing.T) {
	r := newRig(t).open()
	p := r.partition(r.topic("a", 1), 0)
	r.fill(p, 0, 3, 10)
	release := r.disk.Stall()
	r.disk.FailNext(errors.New("injected"))
	var inFlight []<-chan engine.Appended
	for i := range 20 {
		inFlight = append(inFlight, r.append(p, batch(100+i, 1, 10)))
	}
	release()
	for i, c := range inFlight {
		if a := <-c; a.Err == nil {
			t.Fatalf("batch %d acknowledged at %d", i, a.BaseOffset)
		}
	}
	r.reopened()
	r.fill(p, 3, 3, 10)
	r.expect(p, 0, 6)
}

func TestLeaderEpochOnlyGrowsAndComesBack(t *testing.T) {
	r := newRig(t).open()
	epochs := func() (es []int32) {
		o, err := r.partition(r.topic("a", 1), 0).Offsets()
		if err != nil {
			t.Fatal(err)
		}
		return []int32{o.LeaderEpoch}
	}
	var seen []int32
	for round := range 3 {
		seen = append(seen, epochs()...)
		r.fill(r.partition(r.topic("a", 1), 0), round, 1, 10)
		r.flush()
		r.close()
		r.fs = vfs.NewMem()
		r.open()
	}
	if fmt.Sprint(seen) != "[0 1 2]" {
		t.Fatalf("epochs %v", seen)
	}
	p := r.partition(r.topic("a", 1), 0)
	for epoch, want := range []engine.EpochEnd{{Epoch: 0, End: 1}, {Epoch: 1, End: 2}, {Epoch: 2, End: 3}, {Epoch: 3, End: 3}, {Epoch: -1, End: -1}} {
		if got, err := p.EpochEnd(int32(epoch)); err != nil || got != want {
			t.Errorf("end of epoch %d: %+v, %v; want %+v", epoch, got, err, want)
		}
	}
}

func TestDeletedTopicLeavesNothingToItsSuccessor(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"at once":                  func(*rig) {},
		"after a restart":          func(r *rig) { r.close().open() },
		"after an upload":          func(r *rig) { r.flush(); r.close().open() },
		"after the index was lost": func(r *rig) { r.flush(); r.close(); r.fs = vfs.NewMem(); r.open() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).open()
			old := r.topic("a", 1)
			p := r.partition(old, 0)
			r.fill(p, 0, 10, 100)
			if name == "after an upload" {
				r.flush()
			}
			r.fill(p, 10, 10, 100)
			if err := r.e.DeleteTopic(r.ctx(), old); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Offsets(); !errors.Is(err, engine.ErrNotFound) {
				t.Fatalf("the handle of a deleted partition: %v", err)
			}
			between(r)
			if _, err := r.e.Topic("a"); !errors.Is(err, engine.ErrNotFound) {
				t.Fatalf("the topic is back: %v", err)
			}
			p = r.partition(r.topic("a", 1), 0)
			r.expect0(p, 0)
			r.fill(p, 100, 5, 10)
			between(r)
			r.expect(r.partition(r.topic("a", 1), 0), 100, 5)
		})
	}
}

func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	r := newRig(t).open()
	seen := make(map[int64]bool)
	for round := range 4 {
		for range 1500 {
			id, err := r.e.ProducerID(r.ctx())
			if err != nil {
				t.Fatal(err)
			}
			if seen[id] {
				t.Fatalf("producer id %d again in round %d", id, round)
			}
			seen[id] = true
		}
		r.close()
		if round%2 == 1 {
			r.fs = vfs.NewMem()
		}
		r.open()
	}
}

// Parts that do not belong together are refused by name, and nothing is written to any of them.
func TestStrangersAreRefused(t *testing.T) {
	other := newRig(t).open()
	other.fill(other.partition(other.topic("x", 1), 0), 0, 1, 10)
	other.flush()
	other.close()
	for name, c := range map[string]struct {
		change func(*rig)
		want   error
	}{
		"log absent, index there":     {func(r *rig) { r.disk = memwal.New(memwal.Options{}) }, engine.ErrNotFound},
		"log absent, index lost":      {func(r *rig) { r.disk = memwal.New(memwal.Options{}); r.fs = vfs.NewMem() }, engine.ErrNotFound},
		"another's log":               {func(r *rig) { r.disk = other.disk }, engine.ErrInvalid},
		"another's log, index lost":   {func(r *rig) { r.disk = other.disk; r.fs = vfs.NewMem() }, engine.ErrInvalid},
		"another's objects":           {func(r *rig) { r.bucket = other.bucket }, engine.ErrInvalid},
		"objects gone, index there":   {func(r *rig) { r.bucket = new(memobj.Bucket) }, engine.ErrInvalid},
		"trimmed log without objects": {func(r *rig) { r.bucket = new(memobj.Bucket); r.fs = vfs.NewMem() }, engine.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.disk = memwal.New(memwal.Options{Capacity: 1 << 20})
			r.options = func(o *engine.Options) { o.UploadBytes = 64 << 10 }
			r.open()
			r.fill(r.partition(r.topic("a", 1), 0), 0, 100, 16<<10)
			r.flush()
			r.close()
			objects, bytes := r.bucket.Size()
			was := *r
			c.change(r)
			if e, err := r.try(); err == nil {
				e.Close(r.ctx())
				t.Fatal("started")
			} else if !errors.Is(err, c.want) {
				t.Fatalf("%v; want %v", err, c.want)
			}
			if o, b := was.bucket.Size(); o != objects || b != bytes {
				t.Errorf("the bucket went from %d objects, %d bytes to %d, %d", objects, bytes, o, b)
			}
			*r = was
			r.open()
			r.expect(r.partition(r.topic("a", 1), 0), 0, 100)
		})
	}
}

func TestChangedLogIsDrainedFirst(t *testing.T) {
	r := newRig(t).open()
	r.fill(r.partition(r.topic("a", 1), 0), 0, 30, 1000)
	r.close()
	old := r.disk
	r.disk = memwal.New(memwal.Options{Capacity: 8 << 20})
	r.options = func(o *engine.Options) {
		o.WALURL = "mem:other"
		o.OpenRegisteredWAL = func(url string) (engine.WALOpener, error) { return durable(old), nil }
	}
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	r.expect(p, 0, 30)
	r.fill(p, 30, 30, 1000)
	r.close()
	r.options = func(o *engine.Options) { o.WALURL = "mem:other" }
	r.fs = vfs.NewMem()
	r.open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 60)
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/walbackends/memwal"
)

// Records that are deleted before they were uploaded still say which sequence numbers were taken and which leader epochs there were.
func TestDeletedRecordsLeaveProducersAndEpochsBehind(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"after a restart":             func(r *rig) { r.close().open() },
		"after two restarts":          func(r *rig) { r.close().open(); r.close().open() },
		"after an upload":             func(r *rig) { r.flush(); r.close().open() },
		"uploaded after a restart":    func(r *rig) { r.close().open(); r.flush(); r.close().open() },
		"after the index was lost":    func(r *rig) { r.close(); r.fs = vfs.NewMem(); r.open() },
		"uploaded after a lost index": func(r *rig) { r.close(); r.fs = vfs.NewMem(); r.open(); r.flush(); r.close().open() },
		"after the log failed":        func(r *rig) { r.failLog() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).open()
			var last int32
			for round := range 3 {
				p := r.partition(r.topic("a", 1), 0)
				for seq := range 3 {
					r.must(p, idempotent(7, 0, int32(3*round+seq)))
				}
				if start, err := p.DeleteRecords(r.ctx(), -1); err != nil || start != int64(3*round+3) {
					t.Fatalf("log start %d, %v", start, err)
				}
				between(r)
				o, err := r.partition(r.topic("a", 1), 0).Offsets()
				if err != nil {
					t.Fatal(err)
				}
				if o.HighWatermark != int64(3*round+3) || o.LogStart != o.HighWatermark || o.LeaderEpoch <= last {
					t.Fatalf("round %d: %+v after leader epoch %d", round, o, last)
				}
				last = o.LeaderEpoch
			}
			p := r.partition(r.topic("a", 1), 0)
			for seq := 5; seq < 9; seq++ {
				if a := <-r.append(p, idempotent(7, 0, int32(seq))); a.Err != nil || !a.Duplicate || a.BaseOffset != int64(seq) {
					t.Fatalf("sequence %d again: %+v", seq, a)
				}
			}
			if a := <-r.append(p, idempotent(7, 0, 9)); a.Err != nil || a.Duplicate || a.BaseOffset != 9 {
				t.Fatalf("the next one: %+v", a)
			}
			if a := <-r.append(p, idempotent(7, 0, 11)); !errors.Is(a.Err, engine.ErrOutOfOrderSequence) {
				t.Fatalf("a gap: %+v", a)
			}
		})
	}
}

// migrate changes the rig's log to a new one.
func (r *rig) migrate(n int) {
	r.t.Helper()
	old := r.disk
	r.disk = memwal.New(memwal.Options{Capacity: 8 << 20})
	r.options = func(o *engine.Options) {
		o.WALURL = fmt.Sprint("mem:", n)
		o.OpenRegisteredWAL = func(url string) (engine.WALOpener, error) { return durable(old), nil }
	}
	r.open()
}

// An index from before the log was changed lacks commits that no log holds any more.
func TestIndexOfAnEarlierLogIsBroughtUp(t *testing.T) {
	r := newRig(t).open()
	n := 0
	more := func() {
		r.fill(r.partition(r.topic("a", 1), 0), n, 10, 100)
		n += 10
	}
	more()
	r.flush()
	r.close()
	copies := []*vfs.MemFS{vfs.NewMem(), copyFS(t, r.fs)}
	for round := range 2 {
		r.open()
		more()
		r.close()
		r.migrate(round)
		more()
		r.flush()
		more()
		r.close()
		copies = append(copies, copyFS(t, r.fs))
	}
	for _, fs := range copies {
		r.fs = fs
		r.open()
		r.expect(r.partition(r.topic("a", 1), 0), 0, n)
		r.close().open()
		r.expect(r.partition(r.topic("a", 1), 0), 0, n)
		more()
		r.close()
	}
}

// The log of a write that is stuck stays held for a while after the engine gave it up.
func TestLogThatIsStillHeldIsOpenedLater(t *testing.T) {
	r := newRig(t)
	held := 0
	r.options = func(o *engine.Options) {
		open := o.OpenWAL
		o.OpenWAL = openerFunc(open, func() error {
			if held == 0 {
				return nil
			}
			held--
			return fmt.Errorf("%w: held by a write that has not returned", engine.ErrFenced)
		})
	}
	r.open()
	r.fill(r.partition(r.topic("a", 1), 0), 0, 3, 10)
	r.topic("sacrifice", 1)
	held = 3
	r.failLog()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 3)
}

// openerFunc asks first before each opening.
func openerFunc(open engine.WALOpener, first func() error) engine.WALOpener {
	return func(ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		if err := first(); err != nil {
			return nil, err
		}
		return open(ctx, o)
	}
}

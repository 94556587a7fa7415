package index_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
)

// Random commits, some of them invalid, go to the index and to the model. After each, both hold the same; the index is
// closed and opened again now and then.
func TestIndexHoldsWhatTheModelHolds(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			h := newHistory(seed)
			h.large = true
			o := index.Options{FS: vfs.NewMem(), MemTableBytes: 64 << 10}
			ix := mustOpen(t, "index", o)
			if err := ix.Reset(ctx, cluster, wal); err != nil {
				t.Fatal(err)
			}
			for n := range 70 {
				if h.rng.IntN(10) == 0 {
					bad := spoil(h)
					if err := ix.Apply(ctx, bad, bad.Sum()); !errors.Is(err, engine.ErrInvalid) {
						t.Fatalf("index takes %+v: %v, want ErrInvalid", bad, err)
					}
					if err := h.mem.Apply(ctx, bad, bad.Sum()); !errors.Is(err, engine.ErrInvalid) {
						t.Fatalf("model takes %+v: %v, want ErrInvalid", bad, err)
					}
				}
				mustApply(t, ix, h.step())
				switch h.rng.IntN(12) {
				case 0:
					if err := ix.Sync(ctx); err != nil {
						t.Fatal(err)
					}
				case 1:
					mustClose(t, ix)
					ix = mustOpen(t, "index", o)
				case 2:
					other := engine.ID{0xa1, byte(n)}
					for _, i := range []engine.Index{ix, h.mem} {
						if err := i.SetWAL(ctx, other); err != nil {
							t.Fatal(err)
						}
					}
				}
				if n%5 == 0 {
					compare(t, fmt.Sprintf("after commit %d", n+1), ix, h.mem)
				}
				pointReads(t, ix, h.mem, h.partition())
			}
			if err := ix.Reset(ctx, engine.ID{1}, engine.ID{2}); err != nil {
				t.Fatal(err)
			}
			empty := index.NewMem()
			if err := empty.Reset(ctx, engine.ID{1}, engine.ID{2}); err != nil {
				t.Fatal(err)
			}
			compare(t, "after reset", ix, empty)
			mustClose(t, ix)
		})
	}
}

// spoil makes a commit that breaks one rule.
func spoil(h *history) *engine.Commit {
	c := h.next()
	c.Dropped, c.LogStarts = nil, nil
	p := engine.PartitionID{Topic: engine.ID{0xff}}
	run := func(first, last int64) engine.Run {
		return engine.Run{PartitionID: p, FirstOffset: first, LastOffset: last, Blocks: []engine.Block{{Len: 1, FirstOffset: first, LastOffset: last}}}
	}
	add := func(name string, runs ...engine.Run) {
		c.Added = append(c.Added, engine.Object{Name: name, Runs: runs})
	}
	switch h.rng.IntN(8) {
	case 0:
		c.Seq++
	case 1:
		c.Prev++
	case 2:
		add("twice")
		add("twice")
	case 3:
		add("overlap", run(0, 9), run(9, 10))
	case 4:
		add("backwards", run(5, 4))
	case 5:
		r := run(0, 9)
		r.Blocks = nil
		add("no blocks", r)
	case 6:
		add("live", run(0, 9))
		c.Deleted = append(c.Deleted, "live")
	case 7:
		add("")
	}
	return c
}

func TestClosedIndexSaysSo(t *testing.T) {
	ctx := context.Background()
	for name, ix := range map[string]engine.Index{"index": mustOpen(t, "index", index.Options{FS: vfs.NewMem()}), "mem": index.NewMem()} {
		if st, err := ix.State(); err != nil || st != (engine.IndexState{}) {
			t.Errorf("%s: new index has state %+v, %v", name, st, err)
		}
		mustClose(t, ix)
		mustClose(t, ix)
		c := &engine.Commit{Seq: 1}
		_, stateErr := ix.State()
		_, runErr := ix.Run(engine.PartitionID{}, 0)
		_, partitionErr := ix.Partition(engine.PartitionID{})
		for call, err := range map[string]error{
			"State": stateErr, "Run": runErr, "Partition": partitionErr,
			"Apply": ix.Apply(ctx, c, c.Sum()), "Sync": ix.Sync(ctx), "Reset": ix.Reset(ctx, cluster, wal), "SetWAL": ix.SetWAL(ctx, wal),
			"Runs":       ix.Runs(engine.PartitionID{}, 0, func(engine.Run) bool { return true }),
			"Partitions": ix.Partitions(func(engine.PartitionID, engine.PartitionState) bool { return true }),
			"Meta":       ix.Meta("", func(engine.MetaChange) bool { return true }),
			"Objects":    ix.Objects(func(engine.ObjectState) bool { return true }),
		} {
			if !errors.Is(err, engine.ErrClosed) {
				t.Errorf("%s: %s after Close: %v", name, call, err)
			}
		}
	}
}

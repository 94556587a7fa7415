package index_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
)

var (
	cluster = engine.ID{0xc1}
	wal     = engine.ID{0xa1}
)

// history makes random commits, each valid after the ones before it, and knows what an index holds after each.
type history struct {
	rng    *rand.Rand
	mem    *index.Mem
	object int
	states []*index.Mem // states[n]: after n commits
	all    []*engine.Commit
	large  bool // some commits are larger than a small memory table
}

func newHistory(seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 1)), mem: index.NewMem()}
	if err := h.mem.Reset(context.Background(), cluster, wal); err != nil {
		panic(err)
	}
	h.states = append(h.states, h.mem.Clone())
	return h
}

func (h *history) partition() engine.PartitionID {
	return engine.PartitionID{Topic: engine.ID{byte(h.rng.IntN(3))}, Partition: h.rng.Int32N(4)}
}

func (h *history) end(p engine.PartitionID) int64 {
	st, err := h.mem.Partition(p)
	if err != nil {
		panic(err)
	}
	return st.End
}

func (h *history) run(p engine.PartitionID, first int64) engine.Run {
	r := engine.Run{PartitionID: p, FirstOffset: first, MaxTimestamp: h.rng.Int64N(1e6) - 1}
	for range 1 + h.rng.IntN(3) {
		last := first + h.rng.Int64N(20)
		r.Blocks = append(r.Blocks, engine.Block{
			Pos: h.rng.Int64(), Len: 1 + h.rng.Int32N(1000), FirstOffset: first, LastOffset: last,
			MaxTimestamp: h.rng.Int64N(1e6) - 1, Sum: h.rng.Uint32(),
		})
		r.LastOffset, first = last, last+1
	}
	return r
}

// next makes a commit that follows what was made before, without applying it.
func (h *history) next() *engine.Commit {
	st, _ := h.mem.State()
	c := &engine.Commit{Seq: st.Seq + 1, Prev: st.Sum, WAL: wal, Epoch: 1}
	if h.rng.IntN(2) == 0 {
		c.Through = engine.Position(h.rng.IntN(1000))
	}
	ends := map[engine.PartitionID]int64{}
	for range h.rng.IntN(3) {
		h.object++
		o := engine.Object{Name: fmt.Sprintf("%02x/object-%d", h.object*37%256, h.object), Size: h.rng.Int64N(1e9)}
		for range h.rng.IntN(4) {
			p := h.partition()
			if _, ok := ends[p]; !ok {
				ends[p] = h.end(p)
			}
			r := h.run(p, ends[p]+h.rng.Int64N(2)*h.rng.Int64N(3))
			r.Object = o.Name
			ends[p] = r.LastOffset + 1
			o.Runs = append(o.Runs, r)
		}
		c.Added = append(c.Added, o)
	}
	for range h.rng.IntN(3) {
		p := h.partition()
		c.LogStarts = append(c.LogStarts, engine.LogStart{PartitionID: p, Offset: h.rng.Int64N(h.end(p) + 10)})
	}
	if h.rng.IntN(8) == 0 {
		c.Dropped = append(c.Dropped, h.partition())
	}
	for range h.rng.IntN(3) {
		s := engine.ProducerSnapshot{PartitionID: h.partition(), Offset: h.rng.Int64N(1000)}
		if n := h.rng.IntN(30); n > 0 {
			s.State = make([]byte, n)
			s.State[0] = byte(n)
		}
		c.Producers = append(c.Producers, s)
	}
	if h.large && h.rng.IntN(10) == 0 {
		c.Producers = append(c.Producers, engine.ProducerSnapshot{PartitionID: h.partition(), State: make([]byte, 40<<10)})
	}
	for range h.rng.IntN(2) {
		p := h.partition()
		c.Epochs = append(c.Epochs, engine.EpochStart{PartitionID: p, Epoch: h.rng.Int32N(20), Offset: h.end(p)})
	}
	for range h.rng.IntN(3) {
		m := engine.MetaChange{Key: fmt.Sprintf("k/%d", h.rng.IntN(10)), Rev: c.Seq}
		if h.rng.IntN(3) > 0 {
			m.Value = make([]byte, h.rng.IntN(20))
		}
		c.Meta = append(c.Meta, m)
	}
	_ = h.mem.Objects(func(o engine.ObjectState) bool {
		if o.Live == 0 && h.rng.IntN(2) == 0 {
			c.Deleted = append(c.Deleted, o.Name)
		}
		return true
	})
	// What an earlier section of the commit would make live may be in the list of none: deleted objects have no live run.
	return c
}

// step makes the next commit and applies it to the model.
func (h *history) step() *engine.Commit {
	c := h.next()
	if err := h.mem.Apply(context.Background(), c, c.Sum()); err != nil {
		panic(fmt.Sprintf("commit %+v: %v", c, err))
	}
	h.all = append(h.all, c)
	h.states = append(h.states, h.mem.Clone())
	return c
}

// contents is all that an index holds.
type contents struct {
	State      engine.IndexState
	Partitions map[engine.PartitionID]engine.PartitionState
	Runs       map[engine.PartitionID][]engine.Run
	Objects    []engine.ObjectState
	Meta       []engine.MetaChange
}

func dump(ix engine.Index) (c contents, err error) {
	if c.State, err = ix.State(); err != nil {
		return c, err
	}
	c.Partitions, c.Runs = map[engine.PartitionID]engine.PartitionState{}, map[engine.PartitionID][]engine.Run{}
	err = ix.Partitions(func(p engine.PartitionID, st engine.PartitionState) bool {
		c.Partitions[p] = st
		return true
	})
	for p := range c.Partitions {
		if err == nil {
			err = ix.Runs(p, 0, func(r engine.Run) bool {
				c.Runs[p] = append(c.Runs[p], r)
				return true
			})
		}
	}
	if err == nil {
		err = ix.Objects(func(o engine.ObjectState) bool {
			c.Objects = append(c.Objects, o)
			return true
		})
	}
	if err == nil {
		err = ix.Meta("", func(m engine.MetaChange) bool {
			c.Meta = append(c.Meta, m)
			return true
		})
	}
	return c, err
}

// compare reports where an index differs from the model.
func compare(t testing.TB, what string, got, want engine.Index) {
	t.Helper()
	g, err := dump(got)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	w, err := dump(want)
	if err != nil {
		t.Fatalf("%s: model: %v", what, err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Fatalf("%s: got\n%+v, want\n%+v", what, g, w)
	}
}

func mustOpen(t testing.TB, dir string, o index.Options) *index.Index {
	t.Helper()
	ix, err := index.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

func mustClose(t testing.TB, ix engine.Index) {
	t.Helper()
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustApply(t testing.TB, ix engine.Index, c *engine.Commit) {
	t.Helper()
	if err := ix.Apply(context.Background(), c, c.Sum()); err != nil {
		t.Fatal(err)
	}
}

// pointReads compares the reads of one partition at and around every boundary of its runs.
func pointReads(t testing.TB, got, want engine.Index, p engine.PartitionID) {
	t.Helper()
	offsets := []int64{-1, 0}
	_ = want.Runs(p, 0, func(r engine.Run) bool {
		offsets = append(offsets, r.FirstOffset-1, r.FirstOffset, r.LastOffset, r.LastOffset+1)
		return true
	})
	slices.Sort(offsets)
	for _, o := range slices.Compact(offsets) {
		g, gErr := got.Run(p, o)
		w, wErr := want.Run(p, o)
		if !reflect.DeepEqual(g, w) || errors.Is(gErr, engine.ErrNotFound) != errors.Is(wErr, engine.ErrNotFound) || (gErr == nil) != (wErr == nil) {
			t.Fatalf("run of %v at %d: got %+v, %v, want %+v, %v", p, o, g, gErr, w, wErr)
		}
	}
	g, gErr := got.Partition(p)
	w, wErr := want.Partition(p)
	if !reflect.DeepEqual(g, w) || gErr != nil || wErr != nil {
		t.Fatalf("partition %v: got %+v, %v, want %+v, %v", p, g, gErr, w, wErr)
	}
}

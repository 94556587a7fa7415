package index_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
)

// crash is a file system as it may be found after a crash, and how many commits must be in its index at least; -1 stands
// for an index that need not be bound yet.
type crash struct {
	what string
	fs   *vfs.MemFS
	min  int
}

// crashes collects one at each change of a file system. What was not synced is lost at every second, and part of it is
// kept at the others.
type crashes struct {
	mem  *vfs.MemFS
	rng  *rand.Rand
	min  int // written between calls of the hook only, under the hook's lock
	list []crash
}

func (c *crashes) hook(op, name string) error {
	cfg := vfs.CrashCloneCfg{}
	if len(c.list)%2 == 1 {
		cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: c.rng}
	}
	c.list = append(c.list, crash{what: fmt.Sprintf("%d: before %s %s", len(c.list), op, name), fs: c.mem.CrashClone(cfg), min: c.min})
	return nil
}

// check opens the index and compares it with what the model held at the same commit.
func (c crash) check(t *testing.T, h *history, fs vfs.FS) *index.Index {
	t.Helper()
	ix, err := index.Open("index", index.Options{FS: fs, MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatalf("crash %s: %v", c.what, err)
	}
	got, err := dump(ix)
	if err != nil {
		t.Fatalf("crash %s: %v", c.what, err)
	}
	want := contents{Partitions: map[engine.PartitionID]engine.PartitionState{}, Runs: map[engine.PartitionID][]engine.Run{}}
	seq := -1
	if got.State.Cluster != (engine.ID{}) {
		seq = int(got.State.Seq)
		if want, err = dump(h.states[seq]); err != nil {
			t.Fatal(err)
		}
	}
	if seq < c.min || !reflect.DeepEqual(got, want) {
		t.Fatalf("crash %s: index of commit %d, at least %d was durable; got\n%+v, want\n%+v", c.what, seq, c.min, got, want)
	}
	return ix
}

func TestCrashAtAnyWriteLeavesTheStateAfterSomeCommit(t *testing.T) {
	ctx := t.Context()
	h := newHistory(1)
	h.large = true
	mem := vfs.NewCrashableMem()
	fs := &hookFS{FS: mem}
	c := &crashes{mem: mem, rng: rand.New(rand.NewPCG(2, 3)), min: -1}
	durable := func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		c.min = len(h.all)
	}
	fs.setHook(c.hook)
	o := index.Options{FS: fs, MemTableBytes: 64 << 10}
	ix := mustOpen(t, "index", o)
	if err := ix.Reset(ctx, cluster, wal); err != nil {
		t.Fatal(err)
	}
	durable()
	for range 2 {
		for n := range 36 {
			mustApply(t, ix, h.step())
			if n%4 == 3 { // nine tables, so that some are merged
				if err := ix.Sync(ctx); err != nil {
					t.Fatal(err)
				}
				durable()
			}
		}
		mustClose(t, ix)
		durable()
		ix = mustOpen(t, "index", o)
	}
	mustClose(t, ix)

	t.Logf("%d crashes", len(c.list))
	for i, first := range c.list {
		// Every 25th is opened on a file system that crashes at each of its writes once more.
		if i%25 != 3 {
			continue
		}
		fs := &hookFS{FS: first.fs.CrashClone(vfs.CrashCloneCfg{})}
		second := &crashes{mem: fs.FS.(*vfs.MemFS), rng: rand.New(rand.NewPCG(uint64(i), 5)), min: first.min}
		fs.setHook(second.hook)
		mustClose(t, first.check(t, h, fs))
		for j, s := range second.list {
			if j%3 == i%3 {
				s.what = first.what + ", then " + s.what
				mustClose(t, s.check(t, h, s.fs))
			}
		}
	}
	for i, first := range c.list {
		if i%5 > 1 { // one of each kind, and not always at the same kind of change
			continue
		}
		ix := first.check(t, h, first.fs)
		if i%16 == 0 && first.min >= 0 { // what was lost is applied again
			st, err := ix.State()
			if err != nil {
				t.Fatal(err)
			}
			for _, again := range h.all[st.Seq:] {
				mustApply(t, ix, again)
			}
			compare(t, first.what, ix, h.mem)
		}
		mustClose(t, ix)
	}
}

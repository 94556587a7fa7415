package index_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
)

// filled is an index on disk with runs of a thousand offsets each, spread over partitions.
func filled(b *testing.B, partitions, runs int) *index.Index {
	b.Helper()
	ctx := context.Background()
	ix := mustOpen(b, b.TempDir()+"/index", index.Options{})
	b.Cleanup(func() { mustClose(b, ix) })
	if err := ix.Reset(ctx, cluster, wal); err != nil {
		b.Fatal(err)
	}
	ends := make([]int64, partitions)
	for done := 0; done < runs; {
		st, err := ix.State()
		if err != nil {
			b.Fatal(err)
		}
		c := &engine.Commit{Seq: st.Seq + 1, Prev: st.Sum}
		o := engine.Object{Name: fmt.Sprintf("%02x/c1000000000000000000000000000000/a1000000000000000000000000000000/0000000000000001-%016x-0000.bundle", done%251, done)}
		for p := range ends {
			o.Runs = append(o.Runs, benchRun(p, ends[p]))
			ends[p] += 1000
			done++
		}
		c.Added = append(c.Added, o)
		mustApply(b, ix, c)
	}
	if err := ix.Sync(ctx); err != nil {
		b.Fatal(err)
	}
	return ix
}

func benchPartition(p int) engine.PartitionID {
	return engine.PartitionID{Topic: engine.ID{byte(p % 16)}, Partition: int32(p)}
}

func benchRun(p int, first int64) engine.Run {
	return engine.Run{
		PartitionID: benchPartition(p), FirstOffset: first, LastOffset: first + 999, MaxTimestamp: first,
		Blocks: []engine.Block{{Pos: first, Len: 1 << 18, FirstOffset: first, LastOffset: first + 999, MaxTimestamp: first}},
	}
}

func BenchmarkRunAmong100000(b *testing.B) {
	const partitions, runs = 100, 100_000
	ix := filled(b, partitions, runs)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		p, offset := rand.IntN(partitions), rand.Int64N(runs/partitions*1000)
		r, err := ix.Run(benchPartition(p), offset)
		if err != nil || r.FirstOffset > offset || r.LastOffset < offset {
			b.Fatal(r, err)
		}
	}
}

// A commit of a run in each of a thousand partitions, made durable.
func BenchmarkApplyAndSync1000Runs(b *testing.B) {
	ctx := context.Background()
	ix := filled(b, 1000, 1000)
	b.ResetTimer()
	for i := range b.N {
		st, err := ix.State()
		if err != nil {
			b.Fatal(err)
		}
		c := &engine.Commit{Seq: st.Seq + 1, Prev: st.Sum}
		o := engine.Object{Name: fmt.Sprintf("bench-%d", i)}
		for p := range 1000 {
			o.Runs = append(o.Runs, benchRun(p, int64(i+1)*1000))
		}
		c.Added = append(c.Added, o)
		mustApply(b, ix, c)
		if err := ix.Sync(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// A commit without runs, made durable: what a sync itself costs.
func BenchmarkSync(b *testing.B) {
	ctx := context.Background()
	ix := filled(b, 100, 10_000)
	b.ResetTimer()
	for range b.N {
		st, err := ix.State()
		if err != nil {
			b.Fatal(err)
		}
		mustApply(b, ix, &engine.Commit{Seq: st.Seq + 1, Prev: st.Sum, Meta: []engine.MetaChange{{Key: "k", Value: []byte("v")}}})
		if err := ix.Sync(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

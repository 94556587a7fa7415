package prove

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/disk"
	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
)

// With the store away and a log larger than memory, produce goes on until the log is full; what is in the log only is
// read from it; producers are then held, and go on unaided when the store is back. Memory stays in its budget, and the
// commits that free the log go through though it is full.
func TestAStoreThatIsAwayHoldsProducersAndLosesNothing(t *testing.T) {
	if err := disk.Available(); err != nil {
		notrun.Skip(t, err.Error())
	}
	const partitions, valueSize, capacity, granted = 8, 16 << 10, 160 << 20, 64 << 20
	_, seed := random(t)
	store := disk.New()
	mount := t.TempDir()
	if err := store.Mount(mount); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	b := process.New(t, process.Config{DataDir: dir, Args: []string{"--memory", "64MiB", "--upload-age", "200ms",
		"--objects", "file:" + filepath.Join(mount, "objects"), "--wal", "file:" + filepath.Join(dir, "wal") + "?capacity=160MiB"}})
	t.Cleanup(func() {
		b.Kill()
		store.Unmount()
	})
	b.Start()
	if err := load.CreateTopic(deadline(t), b.Addr, "held", partitions, nil); err != nil {
		t.Fatal(err)
	}
	// Everything that would change the store fails, as does reading it.
	store.SetFault(func(op disk.Op) syscall.Errno { return syscall.EIO })

	cl, err := load.Client(b.Addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(0), kgo.MaxBufferedBytes(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var acked [partitions]atomic.Int64
	var failed atomic.Int64
	total := func() (n int64) {
		for p := range acked {
			n += acked[p].Load()
		}
		return n
	}
	const perPartition = 2 * capacity / valueSize / partitions // twice what the log holds
	want := make(sums, partitions)
	sent := make(chan struct{})
	ctx := deadline(t)
	go func() {
		defer close(sent)
		for n := range int64(perPartition) {
			for p := range int32(partitions) {
				v := value(seed, p, n, valueSize)
				want.add(p, v)
				cl.Produce(ctx, &kgo.Record{Topic: "held", Partition: p, Value: v}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.Add(1)
						return
					}
					acked[p].Add(1)
				})
			}
		}
	}()
	// Produce goes on well beyond memory, and then comes to a stand, with the log full.
	process.Eventually(t, "producers to be held by a full log", func() bool {
		before := total()
		process.Pause(3 * time.Second)
		used, err := b.Metric("headpond_wal_used_bytes")
		return err == nil && total() == before && used > capacity/2
	})
	held := total()
	m := resident(t, b)
	t.Logf("held after %d MiB; resident %d MiB, at most %d MiB", held*valueSize>>20, m.Now>>20, m.Peak>>20)
	if held*valueSize < capacity/2 {
		t.Errorf("held after %d MiB of a log of %d MiB", held*valueSize>>20, capacity>>20)
	}
	// All of it is in the log only, and can be read.
	inLog := make(sums, partitions)
	for p := range acked {
		for n := range acked[p].Load() {
			inLog.add(int32(p), value(seed, int32(p), n, valueSize))
		}
	}
	if err := read(ctx, b.Addr, "held", inLog); err != nil {
		t.Fatalf("reading from the log: %v", err)
	}
	if n := total() * valueSize; n > capacity || failed.Load() > 0 {
		t.Errorf("%d MiB acknowledged with a log of %d MiB and no store; %d records failed", n>>20, capacity>>20, failed.Load())
	}
	store.SetFault(nil)
	<-sent
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n := failed.Load(); n > 0 {
		t.Fatalf("%d records failed", n)
	}
	if err := read(ctx, b.Addr, "held", want); err != nil {
		t.Fatal(err)
	}
	m = resident(t, b)
	t.Logf("all %d MiB acknowledged and read; resident %d MiB, at most %d MiB", total()*valueSize>>20, m.Now>>20, m.Peak>>20)
	within(t, m, 2*granted+64<<20, "a store that is away")
	if strings.Contains(b.Log(), "panic") {
		t.Error("the broker's log has a panic")
	}
}

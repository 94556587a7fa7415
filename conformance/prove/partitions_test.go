package prove

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/headpond/headpond/conformance/load"
)

// Ten thousand partitions, each written, read, and intact after kill -9 and restart.
func TestTenThousandPartitions(t *testing.T) {
	const partitions, perPartition = 10_000, 3
	_, seed := random(t)
	b := start(t, "--memory", "512MiB")
	heap := func() float64 {
		v, err := b.Metric("go_memstats_heap_inuse_bytes")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	empty := heap()
	if err := load.CreateTopic(deadline(t), b.Addr, "many", partitions, nil); err != nil {
		t.Fatal(err)
	}
	created := heap()
	want := write(t, b.Addr, "many", partitions, perPartition, 100, seed)
	check := func(when string) {
		t.Helper()
		if err := read(deadline(t), b.Addr, "many", want); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	check("after writing")
	t.Logf("heap in use: %.0f MiB empty, %.0f MiB with the topic, %.0f MiB after writing and reading: %.0f bytes a partition; resident %d MiB",
		empty/(1<<20), created/(1<<20), heap()/(1<<20), (heap()-empty)/partitions, resident(t, b).Now>>20)
	if m := resident(t, b); m.Peak > 1<<30 {
		t.Errorf("a peak of %d MiB at --memory 512MiB", m.Peak>>20)
	}
	b.Kill()
	b.Start()
	check("after kill -9")
	t.Logf("after the restart: heap in use %.0f MiB, resident %d MiB", heap()/(1<<20), resident(t, b).Now>>20)
}

// Two hundred clients at once, each with a connection for writing and one for reading.
func TestTwoHundredClients(t *testing.T) {
	const clients, perClient, partitions = 200, 100, 20
	b := start(t, "--memory", "128MiB")
	if err := load.CreateTopic(deadline(t), b.Addr, "busy", partitions, nil); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup // every client has connected before any goes on
	all.Add(clients)
	g, ctx := errgroup.WithContext(deadline(t))
	for c := range clients {
		g.Go(func() error {
			cl, err := load.Client(b.Addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"busy": {int32(c % partitions): kgo.NewOffset().AtStart()}}))
			if err != nil {
				all.Done()
				return err
			}
			defer cl.Close()
			err = cl.Ping(ctx)
			all.Done()
			if err != nil {
				return err
			}
			all.Wait()
			for i := range perClient {
				cl.Produce(ctx, &kgo.Record{Topic: "busy", Partition: int32(c % partitions), Value: fmt.Appendf(nil, "%d/%d", c, i)}, nil)
			}
			if err := cl.Flush(ctx); err != nil {
				return err
			}
			// Each reads what all the clients of its partition write.
			seen := map[string]bool{}
			for len(seen) < perClient*clients/partitions {
				fetches := cl.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					return fmt.Errorf("client %d, after %d values: %w", c, len(seen), err)
				}
				fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	m := resident(t, b)
	t.Logf("resident %d MiB, at most %d MiB", m.Now>>20, m.Peak>>20)
	if m.Peak > 384<<20 {
		t.Errorf("a peak of %d MiB at --memory 128MiB", m.Peak>>20)
	}
}

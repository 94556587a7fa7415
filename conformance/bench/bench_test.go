package bench

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
)

// The two workloads: a record of 64 KiB in each request, and batches of 160 records of 100 bytes, which is what fits the
// 16 KiB that Kafka's clients batch by default.
var workloads = []struct {
	name          string
	records, size int
}{
	{"64 KiB unbatched", 1, 64 << 10},
	{"100 B batched", 160, 100},
}

func TestRatiosToTheMachinesLimits(t *testing.T) {
	if !*measure {
		t.Skip("measures with -args -measure")
	}
	fmt.Printf("%s/%s, %d cores, %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			batch := batchOf(w.records, w.size)
			dir := filepath.Join(t.TempDir(), "data")
			b := process.Start(t, process.Config{DataDir: dir, Args: []string{"--memory", "1GiB", "--delete-grace", "1ms"}})
			bytes, interval, forever := "268435456", "10000", "-1" // the batches' timestamps are of no particular time
			for _, topic := range []string{"rate", "latency"} {
				cfg := map[string]*string{"retention.bytes": &bytes, "retention.ms": &forever, "segment.ms": &interval}
				if err := load.CreateTopic(t.Context(), b.Addr, topic, connections, cfg); err != nil {
					t.Fatal(err)
				}
			}
			const read = "read"
			if err := load.CreateTopic(t.Context(), b.Addr, read, connections, map[string]*string{"retention.ms": &forever}); err != nil {
				t.Fatal(err)
			}
			produce(t, b.Addr, read, batch)(max(*turn, time.Second))
			smallWrite, largeWrite, net := fmt.Sprintf("raw write + fdatasync, %d KiB", (len(batch)+1023)>>10), "raw write + fdatasync, 1 MiB", fmt.Sprintf("raw loopback, %d KiB", (len(batch)+1023)>>10)
			compare(t, w.name+", 4 connections with 5 in flight each", []contender{
				{largeWrite, "", untimed(rawWrite(t, 1<<20))},
				{net, "", loopback(t, len(batch))},
				{"log alone", largeWrite, walAlone(t, len(batch))},
				{"engine alone, uploading", largeWrite, engineAlone(t, batch)},
				{"produce through the socket, uploading", largeWrite, produce(t, b.Addr, "rate", batch)},
				{"fetch through the socket", net, fetch(t, b.Addr, read)},
			})
			compare(t, w.name+", one at a time", []contender{
				{smallWrite, "", rawWrite(t, len(batch))},
				{"produce through the socket", smallWrite, produceOne(t, b.Addr, "latency", batch)},
			})
		})
	}
}

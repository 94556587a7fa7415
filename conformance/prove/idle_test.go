package prove

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
)

const (
	idleWindow  = time.Minute
	idleWindows = 5    // noise only raises what a window shows, so the first that is within the bound decides
	idleShare   = 0.01 // of one core
	idleGrowth  = 8 << 20
)

var idleMaxWait = flag.Duration("max-wait", 5*time.Second, "how long an idle consumer's fetch waits at the broker; the default is franz-go's, 500ms the Java client's")

// With 1,000 partitions and 20 consumers that wait for data, the broker takes at most a hundredth of a core, and no more
// memory from window to window.
func TestIdlenessCostsNothing(t *testing.T) {
	const partitions, consumers = 1000, 20
	b := start(t, "--memory", "256MiB")
	if err := load.CreateTopic(deadline(t), b.Addr, "idle", partitions, nil); err != nil {
		t.Fatal(err)
	}
	// Every partition has data, and every consumer has read its share and waits.
	want := write(t, b.Addr, "idle", partitions, 1, 100, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var wg, caughtUp sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for c := range consumers {
		at := map[int32]kgo.Offset{}
		for i := range partitions / consumers {
			at[int32(c*(partitions/consumers)+i)] = kgo.NewOffset().At(0)
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"idle": at}), kgo.FetchMaxWait(*idleMaxWait), kgo.DisableClientMetrics())
		if err != nil {
			t.Fatal(err)
		}
		caughtUp.Add(1)
		wg.Go(func() {
			defer cl.Close()
			for read := 0; ctx.Err() == nil; {
				n := cl.PollFetches(ctx).NumRecords()
				if read += n; n > 0 && read == len(at) {
					caughtUp.Done()
				}
			}
		})
	}
	_ = want
	caughtUp.Wait()
	// Let uploads and collections that the writing has caused come to their end.
	process.Pause(2 * time.Second)
	before := resident(t, b)
	for window := range idleWindows {
		used, err := b.CPU()
		if err != nil {
			notrun.Skip(t, err.Error())
		}
		process.Pause(idleWindow)
		now, err := b.CPU()
		if err != nil {
			t.Fatal(err)
		}
		share := (now - used).Seconds() / idleWindow.Seconds()
		m := resident(t, b)
		t.Logf("window %d: %.2f %% of a core, resident %.1f MiB, %.1f MiB before", window+1, 100*share,
			float64(m.Now)/(1<<20), float64(before.Now)/(1<<20))
		if share <= idleShare && m.Now <= before.Now+idleGrowth {
			return
		}
		before = m
	}
	t.Errorf("no window of %d was within %.0f %% of a core and flat memory", idleWindows, 100*idleShare)
}

package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headpond/headpond/conformance/disk"
	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
)

var (
	rounds    = flag.Int("rounds", 10, "kills in each test")
	seedFlag  = flag.Uint64("seed", 0, "what random choices follow from; 0 takes another each time")
	raceBuild = flag.Bool("racebuild", false, "kill a broker built with the race detector in every test")
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	topic      = "crash"
	partitions = 12
)

// rig is a broker under load whose process is killed and whose data may be tampered with while it is down.
type rig struct {
	t      *testing.T
	rng    *rand.Rand
	broker *process.Broker
	load   *load.Load
	disk   *disk.Disk // where the data is on one, and its mount point is the parent of the data directory
	mount  string
}

type config struct {
	race, onDisk bool
	args         []string
}

func start(t *testing.T, c config) *rig {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -args -seed %d -rounds %d", seed, *rounds)
	r := &rig{t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	// A small log wraps, and what is in it is uploaded, trimmed and deleted all the time.
	pace := 30 * time.Millisecond
	pc := process.Config{Args: append([]string{"--memory", "64MiB", "--upload-age", "100ms", "--upload-size", "1MiB", "--delete-grace", "1ms"}, c.args...)}
	if c.race || *raceBuild {
		pc.Binary = process.RaceBinary(t)
		pace *= 5 // such a broker takes longer to start, and what is sent meanwhile is read in every round
	}
	if c.onDisk {
		if err := disk.Available(); err != nil {
			notrun.Skip(t, err.Error())
		}
		r.disk, r.mount = disk.New(), t.TempDir()
		if err := r.disk.Mount(r.mount); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			r.broker.Kill()
			r.disk.Unmount()
		})
		pc.DataDir = filepath.Join(r.mount, "data")
	} else {
		pc.DataDir = filepath.Join(t.TempDir(), "data")
	}
	pc.Args = append(pc.Args, "--wal", "file:"+filepath.Join(pc.DataDir, "wal")+"?capacity=16MiB")
	r.broker = process.New(t, pc)
	r.broker.Start()
	if err := load.CreateTopic(t.Context(), r.broker.Addr, topic, partitions, nil); err != nil {
		t.Fatal(err)
	}
	var err error
	r.load, err = load.Start(load.Options{
		Addr: r.broker.Addr, Topic: topic, Partitions: partitions, Dir: t.TempDir(), Seed: seed,
		FirstProducer: 1, MaxValue: 100_000, Pace: pace,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.load.Close() })
	if err := r.load.Follow(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

// run waits until the load goes on, and then for a random while.
func (r *rig) run() {
	r.t.Helper()
	want := r.load.Acked() + 300
	process.Eventually(r.t, "records to be acknowledged", func() bool {
		if err := r.load.Failures(); err != nil {
			r.t.Fatalf("the clients were told: %v", err)
		}
		return r.load.Acked() >= want
	})
	process.Pause(time.Duration(r.rng.IntN(400)) * time.Millisecond)
}

// kill ends the process; one time in three it is started and killed once more before it is likely to be ready.
func (r *rig) kill(down func()) {
	r.t.Helper()
	r.broker.Kill()
	down()
	if r.rng.IntN(3) > 0 {
		return
	}
	if err := r.broker.Launch(); err != nil {
		r.t.Fatal(err)
	}
	process.Pause(time.Duration(r.rng.IntN(150)) * time.Millisecond)
	r.broker.Kill()
	down()
}

// powerFail takes the power from the disk. The process is dead.
func (r *rig) powerFail() {
	r.t.Helper()
	if err := r.disk.Unmount(); err != nil {
		r.t.Fatal(err)
	}
	keep := []float64{0, 0.5, 0.95}[r.rng.IntN(3)]
	loss := r.disk.PowerFail(r.rng, keep)
	r.t.Logf("power failure, keeping %v: %d sectors and %d changes of directories lost", keep, loss.Sectors, loss.Names)
	if err := r.disk.Mount(r.mount); err != nil {
		r.t.Fatal(err)
	}
}

// judgeRound judges after a round: everything is read in the first ten rounds and in each tenth after them, in others
// what is new and some before it, or a hundred rounds would read the same thousands of times.
func (r *rig) judgeRound(n int) {
	r.t.Helper()
	read := r.load.ReadAll
	if n >= 10 && n%10 != 9 {
		read = func(ctx context.Context) error { return r.load.ReadRecent(ctx, 1000) }
	}
	r.judge(fmt.Sprintf("round %d of %d", n+1, *rounds), read)
}

// judge reads and checks the history so far.
func (r *rig) judge(when string, read func(context.Context) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), process.Deadline)
	defer cancel()
	if err := read(ctx); err != nil {
		r.t.Fatalf("%s: %v", when, err)
	}
	report, err := r.load.Check()
	if err != nil {
		r.t.Fatalf("%s: %v", when, err)
	}
	if !report.OK() {
		r.t.Fatalf("%s: %s", when, report)
	}
	r.t.Logf("%s: %s", when, report)
}

// finish stops the load: every record must end acknowledged, and everything be there, now and after a clean restart.
func (r *rig) finish() {
	r.t.Helper()
	if err := r.load.Stop(); err != nil {
		r.t.Fatalf("the clients were told: %v", err)
	}
	r.judge("at the end", r.load.ReadAll)
	if err := r.broker.Stop(); err != nil {
		r.t.Fatalf("SIGTERM: %v", err)
	}
	r.broker.Start()
	r.judge("after a clean restart", r.load.ReadAll)
}

func (r *rig) path(name string) string { return filepath.Join(r.broker.DataDir, name) }

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// copyIndex keeps the index as it is now, or puts a kept one back.
func (r *rig) copyIndex(from, to string) {
	r.t.Helper()
	r.must(os.RemoveAll(to))
	r.must(os.CopyFS(to, os.DirFS(from)))
}

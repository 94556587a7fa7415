package prove

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
	"github.com/headpond/headpond/internal/size"
)

var (
	backlog = flag.String("backlog", "1GiB", "size of the backlog that is consumed to the end")
	memory  = flag.String("memory", "64MiB", "--memory of the broker that serves the backlog")
	once    = flag.Bool("once", false, "run what is too long for the gate, too")
	seed    = flag.Uint64("seed", 0, "what random content follows from; 0 takes another each time")
)

func TestMain(m *testing.M) { process.Main(m) }

func bytesOf(t *testing.T, s string) int64 {
	t.Helper()
	n, err := size.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return int64(n)
}

// random returns a source, and prints its seed.
func random(t *testing.T) (*rand.Rand, uint64) {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, 0)), s
}

func start(t *testing.T, args ...string) *process.Broker {
	t.Helper()
	return process.Start(t, process.Config{Args: args})
}

// deadline is a context that ends a hang.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*process.Deadline)
	t.Cleanup(cancel)
	return ctx
}

// resident reads the broker's resident set.
func resident(t *testing.T, b *process.Broker) process.Memory {
	t.Helper()
	m, err := b.Memory()
	if err != nil {
		notrun.Skip(t, err.Error())
	}
	return m
}

// diskBytes is what the files below a directory hold.
func diskBytes(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // removed meanwhile
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

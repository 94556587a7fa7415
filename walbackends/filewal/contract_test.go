package filewal_test

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/walbackends/filewal"
	"github.com/headpond/headpond/walbackends/waltest"
)

// rig is a log on a disk in memory, which is replaced at a crash by what came back from it.
type rig struct {
	mu   sync.Mutex
	disk *crashfs.FS
	heal func()
	seed uint64
}

func (r *rig) open(ctx context.Context, ask engine.WALOptions) (engine.WAL, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	opener, err := filewal.Opener("wal", filewal.Options{Capacity: 4 << 20, FS: r.disk})
	if err != nil {
		return nil, err
	}
	return opener(ctx, ask)
}

func (r *rig) crash() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disk.Crash()
	r.seed++
	r.disk = r.disk.Restart([]crashfs.Keep{crashfs.Synced, crashfs.Written, crashfs.Random(r.seed)}[r.seed%3])
	return nil
}

func onMemory(op crashfs.Op) waltest.Harness {
	r := &rig{disk: crashfs.New()}
	return waltest.Harness{
		Open:  r.open,
		Crash: r.crash,
		Fail:  func() { r.heal = r.disk.Inject(crashfs.Fault{Op: op, Err: syscall.EIO}) },
		Heal:  func() { r.heal() },
		Seed:  1,
	}
}

func TestFileWALKeepsTheContract(t *testing.T) {
	for _, c := range waltest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if err := waltest.Run(t.Context(), onMemory(crashfs.OpSync), c); err != nil {
				t.Error(err)
			}
			if !c.Fails {
				return
			}
			if err := waltest.Run(t.Context(), onMemory(crashfs.OpWrite), c); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFileWALKeepsTheContractOnARealDisk(t *testing.T) {
	for _, c := range waltest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			opener, err := filewal.Opener(t.TempDir(), filewal.Options{Capacity: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			err = waltest.Run(t.Context(), waltest.Harness{Open: opener, Seed: 2, Histories: 4}, c)
			if errors.Is(err, waltest.ErrNotApplicable) {
				t.Skip(err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

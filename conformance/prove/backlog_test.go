package prove

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
)

// A backlog many times larger than memory, incompressible and in objects only, is consumed to its end, and what comes
// is what was written; the resident set stays under twice the memory granted, and 64 MiB for the program itself.
func TestABacklogLargerThanMemoryIsConsumedToItsEnd(t *testing.T) {
	const partitions, valueSize = 16, 32 << 10
	total, granted := bytesOf(t, *backlog), bytesOf(t, *memory)
	_, seed := random(t)
	bound := 2*granted + 64<<20
	if granted >= 256<<20 {
		bound = 2 * granted
	}
	dir := filepath.Join(t.TempDir(), "data")
	wal := "file:" + filepath.Join(dir, "wal") + "?capacity=256MiB"
	b := process.Start(t, process.Config{DataDir: dir, Args: []string{"--memory", *memory, "--wal", wal, "--upload-age", "500ms"}})
	if err := load.CreateTopic(deadline(t), b.Addr, "backlog", partitions, nil); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	want := write(t, b.Addr, "backlog", partitions, total/partitions/valueSize, valueSize, seed)
	m := resident(t, b)
	t.Logf("%s written in %.0f s; resident %d MiB, at most %d MiB", *backlog, time.Since(begin).Seconds(), m.Now>>20, m.Peak>>20)
	within(t, m, bound, "writing")

	// In objects only: all of it is there. The restart empties the caches.
	objects := filepath.Join(dir, "objects")
	process.Eventually(t, "everything to be uploaded", func() bool { return diskBytes(t, objects) >= total })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Start()
	if err := b.ResetPeak(); err != nil {
		t.Log(err)
	}
	begin = time.Now()
	if err := read(deadline(t), b.Addr, "backlog", want); err != nil {
		t.Fatal(err)
	}
	m = resident(t, b)
	t.Logf("%s consumed in %.0f s, checksums equal; resident %d MiB, at most %d MiB", *backlog, time.Since(begin).Seconds(), m.Now>>20, m.Peak>>20)
	within(t, m, bound, "reading")
	b.Kill()
	if err := os.RemoveAll(dir); err != nil {
		t.Log(err)
	}
}

func within(t *testing.T, m process.Memory, bound int64, doing string) {
	t.Helper()
	if m.Peak > bound {
		t.Errorf("%s took %d MiB, more than %d MiB", doing, m.Peak>>20, bound>>20)
	}
}

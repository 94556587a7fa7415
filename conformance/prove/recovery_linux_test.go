package prove

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
)

// With 1 GiB in the log that is not uploaded, a broker that was killed is ready within twice the time that it takes to
// read that much. Both start with nothing of the log in the page cache, in turns; the best of each counts.
func TestRecoveryTakesTwiceTheReadingAtMost(t *testing.T) {
	if !*once {
		t.Skip("runs with -once: it bounds elapsed time")
	}
	const partitions, valueSize, total, turns = 16, 32 << 10, 1 << 30, 5
	_, seed := random(t)
	dir := filepath.Join(t.TempDir(), "data")
	wal := filepath.Join(dir, "wal")
	b := process.Start(t, process.Config{DataDir: dir, Args: []string{"--memory", "256MiB", "--upload-age", "24h", "--upload-size", "8GiB",
		"--wal", "file:" + wal + "?capacity=4GiB"}})
	if err := load.CreateTopic(deadline(t), b.Addr, "log", partitions, nil); err != nil {
		t.Fatal(err)
	}
	want := write(t, b.Addr, "log", partitions, total/partitions/valueSize, valueSize, seed)
	pending, err := b.Metric("headpond_upload_pending_bytes")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f MiB are not uploaded", pending/(1<<20))
	b.Kill()
	reading, ready := time.Hour, time.Hour
	for range turns {
		dropCache(t, wal)
		begin := time.Now()
		n := readFiles(t, wal, total)
		took := time.Since(begin)
		reading = min(reading, took)
		dropCache(t, wal)
		begin = time.Now()
		b.Start()
		up := time.Since(begin)
		ready = min(ready, up)
		t.Logf("read %d MiB in %v; ready in %v", n>>20, took, up)
		b.Kill()
	}
	if ready > 2*reading {
		t.Errorf("ready in %v, more than twice the %v that reading takes", ready, reading)
	}
	b.Start()
	if err := read(deadline(t), b.Addr, "log", want); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// dropCache writes the files back and takes them out of the page cache.
func dropCache(t *testing.T, dir string) {
	t.Helper()
	for _, name := range files(t, dir) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Sync()
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// readFiles reads up to n bytes of the files of a directory.
func readFiles(t *testing.T, dir string, n int64) (got int64) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for _, name := range files(t, dir) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for got < n {
			m, err := f.Read(buf)
			got += int64(m)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
	}
	return got
}

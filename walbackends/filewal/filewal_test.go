package filewal_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/vfs"
	"github.com/headpond/headpond/walbackends/filewal"
)

func open(t *testing.T, dir string, o filewal.Options) engine.WAL {
	t.Helper()
	opener, err := filewal.Opener(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	w, err := opener(t.Context(), engine.WALOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// appendAll appends records and waits until all are done.
func appendAll(t *testing.T, w engine.WAL, records ...string) engine.Position {
	t.Helper()
	done := make(chan error, len(records))
	var last engine.Position
	for _, r := range records {
		p, err := w.Append(engine.Record{Parts: [][]byte{[]byte(r[:len(r)/2]), []byte(r[len(r)/2:])}}, func(err error) { done <- err })
		if err != nil {
			t.Fatal(err)
		}
		last = p
	}
	for range records {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func replayed(t *testing.T, w engine.WAL) []string {
	t.Helper()
	var out []string
	if err := w.Replay(t.Context(), func(_ engine.Position, b []byte) error {
		out = append(out, string(b))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRecordsComeBackAfterReopening(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, filewal.Options{Capacity: 1 << 20})
	if i := w.Info(); !i.Fresh || i.Epoch != 1 {
		t.Fatalf("first opening: %+v", i)
	}
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint("record ", i))
	}
	appendAll(t, w, want...)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = open(t, dir, filewal.Options{Capacity: 1 << 20})
	defer w.Close()
	if i := w.Info(); i.Fresh || i.Epoch != 2 || i.Cut != 0 {
		t.Fatalf("second opening: %+v", i)
	}
	if got := replayed(t, w); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("replayed %q", got)
	}
}

func TestSpaceIsReusedAfterTrim(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, filewal.Options{Capacity: 1 << 20})
	record := string(bytes.Repeat([]byte("x"), 10000))
	last := engine.Position(0)
	for i := range 1000 {
		last = appendAll(t, w, record)
		if i%20 == 0 {
			if err := w.Trim(t.Context(), last); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = open(t, dir, filewal.Options{Capacity: 1 << 20})
	defer w.Close()
	if got := replayed(t, w); len(got) != 19 {
		t.Fatalf("%d records after the last trim", len(got))
	}
	if err := w.Read(t.Context(), 0, last, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Fatalf("read of trimmed records: %v", err)
	}
}

// Each byte of a log is read once in a pass over it, and what was never written not at all: a start must not take longer for
// room that a log has and does not use.
func TestOpeningReadsWhatWasWrittenAndNoMore(t *testing.T) {
	dir := t.TempDir()
	reads := &countingFS{FS: vfs.OS}
	open, err := filewal.Opener(dir, filewal.Options{Capacity: 256 << 20, FS: reads})
	if err != nil {
		t.Fatal(err)
	}
	w, err := open(t.Context(), engine.WALOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	const n, size = 48, 700 << 10 // frames end beyond each window
	var done sync.WaitGroup
	for range n {
		done.Add(1)
		if _, err := w.Append(engine.Record{Parts: [][]byte{make([]byte, size)}}, func(error) { done.Done() }); err != nil {
			t.Fatal(err)
		}
	}
	done.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	reads.bytes.Store(0)
	if w, err = open(t.Context(), engine.WALOptions{}); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// The file that the log ends in is searched to its end, and the next one too.
	if got, most := reads.bytes.Load(), int64(n*size*11/10+2*(16<<20)); got > most {
		t.Errorf("opening read %d bytes of a log with %d bytes of records; want at most %d", got, n*size, most)
	}
}

// countingFS counts the bytes that are read.
type countingFS struct {
	vfs.FS
	bytes atomic.Int64
}

func (c *countingFS) Open(name string) (vfs.File, error)      { return c.count(c.FS.Open(name)) }
func (c *countingFS) OpenWrite(name string) (vfs.File, error) { return c.count(c.FS.OpenWrite(name)) }

func (c *countingFS) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countingFile{f, &c.bytes}, nil
}

type countingFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (f countingFile) ReadAt(b []byte, off int64) (int, error) {
	f.bytes.Add(int64(len(b)))
	return f.File.ReadAt(b, off)
}

package filewal_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/headpond/headpond/engine"
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

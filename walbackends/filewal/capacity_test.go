package filewal_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/walbackends/filewal"
)

// growing is a log that begins with four of its sixteen segments.
func growing() filewal.Options {
	o := filewal.Options{Capacity: 1 << 20}
	o.SetFirstBytes(1)
	return o
}

// fill appends records until n are done. A log that says full is tried again while a segment is being added.
func fill(w engine.WAL, h *history, n int) error {
	for h.done < n {
		err := h.append(w, 1)
		for errors.Is(err, engine.ErrFull) && strings.Contains(err.Error(), "being added") {
			runtime.Gosched()
			err = h.append(w, 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestLogGrowsWhileItIsUsed(t *testing.T) {
	disk := crashfs.New()
	w := mustOpen(t, disk, growing())
	h := &history{at: map[int]engine.Position{}}
	err := fill(w, h, 1000)
	if !errors.Is(err, engine.ErrFull) {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Used < s.Capacity*3/5 { // a quarter is the reserve
		t.Errorf("full at %d of %d bytes", s.Used, s.Capacity)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = mustOpen(t, disk, growing())
	defer w.Close()
	if _, err := h.check(w); err != nil {
		t.Error(err)
	}
}

func TestCrashWhileGrowingLosesNothingDone(t *testing.T) {
	for n := 0; ; n += 9 {
		disk := crashfs.New()
		disk.CrashAfter(n)
		h := &history{at: map[int]engine.Position{}}
		w, err := openOn(disk, growing())
		if err == nil {
			err = errors.Join(fill(w, h, 60), w.Close())
		}
		if !disk.Crashed() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		for _, keep := range []crashfs.Keep{crashfs.Synced, crashfs.Written, crashfs.Scattered(uint64(n)), crashfs.Entries(1)} {
			if err := glance(disk.Restart(keep), h); err != nil {
				t.Errorf("crash at operation %d, keeping %s: %v", n, keep.Name, err)
			}
		}
	}
}

func TestSmallerCapacityTakesEffectAsTheLogIsTrimmed(t *testing.T) {
	disk := crashfs.New()
	large := filewal.Options{Capacity: 1 << 20, SegmentBytes: 64 << 10}
	w := mustOpen(t, disk, large)
	h := &history{at: map[int]engine.Position{}}
	if err := h.append(w, 1); err != nil {
		t.Fatal(err)
	}
	if err := fill(w, h, 1000); !errors.Is(err, engine.ErrFull) {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = mustOpen(t, disk, small)
	if next, err := h.check(w); err != nil || next != h.done+1 {
		t.Fatalf("%d records of %d: %v", next-1, h.done, err)
	}
	if _, err := w.Append(engine.Record{Parts: [][]byte{make([]byte, 100)}}, nil); !errors.Is(err, engine.ErrFull) {
		t.Errorf("append beyond the smaller capacity: %v", err)
	}
	// What leads to a trim still goes through.
	done := make(chan error, 1)
	if _, err := w.Append(engine.Record{Parts: [][]byte{record(h.admitted + 1)}, Internal: true}, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.admitted, h.done = h.admitted+1, h.done+1
	if err := h.trim(w, h.done-1); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the segment that is written to may lie in one of the last files
		w = mustOpen(t, disk, small)
		for range 12 {
			if err := h.append(w, 1); err != nil {
				t.Fatal(err)
			}
			if err := h.trim(w, h.done); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	w = mustOpen(t, disk, small)
	defer w.Close()
	files, err := disk.ReadDir("wal")
	if err != nil {
		t.Fatal(err)
	}
	segments := 0
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".wal") {
			segments++
		}
	}
	if segments != 4 {
		t.Errorf("%d segment files are left", segments)
	}
	if _, err := h.check(w); err != nil {
		t.Error(err)
	}
}

func TestInspectTellsWhatAnOpeningWouldFind(t *testing.T) {
	disk := written(t, "one", "two", strings.Repeat("three", 10000))
	w := mustOpen(t, disk, small) // an owner is at work
	defer w.Close()
	end := appendAll(t, w, "four")
	before := disk.Ops()
	var kinds []string
	r, err := filewal.Inspect(t.Context(), "wal", disk, func(f filewal.FrameReport) { kinds = append(kinds, f.Kind.String()) })
	if err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	want := []string{"owner", "owner", "records", "records", "records", "closing", "owner", "records"}
	if !slices.Equal(kinds, want) {
		t.Errorf("frames: %v", kinds)
	}
	if r.ID != w.Info().ID || r.End != end || r.ReplayRecords != 4 || len(r.Epochs) != 3 || r.Files != 4 || r.Frames != len(kinds) {
		t.Errorf("report: %+v", r)
	}
	if disk.Ops() != before {
		t.Error("the log was changed")
	}
	disk.Flip("wal/000000.wal", frameAt(1)+1)
	if r, err = filewal.Inspect(t.Context(), "wal", disk, nil); err != nil || !errors.Is(r.Err, engine.ErrCorrupt) || r.Frames != 3 {
		t.Errorf("after a flip: %+v, %v", r, err)
	}
	if _, err := filewal.Inspect(t.Context(), "nowhere", disk, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("no log: %v", err)
	}
}

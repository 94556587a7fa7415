package filewal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/walbackends/filewal"
)

// history is what a writer knows: records are numbered from 1, and a record's bytes follow from its number.
type history struct {
	admitted, done, trimmed int
	at                      map[int]engine.Position
}

var sizes = []int{100, 9000, 0, 4096 - 108, 14000, 12, 20000, 5000}

// records are made once: the race detector makes it dear to fill them byte by byte. Nobody changes them.
var records = sync.OnceValue(func() [][]byte {
	out := make([][]byte, 300)
	for n := range out {
		b := make([]byte, 8+sizes[n%len(sizes)])
		for i := range b {
			b[i] = byte(n + i/512)
		}
		binary.BigEndian.PutUint64(b, uint64(n))
		out[n] = b
	}
	return out
})

func record(n int) []byte { return records()[n] }

func openOn(fsys *crashfs.FS, o filewal.Options) (engine.WAL, error) {
	o.FS = fsys
	if o.IdleAfter == 0 {
		o.IdleAfter = time.Hour // so that the operations of a run are the same each time
	}
	opener, err := filewal.Opener("wal", o)
	if err != nil {
		return nil, err
	}
	return opener(context.Background(), engine.WALOptions{Create: true})
}

// append appends the next n records at once and waits for them.
func (h *history) append(w engine.WAL, n int) error {
	results := make(chan error, n)
	admitted := 0
	var refused error
	for range n {
		b := record(h.admitted + 1)
		p, err := w.Append(engine.Record{Parts: [][]byte{b[:8], b[8:]}}, func(err error) { results <- err })
		if err != nil {
			refused = err
			break
		}
		h.admitted++
		admitted++
		h.at[h.admitted] = p
	}
	for range admitted {
		if err := <-results; err != nil {
			return err
		}
		h.done++
	}
	return refused
}

func (h *history) trim(w engine.WAL, n int) error {
	h.trimmed = n
	return w.Trim(context.Background(), h.at[n])
}

// script is a life of a log: it is made, rolls over several times, is trimmed, closed and opened again, and grows.
func script(fsys *crashfs.FS) (*history, error) {
	h := &history{at: map[int]engine.Position{}}
	err := func() error {
		o := filewal.Options{Capacity: 256 << 10}
		w, err := openOn(fsys, o)
		if err != nil {
			return err
		}
		for _, n := range []int{1, 3, 2} {
			if err := h.append(w, n); err != nil {
				return errors.Join(err, w.Close())
			}
		}
		if err := h.trim(w, 5); err != nil {
			return errors.Join(err, w.Close())
		}
		if err := errors.Join(h.append(w, 1), w.Close()); err != nil {
			return err
		}
		o.Capacity *= 2
		if w, err = openOn(fsys, o); err != nil {
			return err
		}
		for range 8 {
			if err := errors.Join(h.append(w, 2), h.append(w, 3), h.trim(w, h.done-2)); err != nil {
				return errors.Join(err, w.Close())
			}
		}
		return w.Close()
	}()
	return h, err
}

// examine opens a log that came back from a crash and says what is wrong with it. The log is left closed.
func examine(fsys *crashfs.FS, h *history) error {
	w, err := openOn(fsys, filewal.Options{Capacity: 256 << 10})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	next, err := h.check(w)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	// What is written now must not be mixed up with what was there.
	more := &history{admitted: next - 1, done: next - 1, at: map[int]engine.Position{}}
	if err := more.append(w, 2); err != nil && !errors.Is(err, engine.ErrFull) {
		return errors.Join(fmt.Errorf("append after the crash: %w", err), w.Close())
	}
	if err := w.Close(); err != nil {
		return err
	}
	if w, err = openOn(fsys, filewal.Options{Capacity: 256 << 10}); err != nil {
		return fmt.Errorf("open once more: %w", err)
	}
	more.trimmed = h.trimmed
	_, err = more.check(w)
	return errors.Join(err, w.Close())
}

// glance opens a log that came back from a crash and checks what it holds.
func glance(fsys *crashfs.FS, h *history) error {
	w, err := openOn(fsys, filewal.Options{Capacity: 256 << 10})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	_, err = h.check(w)
	fsys.Crash()
	w.Close()
	return err
}

// check replays the log: it must hold a prefix of what was admitted that includes all that was done, and all of it from
// the trim position. It returns the number of the next record.
func (h *history) check(w engine.WAL) (int, error) {
	next := 0
	err := w.Replay(context.Background(), func(p engine.Position, b []byte) error {
		if len(b) < 8 {
			return fmt.Errorf("a record of %d bytes", len(b))
		}
		n := int(binary.BigEndian.Uint64(b))
		switch {
		case n < 1 || n >= len(records()):
			return fmt.Errorf("a record of number %d", n)
		case !bytes.Equal(b, record(n)):
			return fmt.Errorf("record %d is not as it was appended", n)
		case next == 0 && n > h.trimmed+1:
			return fmt.Errorf("begins with record %d, but only %d are trimmed", n, h.trimmed)
		case next != 0 && n != next:
			return fmt.Errorf("record %d where %d should be", n, next)
		}
		if at, known := h.at[n]; known && at != p {
			return fmt.Errorf("record %d at position %d, was appended at %d", n, p, at)
		}
		next = n + 1
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	if next == 0 {
		next = h.trimmed + 1
	}
	if next <= h.done {
		return 0, fmt.Errorf("ends before record %d, but %d were done", next, h.done)
	}
	if next > h.admitted+1 {
		return 0, fmt.Errorf("record %d was never admitted", next-1)
	}
	return next, nil
}

// crashes runs the script until it crashes at its n-th operation, for each n, and calls fn with the crashed disk.
func crashes(t *testing.T, lie []crashfs.Op, fn func(n int, disk *crashfs.FS, h *history)) {
	for n := 0; ; n++ {
		disk := crashfs.New()
		for _, op := range lie {
			disk.Inject(crashfs.Fault{Op: op, Lie: true})
		}
		disk.CrashAfter(n)
		h, err := script(disk)
		if !disk.Crashed() {
			if err != nil {
				t.Fatalf("run without a crash: %v", err)
			}
			if n < 50 {
				t.Fatalf("only %d operations to crash at", n)
			}
			return
		}
		fn(n, disk, h)
	}
}

func TestCrashAtEveryOperationLosesNothingDone(t *testing.T) {
	states := 0
	crashes(t, nil, func(n int, disk *crashfs.FS, h *history) {
		sectors, changes := disk.Unsynced()
		try := func(keep crashfs.Keep, k int, look func(*crashfs.FS, *history) error) {
			states++
			if err := look(disk.Restart(keep), h); err != nil {
				t.Errorf("crash at operation %d, keeping %s (%d; %d sectors and %d changes unsynced): %v",
					n, keep.Name, k, sectors, changes, err)
			}
		}
		for i, keep := range []crashfs.Keep{crashfs.Synced, crashfs.Written, crashfs.Random(uint64(n))} {
			try(keep, i, examine)
		}
		for k := 1; k < changes; k++ {
			try(crashfs.Entries(k), k, glance)
			try(crashfs.Scattered(uint64(n*100+k)), k, glance)
		}
		for k := range sectors {
			try(crashfs.FirstSectors(k), k, glance)
			if k%4 == 1 {
				try(crashfs.LastSectors(k), k, glance)
			}
		}
	})
	t.Logf("%d states", states)
}

func TestRecoveryThatCrashesTwiceLosesNothingDone(t *testing.T) {
	keeps := []crashfs.Keep{crashfs.Synced, crashfs.Written}
	states := 0
	// crashIn opens the log, lets the opening crash at each of its operations, and goes on from each of the states.
	var crashIn func(from *crashfs.FS, h *history, depth int, path string)
	crashIn = func(from *crashfs.FS, h *history, depth int, path string) {
		for m := 0; ; m++ {
			disk := from.Restart(crashfs.Written)
			disk.CrashAfter(m)
			w, err := openOn(disk, filewal.Options{Capacity: 256 << 10})
			if !disk.Crashed() {
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
				states++
				if _, err := h.check(w); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				disk.Crash()
				w.Close()
				return
			}
			if err == nil {
				t.Errorf("%s: opened on a crashed disk", path)
				return
			}
			for _, keep := range keeps {
				came := disk.Restart(keep)
				at := fmt.Sprintf("%s, recovery at %d, %s", path, m, keep.Name)
				if depth > 1 {
					crashIn(came, h, depth-1, at)
					continue
				}
				states++
				if err := glance(came, h); err != nil {
					t.Errorf("%s: %v", at, err)
				}
			}
		}
	}
	crashes(t, nil, func(n int, disk *crashfs.FS, h *history) {
		if n%30 != 0 { // the writes of a recovery hardly depend on where the crash was
			return
		}
		keep, depth := keeps[n/30%len(keeps)], 2
		if h.done == 0 {
			depth = 1 // the log was not made yet: recovery makes it, in many operations
		}
		crashIn(disk.Restart(keep), h, depth, fmt.Sprintf("crash at %d, %s", n, keep.Name))
	})
	t.Logf("%d states", states)
}

// The last frame may have been read from the page cache and not be on the disk: after a failed sync, or when only the
// process died. Until it is, no frame may follow it.
func TestWhatWasReadIsMadeDurableBeforeAnythingFollows(t *testing.T) {
	for m := 0; ; m++ {
		disk := crashfs.New()
		w := mustOpen(t, disk, small)
		h := &history{at: map[int]engine.Position{}}
		if err := h.append(w, 1); err != nil {
			t.Fatal(err)
		}
		disk.Inject(crashfs.Fault{Op: crashfs.OpSync, Times: 1, Err: syscall.EIO})
		if err := h.append(w, 1); !errors.Is(err, engine.ErrPoisoned) {
			t.Fatal(err)
		}
		w.Close()
		disk.CrashAfter(m)
		w, err := openOn(disk, small)
		if !disk.Crashed() {
			if err != nil || m < 4 {
				t.Fatalf("%d operations: %v", m, err)
			}
			if next, err := h.check(w); err != nil || next != 3 {
				t.Errorf("%d records: %v", next-1, err)
			}
			w.Close()
			return
		}
		sectors, _ := disk.Unsynced()
		for k := range sectors + 1 {
			for _, keep := range []crashfs.Keep{crashfs.FirstSectors(k), crashfs.LastSectors(k), crashfs.Random(uint64(k))} {
				if err := glance(disk.Restart(keep), h); err != nil {
					t.Errorf("crash of the opening at operation %d, keeping %d %s: %v", m, k, keep.Name, err)
				}
			}
		}
	}
}

// A file that a trim freed is used anew only after the trim is durable; otherwise a crash could find the file
// overwritten and the log beginning in it.
func TestSpaceIsReusedOnlyAfterTheTrimIsDurable(t *testing.T) {
	disk := crashfs.New()
	w := mustOpen(t, disk, small)
	results := make(chan error, 10)
	put := func(size int) engine.Position {
		t.Helper()
		p, err := w.Append(engine.Record{Parts: [][]byte{make([]byte, size)}, Internal: true}, func(err error) { results <- err })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var at []engine.Position
	for range 3 { // two in file 0, one in file 1
		at = append(at, put(26_000))
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	back := make(chan struct{})
	disk.Inject(crashfs.Fault{Op: crashfs.OpSync, Wait: back, Times: 1})
	put(100) // its write is under way while the next is appended and the log is trimmed
	for disk.Waiting() == 0 {
		runtime.Gosched()
	}
	put(40_000)
	if err := w.Trim(t.Context(), at[1]); err != nil {
		t.Fatal(err)
	}
	disk.CrashAfter(1) // at the write of the large record, which begins a segment
	close(back)
	w.Close()
	if !disk.Crashed() {
		t.Fatal("no crash")
	}
	sectors, _ := disk.Unsynced()
	for k := range sectors + 1 {
		again, err := openOn(disk.Restart(crashfs.FirstSectors(k)), small)
		if err != nil {
			t.Fatalf("keeping %d of %d sectors: %v", k, sectors, err)
		}
		if got := len(replayed(t, again)); got < 2 || got > 5 {
			t.Errorf("keeping %d of %d sectors: %d records", k, sectors, got)
		}
		again.Close()
	}
}

// The checks above must notice a log that does not sync.
func TestCrashesShowAMissingSync(t *testing.T) {
	for _, op := range []crashfs.Op{crashfs.OpSync, crashfs.OpSyncDir} {
		found := 0
		crashes(t, []crashfs.Op{op}, func(_ int, disk *crashfs.FS, h *history) {
			if err := examine(disk.Restart(crashfs.Synced), h); err != nil {
				found++
			}
		})
		if found == 0 {
			t.Errorf("nothing shows when %v has no effect", op)
		}
	}
}

package filewal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/walbackends/filewal"
)

// small is a log of four segments of 64 KiB.
var small = filewal.Options{Capacity: 256 << 10}

// written makes a log on a disk in memory with one frame for each record, and closes it.
func written(t *testing.T, records ...string) *crashfs.FS {
	t.Helper()
	disk := crashfs.New()
	w := mustOpen(t, disk, small)
	for _, r := range records {
		appendAll(t, w, r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return disk
}

func mustOpen(t *testing.T, disk *crashfs.FS, o filewal.Options) engine.WAL {
	t.Helper()
	w, err := openOn(disk, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func readFile(t *testing.T, disk *crashfs.FS, name string) []byte {
	t.Helper()
	f, err := disk.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, disk *crashfs.FS, name string, b []byte, off int64) {
	t.Helper()
	f, err := disk.OpenWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = disk.Create(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.WriteAt(b, off)
	if err := errors.Join(err, f.Sync(), disk.SyncDir("wal")); err != nil {
		t.Fatal(err)
	}
}

// Where the frames of a log made by written lie: the owner frame of its making, that of its first owner, then records.
func frameAt(record int) int64 { return int64(2+record) * 4096 }

func TestRotBelowTheMarkIsRefusedAndNothingIsWritten(t *testing.T) {
	for record, bit := range map[int]int64{0: 0, 1: 50, 2: frame.HeaderSize + 8, 3: 4095} {
		disk := written(t, "zero", "one", "two", "three") // a closing frame covers the last
		disk.Flip("wal/000000.wal", frameAt(record)+bit)
		before := readFile(t, disk, "wal/000000.wal")
		_, err := openOn(disk, small)
		var corrupt *engine.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Where != "wal/000000.wal" || corrupt.Offset != frameAt(record) {
			t.Errorf("flip in record %d: %v", record, err)
		}
		if !bytes.Equal(before, readFile(t, disk, "wal/000000.wal")) {
			t.Errorf("flip in record %d: the log was changed", record)
		}
	}
}

func TestRotInTheFirstFrameOfASegmentIsRefused(t *testing.T) {
	big := strings.Repeat("x", 40000)
	for _, file := range []string{"wal/000000.wal", "wal/000001.wal"} {
		disk := written(t, big, big)
		disk.Flip(file, 200)
		disk.Flip(file, 4096+20)
		_, err := openOn(disk, small)
		if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), "wal/00000") {
			t.Errorf("flip in %s: %v", file, err)
		}
	}
}

func TestUncoveredLastFrameIsCutAndReported(t *testing.T) {
	disk := crashfs.New()
	w := mustOpen(t, disk, small)
	appendAll(t, w, "one")
	appendAll(t, w, strings.Repeat("two", 3000))
	disk.Crash() // no closing frame
	w.Close()
	disk = disk.Restart(crashfs.Synced)
	disk.Flip("wal/000000.wal", frameAt(1)+5000)
	w = mustOpen(t, disk, small)
	defer w.Close()
	if got := replayed(t, w); len(got) != 1 || w.Info().Cut != 12288 {
		t.Errorf("%d records, %d bytes cut", len(got), w.Info().Cut)
	}
}

func TestIdleLogIsClosedAgainstRot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New()
		o := small
		o.IdleAfter = time.Second
		w := mustOpen(t, disk, o)
		appendAll(t, w, "one")
		<-time.After(2 * time.Second)
		synctest.Wait()
		disk.Crash()
		w.Close()
		disk = disk.Restart(crashfs.Synced)
		disk.Flip("wal/000000.wal", frameAt(0)+10)
		if _, err := openOn(disk, small); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("rot in the last frame of an idle log: %v", err)
		}
	})
}

func TestFramesOfAnotherLogOrPlaceAreIgnored(t *testing.T) {
	other := written(t, "other", "other", "other", "other", "other", "other")
	disk := written(t, "mine") // frames: owner, owner, mine, closing
	stolen := readFile(t, other, "wal/000000.wal")
	mine := readFile(t, disk, "wal/000000.wal")
	writeFile(t, disk, "wal/000000.wal", stolen[frameAt(2):frameAt(5)], frameAt(2))
	writeFile(t, disk, "wal/000000.wal", mine[frameAt(0):frameAt(1)], frameAt(9)) // landed in the wrong place
	w := mustOpen(t, disk, small)
	defer w.Close()
	if got := replayed(t, w); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("replayed %q", got)
	}
}

func TestHeaderHealsFromEitherCopy(t *testing.T) {
	for _, c := range []struct {
		flips []int64
		want  error
	}{{[]int64{20}, nil}, {[]int64{4096 + 40}, nil}, {[]int64{61, 4096 + 3}, engine.ErrCorrupt}} {
		disk := written(t, "one")
		whole := readFile(t, disk, "wal/header")
		for _, at := range c.flips {
			disk.Flip("wal/header", at)
		}
		w, err := openOn(disk, small)
		if !errors.Is(err, c.want) {
			t.Fatalf("flips at %v: %v", c.flips, err)
		}
		if err != nil {
			continue
		}
		if got := replayed(t, w); len(got) != 1 {
			t.Errorf("flips at %v: replayed %q", c.flips, got)
		}
		w.Close()
		if !bytes.Equal(whole, readFile(t, disk, "wal/header")) {
			t.Errorf("flips at %v: the header was not healed", c.flips)
		}
	}
}

func TestForeignDirectoriesAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(disk *crashfs.FS)
		want  error
		names string
	}{
		{"a stranger's file", func(d *crashfs.FS) {
			for _, name := range []string{"header", "000000.wal", "000001.wal", "000002.wal", "000003.wal"} {
				d.Remove("wal/" + name)
			}
			writeFile(t, d, "wal/photos.zip", []byte("PK"), 0)
		}, engine.ErrInvalid, "photos.zip"},
		{"records without a header", func(d *crashfs.FS) {
			d.Remove("wal/header")
		}, engine.ErrInvalid, "000001.wal"},
		{"a stranger's header", func(d *crashfs.FS) {
			d.Remove("wal/header")
			writeFile(t, d, "wal/header", bytes.Repeat([]byte("<html>"), 2000), 0)
		}, engine.ErrInvalid, "wal/header"},
		{"a missing file", func(d *crashfs.FS) { d.Remove("wal/000002.wal") }, engine.ErrCorrupt, "000002.wal"},
		{"a file that was cut", func(d *crashfs.FS) {
			f, err := d.OpenWrite("wal/000001.wal")
			if err == nil {
				err = f.Truncate(5000)
			}
			if err != nil {
				t.Error(err)
			}
		}, engine.ErrCorrupt, "000001.wal"},
		{"all frames gone", func(d *crashfs.FS) {
			for i := range 4 {
				writeFile(t, d, fmt.Sprintf("wal/%06d.wal", i), make([]byte, 64<<10), 0)
			}
		}, engine.ErrCorrupt, "not one intact frame"},
	} {
		disk := written(t, strings.Repeat("x", 60000))
		c.spoil(disk)
		for range 2 {
			_, err := openOn(disk, small)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func TestHeldLogNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, filewal.Options{Capacity: 1 << 20})
	defer w.Close()
	opener, err := filewal.Opener(dir, filewal.Options{Capacity: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	_, err = opener(t.Context(), engine.WALOptions{Create: true})
	if !errors.Is(err, engine.ErrFenced) || !strings.Contains(err.Error(), "held by process ") {
		t.Errorf("second open: %v", err)
	}
}

func TestAbsentLogIsLeftAbsent(t *testing.T) {
	disk := crashfs.New()
	opener, err := filewal.Opener("wal", filewal.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []engine.WALOptions{{}, {ReadOnly: true}, {ReadOnly: true, Create: true}} {
		if _, err := opener(t.Context(), ask); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("open of an absent log with %+v: %v", ask, err)
		}
	}
	if disk.Ops() != 0 {
		t.Error("something was made")
	}
}

func TestFailedWritesPoison(t *testing.T) {
	for name, fault := range map[string]crashfs.Fault{
		"write error":          {Op: crashfs.OpWrite, Err: syscall.EIO, Times: 1},
		"sync error":           {Op: crashfs.OpSync, Err: syscall.EIO, Times: 1},
		"short write":          {Op: crashfs.OpWrite, Short: 5000, Times: 1},
		"no space for a write": {Op: crashfs.OpWrite, Err: syscall.ENOSPC, Times: 1},
	} {
		disk := crashfs.New()
		w := mustOpen(t, disk, small)
		appendAll(t, w, "done")
		disk.Inject(fault)
		done := make(chan error, 1)
		if _, err := w.Append(engine.Record{Parts: [][]byte{make([]byte, 9000)}}, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, engine.ErrPoisoned) || !strings.Contains(err.Error(), "000000.wal") {
			t.Errorf("%s: completion: %v", name, err)
		}
		if _, err := w.Append(engine.Record{}, nil); !errors.Is(err, engine.ErrPoisoned) {
			t.Errorf("%s: later append: %v", name, err)
		}
		if err := w.Trim(t.Context(), w.Stats().Done); !errors.Is(err, engine.ErrPoisoned) {
			t.Errorf("%s: later trim: %v", name, err)
		}
		if err := w.Close(); !errors.Is(err, engine.ErrPoisoned) {
			t.Errorf("%s: close: %v", name, err)
		}
		// What came through is made durable by the next opening, or is not there: also after a power failure.
		w = mustOpen(t, disk, small)
		before := replayed(t, w)
		appendAll(t, w, "after")
		disk.Crash()
		w.Close()
		w = mustOpen(t, disk.Restart(crashfs.Synced), small)
		if got := replayed(t, w); !slices.Equal(got, append(before, "after")) || got[0] != "done" {
			t.Errorf("%s: %d records before the crash, %d after", name, len(before), len(got))
		}
		w.Close()
	}
}

func TestStuckWritePoisonsAtTheDeadlineAndKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New()
		w := mustOpen(t, disk, small)
		back := make(chan struct{})
		disk.Inject(crashfs.Fault{Op: crashfs.OpSync, Wait: back, Times: 1})
		start := time.Now()
		var done []error
		for range 3 {
			if _, err := w.Append(engine.Record{Parts: [][]byte{make([]byte, 100)}}, func(err error) { done = append(done, err) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); !errors.Is(err, engine.ErrPoisoned) {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(start); took != filewal.DefaultWriteDeadline {
			t.Errorf("close took %v", took)
		}
		if len(done) != 3 || !errors.Is(done[0], engine.ErrPoisoned) {
			t.Errorf("completions: %v", done)
		}
		if _, err := openOn(disk, small); !errors.Is(err, engine.ErrFenced) {
			t.Errorf("open while a write of the last owner is under way: %v", err)
		}
		close(back)
		synctest.Wait()
		w = mustOpen(t, disk, small)
		w.Close()
	})
}

func TestUnreadableDiskIsNotCorruption(t *testing.T) {
	disk := written(t, "one")
	heal := disk.Inject(crashfs.Fault{Op: crashfs.OpRead, Err: syscall.EIO})
	if _, err := openOn(disk, small); !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
	heal()
	w := mustOpen(t, disk, small)
	defer w.Close()
	end := w.Stats().Done
	read := func() error { return w.Read(t.Context(), 0, end, func(engine.Position, []byte) bool { return true }) }
	heal = disk.Inject(crashfs.Fault{Op: crashfs.OpRead, Err: syscall.EIO})
	if err := read(); !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
	heal()
	heal = disk.Inject(crashfs.Fault{Op: crashfs.OpRead, Flip: true})
	if err := read(); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("read of flipped bits: %v", err)
	}
	heal()
	if err := read(); err != nil {
		t.Errorf("read after the disk healed: %v", err)
	}
	appendAll(t, w, "a read error does not poison")
}

func TestFullDisk(t *testing.T) {
	disk := crashfs.New()
	disk.SetLimit(200 << 10)
	if _, err := openOn(disk, small); !errors.Is(err, engine.ErrFull) {
		t.Fatalf("making a log on a full disk: %v", err)
	}
	disk.SetLimit(300 << 10)
	w := mustOpen(t, disk, small)
	appendAll(t, w, "one")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	larger := small
	larger.Capacity *= 4
	w = mustOpen(t, disk, larger) // the disk has no room for more, the log is as it was
	defer w.Close()
	if got := replayed(t, w); len(got) != 1 {
		t.Errorf("replayed %q", got)
	}
	var err error
	for err == nil {
		done := make(chan error, 1)
		if _, err = w.Append(engine.Record{Parts: [][]byte{make([]byte, 20000)}}, func(err error) { done <- err }); err == nil {
			if err := <-done; err != nil {
				t.Fatalf("an admitted append on a full disk: %v", err)
			}
		}
	}
	if !errors.Is(err, engine.ErrFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("append: %v", err)
	}
	if s := w.Stats(); s.Used <= s.Capacity/2 {
		t.Errorf("full, and %d of %d bytes are said to be used: nobody would trim it", s.Used, s.Capacity)
	}
}

func TestRefusedOptionsSayWhy(t *testing.T) {
	for _, o := range []filewal.Options{
		{Capacity: 100}, {Capacity: -1}, {SegmentBytes: 5000}, {SegmentBytes: 1 << 40}, {Capacity: 1 << 20, SegmentBytes: 1 << 20},
		{WriteDeadline: -1}, {FrameBytes: -1},
	} {
		if _, err := filewal.Opener("wal", o); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

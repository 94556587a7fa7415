package index_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
)

// From the n-th change of the file system on, every one fails. The index says so, is read as before, and goes on when the
// cause is gone; nothing that was applied is lost.
func TestFailingDiskStopsWritesUntilItHeals(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		want  error
		once  bool // only the n-th change fails
	}{
		{name: "full", cause: syscall.ENOSPC, want: engine.ErrFull},
		{name: "full for a moment", cause: syscall.ENOSPC, want: engine.ErrFull, once: true},
		{name: "failing", cause: syscall.EIO, want: engine.ErrUnavailable},
		{name: "failing for a moment", cause: syscall.EIO, want: engine.ErrUnavailable, once: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reached := 0
			for n := 0; n < 90; n += 8 {
				if failFrom(t, n, c.cause, c.want, c.once) {
					reached++
				}
			}
			if reached < 4 {
				t.Errorf("only %d of the changes were made to fail", reached)
			}
		})
	}
}

// failFrom says whether there was an n-th change.
func failFrom(t *testing.T, n int, cause, want error, once bool) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h := newHistory(uint64(n))
	fs := &hookFS{FS: vfs.NewMem()}
	o := index.Options{FS: fs, MemTableBytes: 64 << 10}
	ix := mustOpen(t, "index", o)
	if err := ix.Reset(ctx, cluster, wal); err != nil {
		t.Fatal(err)
	}
	changes := 0
	fs.setHook(func(op, name string) error {
		changes++
		if changes == n+1 || changes > n && !once {
			return fmt.Errorf("%s %s: %w", op, name, cause)
		}
		return nil
	})
	try := func(what string, err error) bool {
		if err != nil && !errors.Is(err, want) {
			t.Fatalf("failing from change %d: %s: %v, want %v", n, what, err, want)
		}
		return err == nil
	}
	for i := range 40 {
		c := h.next()
		if !try("apply", ix.Apply(ctx, c, c.Sum())) {
			break
		}
		if err := h.mem.Apply(ctx, c, c.Sum()); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 && !try("sync", ix.Sync(ctx)) && i%8 == 7 {
			break
		}
		if i%10 == 0 {
			compare(t, fmt.Sprintf("failing from change %d", n), ix, h.mem)
		}
	}
	compare(t, fmt.Sprintf("failing from change %d", n), ix, h.mem)
	fs.mu.Lock()
	reached := changes > n
	fs.hook = nil
	fs.mu.Unlock()

	untilNil(t, ctx, func() error { return ix.Sync(ctx) })
	for range 3 {
		c := h.step()
		if err := ix.Apply(ctx, c, c.Sum()); err != nil {
			t.Fatalf("failed from change %d, then healed: %v", n, err)
		}
	}
	compare(t, fmt.Sprintf("failed from change %d, then healed", n), ix, h.mem)
	mustClose(t, ix)
	ix = mustOpen(t, "index", o)
	compare(t, fmt.Sprintf("failed from change %d, then healed and opened again", n), ix, h.mem)
	mustClose(t, ix)
	return reached
}

// untilNil repeats a call that may meet what is left of a failure.
func untilNil(t *testing.T, ctx context.Context, call func() error) {
	t.Helper()
	for {
		err := call()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("still %v", err)
		}
	}
}

func TestOpenOnFullDiskSaysSo(t *testing.T) {
	for n := range 60 {
		fs := &hookFS{FS: vfs.NewMem()}
		changes := 0
		fs.setHook(func(op, name string) error {
			if changes++; changes > n {
				return syscall.ENOSPC
			}
			return nil
		})
		ix, err := index.Open("index", index.Options{FS: fs})
		if err == nil {
			fs.setHook(nil)
			mustClose(t, ix)
			if n == 0 {
				t.Error("opened without a change to the disk")
			}
			return
		}
		if !errors.Is(err, engine.ErrFull) {
			t.Fatalf("full from change %d: %v, want ErrFull", n, err)
		}
		fs.setHook(nil)
		mustClose(t, mustOpen(t, "index", index.Options{FS: fs}))
	}
}

// What cannot be written stays in memory, but not without bound.
func TestFullDiskBoundsWhatIsTakenInMemory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	fs := &hookFS{FS: vfs.NewMem()}
	ix := mustOpen(t, "index", index.Options{FS: fs, MemTableBytes: 64 << 10})
	if err := ix.Reset(ctx, cluster, wal); err != nil {
		t.Fatal(err)
	}
	fs.setHook(func(string, string) error { return syscall.ENOSPC })
	h := newHistory(1)
	taken := 0
	for {
		c := h.next()
		c.Producers = []engine.ProducerSnapshot{{State: make([]byte, 1000)}}
		err := ix.Apply(ctx, c, c.Sum())
		if errors.Is(err, engine.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := h.mem.Apply(ctx, c, c.Sum()); err != nil {
			t.Fatal(err)
		}
		if taken += 1000; taken > 64<<10 {
			t.Fatal("more than the table in memory holds was taken")
		}
	}
	compare(t, "full", ix, h.mem)
	if err := ix.Sync(ctx); !errors.Is(err, engine.ErrFull) {
		t.Fatalf("sync: %v, want ErrFull", err)
	}
	fs.setHook(nil)
	untilNil(t, ctx, func() error { return ix.Sync(ctx) })
	c := h.step()
	mustApply(t, ix, c)
	compare(t, "no longer full", ix, h.mem)
	mustClose(t, ix)
}

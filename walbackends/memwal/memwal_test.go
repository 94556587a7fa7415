package memwal_test

import (
	"errors"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/walbackends/memwal"
)

func TestCrashDropsWhatIsNotDone(t *testing.T) {
	disk := memwal.New(memwal.Options{})
	w, err := disk.Open(t.Context(), engine.WALOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	if _, err := w.Append(engine.Record{Parts: [][]byte{[]byte("a"), []byte("b")}}, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	disk.Stall()
	if _, err := w.Append(engine.Record{Parts: [][]byte{[]byte("lost")}}, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Open(t.Context(), engine.WALOptions{}); !errors.Is(err, engine.ErrFenced) {
		t.Fatalf("open while held: %v", err)
	}
	disk.Crash()
	if err := <-done; !errors.Is(err, engine.ErrPoisoned) {
		t.Fatalf("append in flight at a crash: %v", err)
	}
	w.Close()

	again, err := disk.Open(t.Context(), engine.WALOptions{MinEpoch: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := again.Info(); got.Epoch != 8 || got.Fresh || got.ID != w.Info().ID {
		t.Fatalf("info after reopen: %+v", got)
	}
	var got []string
	err = again.Replay(t.Context(), func(_ engine.Position, b []byte) error {
		got = append(got, string(b))
		return nil
	})
	if err != nil || len(got) != 1 || got[0] != "ab" {
		t.Fatalf("replayed %q, %v", got, err)
	}
}

func TestFailedWritePoisonsAndCloseFailsWhatIsStuck(t *testing.T) {
	disk := memwal.New(memwal.Options{})
	cause := errors.New("broken")
	for _, c := range []struct {
		name  string
		spoil func()
		want  error
	}{
		{"failed write", func() { disk.FailNext(cause) }, cause},
		{"stalled write", func() { disk.Stall() }, engine.ErrPoisoned},
	} {
		w, err := disk.Open(t.Context(), engine.WALOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.spoil()
		done := make(chan error, 1)
		if _, err := w.Append(engine.Record{}, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); !errors.Is(err, engine.ErrPoisoned) {
			t.Errorf("%s: close: %v", c.name, err)
		}
		if err := <-done; !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, c.want) {
			t.Errorf("%s: completion: %v", c.name, err)
		}
		if _, err := w.Append(engine.Record{}, func(error) {}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: append after close: %v", c.name, err)
		}
	}
}

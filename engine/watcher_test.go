package engine

import (
	"slices"
	"sync"
	"testing"
)

func setHigh(p *Partition, high int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.high = high
	p.wakeWatchersLocked()
}

// token takes what C has, without waiting.
func token(w *Watcher) bool {
	select {
	case <-w.C():
		return true
	default:
		return false
	}
}

func TestWatcherHandsOutWhatPassesTheOffsetOnce(t *testing.T) {
	w := new(Engine).NewWatcher()
	defer w.Close()
	p, q := new(Partition), new(Partition)
	w.Watch(p, 5)
	w.Watch(q, 5)
	setHigh(p, 5)
	if token(w) || len(w.Take(nil)) > 0 {
		t.Fatal("ready when the high watermark only reached the offset")
	}
	setHigh(p, 6)
	if !token(w) {
		t.Fatal("no token when the high watermark passed the offset")
	}
	if got := w.Take(nil); !slices.Equal(got, []*Partition{p}) {
		t.Fatalf("Take: %v, want the one partition", got)
	}
	setHigh(p, 7)
	if token(w) || len(w.Take(nil)) > 0 {
		t.Fatal("ready again without being watched again")
	}
	if len(p.watches) != 0 || len(q.watches) != 1 {
		t.Fatalf("%d and %d watches are left, want 0 and 1", len(p.watches), len(q.watches))
	}
}

func TestWatcherIsReadyAtOnceForWhatIsThere(t *testing.T) {
	w := new(Engine).NewWatcher()
	defer w.Close()
	for name, p := range map[string]*Partition{
		"high watermark above": {high: 6},
		"log start above":      {high: 5, logStart: 6},
		"deleted":              {err: ErrNotFound},
	} {
		w.Watch(p, 5)
		if !token(w) || !slices.Equal(w.Take(nil), []*Partition{p}) {
			t.Errorf("%s: not ready at once", name)
		}
	}
}

func TestWatcherWakesForLogStartAndErrors(t *testing.T) {
	w := new(Engine).NewWatcher()
	defer w.Close()
	p := &Partition{high: 5}
	for name, change := range map[string]func(){
		"log start": func() { p.logStart = 6 },
		"error":     func() { p.err = ErrUnavailable },
	} {
		p.logStart, p.err = 0, nil
		w.Watch(p, 5)
		p.mu.Lock()
		change()
		p.wakeWatchersLocked()
		p.mu.Unlock()
		if !token(w) || len(w.Take(nil)) != 1 {
			t.Errorf("%s: not ready", name)
		}
	}
}

func TestWatchReplacesAnEarlierOne(t *testing.T) {
	w := new(Engine).NewWatcher()
	defer w.Close()
	p := &Partition{high: 5}
	w.Watch(p, 0) // ready
	w.Watch(p, 5) // and not any more
	if got := w.Take(nil); len(got) != 0 {
		t.Fatalf("Take after a later watch: %d partitions, want none", len(got))
	}
	w.Watch(p, 8)
	setHigh(p, 7)
	if got := w.Take(nil); len(got) != 0 {
		t.Fatal("the earlier, lower watch still counts")
	}
	setHigh(p, 9)
	w.Watch(p, 9)
	setHigh(p, 10)
	if got := w.Take(nil); len(got) != 1 {
		t.Fatalf("Take: the partition %d times, want once", len(got))
	}
}

func TestForgetAndCloseEndWatches(t *testing.T) {
	w := new(Engine).NewWatcher()
	p, ready, q := new(Partition), &Partition{high: 1}, new(Partition)
	w.Watch(p, 0)
	w.Watch(ready, 0)
	w.Watch(q, 0)
	w.Forget(p)
	w.Forget(ready)
	setHigh(p, 1)
	if got := w.Take(nil); len(got) != 0 {
		t.Fatalf("Take hands out %d forgotten partitions", len(got))
	}
	w.Close()
	w.Close()
	w.Watch(p, 9)
	setHigh(q, 1)
	if len(p.watches)+len(q.watches) != 0 || len(w.Take(nil)) != 0 {
		t.Fatal("a closed watcher still watches")
	}
}

// Whatever the interleaving, a reader that watches, takes and reads again sees the last value.
func TestWatcherLosesNoWakeUp(t *testing.T) {
	const partitions, last = 8, 200
	ps := make([]*Partition, partitions)
	for i := range ps {
		ps[i] = new(Partition)
	}
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			w := new(Engine).NewWatcher()
			defer w.Close()
			seen := make(map[*Partition]int64)
			for _, p := range ps {
				w.Watch(p, 0)
			}
			var got []*Partition
			for done := 0; done < partitions; {
				<-w.C()
				got = w.Take(got[:0])
				for _, p := range got {
					o, _ := p.Offsets()
					if o.HighWatermark <= seen[p] {
						t.Errorf("woken at %d, having seen %d", o.HighWatermark, seen[p])
					}
					seen[p] = o.HighWatermark
					if seen[p] == last {
						done++
						continue
					}
					w.Watch(p, seen[p])
				}
			}
		})
	}
	for high := range int64(last) {
		for _, p := range ps {
			setHigh(p, high+1)
		}
	}
	work.Wait()
}

func BenchmarkWakeWithoutWatchers(b *testing.B) {
	p := new(Partition)
	for b.Loop() {
		p.mu.Lock()
		p.wakeWatchersLocked()
		p.mu.Unlock()
	}
}

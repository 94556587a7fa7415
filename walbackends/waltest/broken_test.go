package waltest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/walbackends/memwal"
	"github.com/headpond/headpond/walbackends/waltest"
)

// broken is a correct log with some behaviours replaced.
type broken struct {
	engine.WAL
	append func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error)
	read   func(w engine.WAL, ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error
	replay func(w engine.WAL, ctx context.Context, fn func(engine.Position, []byte) error) error
	trim   func(w engine.WAL, ctx context.Context, to engine.Position) error
	stats  func(engine.WALStats) engine.WALStats
	info   func(engine.WALInfo) engine.WALInfo
}

func (b *broken) Append(r engine.Record, done func(error)) (engine.Position, error) {
	if b.append == nil {
		return b.WAL.Append(r, done)
	}
	return b.append(b.WAL, r, done)
}

func (b *broken) Read(ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error {
	if b.read == nil {
		return b.WAL.Read(ctx, from, to, fn)
	}
	return b.read(b.WAL, ctx, from, to, fn)
}

func (b *broken) Replay(ctx context.Context, fn func(engine.Position, []byte) error) error {
	if b.replay == nil {
		return b.WAL.Replay(ctx, fn)
	}
	return b.replay(b.WAL, ctx, fn)
}

func (b *broken) Trim(ctx context.Context, to engine.Position) error {
	if b.trim == nil {
		return b.WAL.Trim(ctx, to)
	}
	return b.trim(b.WAL, ctx, to)
}

func (b *broken) Stats() engine.WALStats {
	if b.stats == nil {
		return b.WAL.Stats()
	}
	return b.stats(b.WAL.Stats())
}

func (b *broken) Info() engine.WALInfo {
	if b.info == nil {
		return b.WAL.Info()
	}
	return b.info(b.WAL.Info())
}

// with puts broken handles on a harness.
func with(make func() *broken) func(*memwal.Disk, *waltest.Harness) {
	return func(_ *memwal.Disk, h *waltest.Harness) {
		open := h.Open
		h.Open = func(ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
			w, err := open(ctx, o)
			if err != nil {
				return nil, err
			}
			b := make()
			b.WAL = w
			return b, nil
		}
	}
}

// opening replaces the way to open.
func opening(fn func(d *memwal.Disk, ctx context.Context, o engine.WALOptions) (engine.WAL, error)) func(*memwal.Disk, *waltest.Harness) {
	return func(d *memwal.Disk, h *waltest.Harness) {
		h.Open = func(ctx context.Context, o engine.WALOptions) (engine.WAL, error) { return fn(d, ctx, o) }
	}
}

// swapped holds every other completion back until the next one has fired.
func swapped() *broken {
	var mu sync.Mutex
	var held func()
	return &broken{append: func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error) {
		return w.Append(r, func(err error) {
			mu.Lock()
			earlier := held
			held = nil
			if earlier == nil {
				held = func() { done(err) }
			}
			mu.Unlock()
			if earlier != nil {
				done(err)
				earlier()
			}
		})
	}}
}

func skipLast() *broken {
	return &broken{replay: func(w engine.WAL, ctx context.Context, fn func(engine.Position, []byte) error) error {
		return w.Replay(ctx, func(p engine.Position, b []byte) error {
			if p == w.Info().End {
				return nil
			}
			return fn(p, b)
		})
	}}
}

func neverTrims() *broken {
	return &broken{trim: func(engine.WAL, context.Context, engine.Position) error { return nil }}
}

// forgets comes back from a crash with nothing.
func forgets(_ *memwal.Disk, h *waltest.Harness) {
	var mu sync.Mutex
	disk, _ := small()
	h.Open = func(ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		mu.Lock()
		defer mu.Unlock()
		return disk.Open(ctx, o)
	}
	h.Crash = func() error {
		mu.Lock()
		defer mu.Unlock()
		disk.Crash()
		disk, _ = small()
		return nil
	}
}

// For each check, a log that it must catch.
var breakages = map[string]func(*memwal.Disk, *waltest.Harness){
	"parts-are-joined": with(func() *broken {
		return &broken{append: func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error) {
			if len(r.Parts) > 1 {
				r.Parts = r.Parts[:1]
			}
			return w.Append(r, done)
		}}
	}),
	"completions-in-order":                 with(swapped),
	"completions-in-order-of-many-callers": with(swapped),
	"positions-grow": with(func() *broken {
		return &broken{append: func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error) {
			p, err := w.Append(r, done)
			return p &^ 63, err
		}}
	}),
	"parts-are-lent": with(func() *broken {
		return &broken{append: func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error) {
			return w.Append(r, func(err error) {
				for _, p := range r.Parts {
					clear(p)
				}
				done(err)
			})
		}}
	}),
	"done-is-readable": with(func() *broken {
		return &broken{stats: func(s engine.WALStats) engine.WALStats {
			s.Done = 0
			return s
		}}
	}),
	"largest-record": with(func() *broken {
		return &broken{info: func(i engine.WALInfo) engine.WALInfo {
			i.MaxRecord++
			return i
		}}
	}),
	"refusal-consumes-nothing": with(func() *broken {
		return &broken{append: func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error) {
			p, err := w.Append(r, done)
			if err != nil {
				done(err)
			}
			return p, err
		}}
	}),
	"many-tiny-records": with(skipLast),
	"read-between": with(func() *broken {
		return &broken{read: func(w engine.WAL, ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error {
			if from > 0 {
				from--
			}
			return w.Read(ctx, from, to, fn)
		}}
	}),
	"read-bounds": with(func() *broken {
		return &broken{read: func(w engine.WAL, ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error {
			end := w.Stats().Done
			return w.Read(ctx, min(from, end), min(to, end), fn)
		}}
	}),
	"read-stops": with(func() *broken {
		return &broken{read: func(w engine.WAL, ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error {
			return w.Read(ctx, from, to, func(p engine.Position, b []byte) bool {
				fn(p, b)
				return true
			})
		}}
	}),
	"read-while-appending": with(func() *broken {
		reads := make(chan struct{}, 1)
		var count int
		return &broken{read: func(w engine.WAL, ctx context.Context, from, to engine.Position, fn func(engine.Position, []byte) bool) error {
			reads <- struct{}{}
			count++
			tenth := count == 10
			<-reads
			if tenth {
				return engine.ErrUnavailable
			}
			return w.Read(ctx, from, to, fn)
		}}
	}),
	"replay-from-trim-to-end": with(func() *broken {
		return &broken{replay: func(w engine.WAL, ctx context.Context, fn func(engine.Position, []byte) error) error {
			var err error
			s := w.Stats()
			return errors.Join(err, w.Read(ctx, s.Trim, s.Done, func(p engine.Position, b []byte) bool {
				err = fn(p, b)
				return err == nil
			}))
		}}
	}),
	"replay-stops": with(func() *broken {
		return &broken{replay: func(w engine.WAL, ctx context.Context, fn func(engine.Position, []byte) error) error {
			_ = w.Replay(ctx, fn)
			return nil
		}}
	}),
	"trim-never-passes": with(func() *broken {
		return &broken{trim: func(w engine.WAL, ctx context.Context, to engine.Position) error {
			return w.Trim(ctx, w.Stats().Done)
		}}
	}),
	"trim-beyond-done": with(func() *broken {
		return &broken{trim: func(w engine.WAL, ctx context.Context, to engine.Position) error {
			return w.Trim(ctx, min(to, w.Stats().Done))
		}}
	}),
	"read-below-trim":     with(neverTrims),
	"full-heals":          with(neverTrims),
	"full-forever-usable": with(neverTrims),
	"internal-reserve": with(func() *broken {
		return &broken{append: func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error) {
			r.Internal = false
			return w.Append(r, done)
		}}
	}),
	"info": with(func() *broken {
		return &broken{info: func(i engine.WALInfo) engine.WALInfo {
			i.Fresh = false
			return i
		}}
	}),
	"epochs-grow": opening(func(d *memwal.Disk, ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		o.MinEpoch = 0
		return d.Open(ctx, o)
	}),
	"one-owner": opening(func(d *memwal.Disk, ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		w, err := d.Open(ctx, o)
		if errors.Is(err, engine.ErrFenced) {
			d.Crash()
			return d.Open(ctx, o)
		}
		return w, err
	}),
	"create-only-on-request": opening(func(d *memwal.Disk, ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		if o.Create {
			d = memwal.New(memwal.Options{Capacity: 1 << 20})
		}
		return d.Open(ctx, o)
	}),
	"read-only": opening(func(d *memwal.Disk, ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		o.ReadOnly = false
		return d.Open(ctx, o)
	}),
	"closed": with(func() *broken {
		return &broken{trim: func(w engine.WAL, ctx context.Context, to engine.Position) error {
			if err := w.Trim(ctx, to); !errors.Is(err, engine.ErrClosed) {
				return err
			}
			return nil
		}}
	}),
	"close-completes": with(func() *broken {
		return &broken{append: func(w engine.WAL, r engine.Record, done func(error)) (engine.Position, error) {
			end := w.Stats().Admitted
			return w.Append(r, func(err error) {
				if end > 0 {
					done(err)
				}
			})
		}}
	}),
	"writes-are-told": opening(func(d *memwal.Disk, ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		o.OnWrite = nil
		return d.Open(ctx, o)
	}),
	"failed-write-poisons":      func(_ *memwal.Disk, h *waltest.Harness) { h.Fail = func() {} },
	"crash-keeps-what-was-done": forgets,
	"crash-in-flight":           forgets,
	"random-histories":          forgets,
}

func TestEveryCheckCatchesALogThatBreaksIt(t *testing.T) {
	for _, c := range waltest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			spoil := breakages[c.Name]
			if spoil == nil {
				t.Fatal("no log is known that this check catches")
			}
			disk, h := small()
			spoil(disk, &h)
			ctx := t.Context()
			if c.Name == "full-heals" || c.Name == "full-forever-usable" { // they wait for a trim that never comes
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
			}
			err := waltest.Run(ctx, h, c)
			if err == nil || errors.Is(err, waltest.ErrNotApplicable) {
				t.Errorf("not caught: %v", err)
			}
		})
	}
}

package waltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/headpond/headpond/engine"
)

func historyChecks() []Check {
	return []Check{{
		Name:     "random-histories",
		Sentence: `a record that is done survives every failure smaller than [Capabilities].Domain, and so does every record before it.`,
		run:      histories,
	}}
}

// histories runs random sequences of appends, reads, trims, reopenings and crashes, and compares with a model: the list
// of records that are done.
func histories(ctx context.Context, e *env) error {
	var live []entry // done and not asked to be trimmed
	for i := range e.h.Histories {
		seed := e.h.Seed + uint64(i)
		var err error
		if live, err = e.history(ctx, rand.New(rand.NewPCG(seed, 0)), live); err != nil {
			return fmt.Errorf("history of seed %d: %w", seed, err)
		}
	}
	return nil
}

func (e *env) history(ctx context.Context, r *rand.Rand, live []entry) ([]entry, error) {
	largest := min(e.wal.Info().MaxRecord, 40_000)
	for step := range 40 {
		var err error
		what := ""
		switch r.IntN(10) {
		default:
			what = "append"
			size := r.IntN(200)
			if r.IntN(4) == 0 {
				size = r.IntN(largest)
			}
			var got []entry
			got, err = e.fill(ctx, 1+r.IntN(20), size, r.IntN(5) == 0)
			live = append(live, got...)
			if errors.Is(err, engine.ErrFull) {
				err = nil
			}
		case 0, 1:
			what = "trim"
			if n := len(live); n > 0 {
				k := r.IntN(n)
				err = e.wal.Trim(ctx, live[k].at)
				live = live[k+1:]
			}
		case 2, 3:
			what = "read"
			if n := len(live); n > 0 {
				from := r.IntN(n)
				to := from + r.IntN(n-from)
				var got []entry
				if got, err = e.read(ctx, live[from].at, live[to].at); err == nil {
					err = same("read", got, live[from+1:to+1])
				}
			}
		case 4:
			what = "reopen"
			if e.h.Crash != nil && r.IntN(2) == 0 {
				what = "crash"
				err = e.crash(ctx)
			} else {
				err = e.reopen(ctx)
			}
			var got []entry
			if err == nil {
				got, err = e.replay(ctx)
			}
			switch {
			case err != nil:
			case len(got) < len(live):
				err = fmt.Errorf("%d records came back, %d were done and not trimmed", len(got), len(live))
			default:
				err = same("replay", got[len(got)-len(live):], live)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", step, what, err)
		}
	}
	return live, nil
}

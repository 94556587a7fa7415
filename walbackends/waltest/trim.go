package waltest

import (
	"context"
	"errors"
	"fmt"

	"github.com/headpond/headpond/engine"
)

func trimChecks() []Check {
	return []Check{
		{Name: "trim-never-passes", Sentence: `it never passes its argument, and a position at or below an earlier trim is ignored.`, run: trimNeverPasses},
		{Name: "trim-beyond-done", Sentence: `Beyond the last done position it is [ErrInvalid].`, run: trimBeyond},
		{Name: "read-below-trim", Sentence: `Records at or below the trim position may be missing: a from below it is [ErrNotFound].`, run: readBelowTrim},
		{Name: "full-heals", Sentence: `A refusal is one of [ErrFull] (heals after a trim)`, run: fullHeals},
		{Name: "full-forever-usable", Sentence: `Space is reused or deleted only after the trim position is durable.`, run: turnsOver},
		{Name: "internal-reserve", Sentence: `Internal records may use the last part of the capacity, which other records may not`, run: reserveHolds},
	}
}

func trimNeverPasses(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 40, 2000, false)
	if err != nil {
		return err
	}
	for _, n := range []int{0, 10, 5, 10, 25} {
		if err := e.wal.Trim(ctx, all[n].at); err != nil {
			return err
		}
	}
	for range 2 {
		got, err := e.read(ctx, all[25].at, all[39].at)
		if err != nil {
			return err
		}
		if err := same("read beyond the trim", got, all[26:]); err != nil {
			return err
		}
		if trim := e.wal.Stats().Trim; trim > all[25].at {
			return fmt.Errorf("the trim position is %d, asked for was %d", trim, all[25].at)
		}
		if err := e.reopen(ctx); err != nil {
			return err
		}
		got, err = e.replay(ctx)
		if err != nil {
			return err
		}
		// A lazy trim may leave earlier records, but none of those beyond may be missing.
		if len(got) < 14 {
			return fmt.Errorf("%d records after the trim, 14 were not trimmed", len(got))
		}
		if err := same("replay", got, all[40-len(got):]); err != nil {
			return err
		}
	}
	return nil
}

func trimBeyond(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 2, 100, false)
	if err != nil {
		return err
	}
	if err := wants("trim beyond the end", e.wal.Trim(ctx, all[1].at+1), engine.ErrInvalid); err != nil {
		return err
	}
	return e.wal.Trim(ctx, all[1].at)
}

func readBelowTrim(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 10, 100, false)
	if err != nil {
		return err
	}
	if err := e.wal.Trim(ctx, all[4].at); err != nil {
		return err
	}
	_, err = e.read(ctx, all[3].at, all[9].at)
	return wants("read from below the trim", err, engine.ErrNotFound)
}

// untilFull appends records of a size until the log refuses one, and checks that it says full.
func (e *env) untilFull(ctx context.Context, size int, internal bool) ([]entry, error) {
	capacity := e.wal.Stats().Capacity
	if capacity > e.h.MaxFill {
		return nil, fmt.Errorf("%w: a capacity of %d bytes is not filled", ErrNotApplicable, capacity)
	}
	var all []entry
	for range 2*capacity/int64(size) + 1 {
		got, err := e.fill(ctx, 1, size, internal)
		if errors.Is(err, engine.ErrFull) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return nil, fmt.Errorf("%d records of %d bytes fit into a capacity of %d", len(all), size, capacity)
}

func fullHeals(ctx context.Context, e *env) error {
	size := min(e.wal.Info().MaxRecord, int(e.wal.Stats().Capacity/40))
	all, err := e.untilFull(ctx, size, false)
	if err != nil {
		return err
	}
	if s := e.wal.Stats(); s.Used <= s.Capacity/2 {
		return fmt.Errorf("full at %d of %d bytes", s.Used, s.Capacity)
	}
	if err := e.reopen(ctx); err != nil {
		return fmt.Errorf("a full log: %w", err)
	}
	if err := e.holds(ctx, 0, all); err != nil {
		return err
	}
	last := all[len(all)-1].at
	if err := e.wal.Trim(ctx, last); err != nil {
		return err
	}
	// Healing may wait for the trim to be durable, which no call waits for.
	for {
		got, err := e.fill(ctx, 1, size, false)
		if err == nil {
			return e.holds(ctx, last, got)
		}
		if !errors.Is(err, engine.ErrFull) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("still full after a trim: %w", err)
		}
	}
}

// turnsOver appends several times the capacity, with trims, and always finds what is not trimmed.
func turnsOver(ctx context.Context, e *env) error {
	capacity := e.wal.Stats().Capacity
	if capacity > e.h.MaxFill {
		return fmt.Errorf("%w: a capacity of %d bytes is not filled", ErrNotApplicable, capacity)
	}
	size := min(e.wal.Info().MaxRecord, int(capacity/50))
	var live []entry
	for written := int64(0); written < 4*capacity; {
		got, err := e.fill(ctx, 1, size, false)
		switch {
		case err == nil:
			live = append(live, got...)
			written += int64(size)
		case errors.Is(err, engine.ErrFull) && len(live) > 10:
			half := len(live) / 2
			if err := e.wal.Trim(ctx, live[half-1].at); err != nil {
				return err
			}
			live = live[half:]
			if err := e.holds(ctx, e.wal.Stats().Done, nil); err != nil {
				return err
			}
		case errors.Is(err, engine.ErrFull) && ctx.Err() == nil: // the trim is not durable yet
		default:
			return err
		}
	}
	got, err := e.read(ctx, live[0].at, live[len(live)-1].at)
	if err != nil {
		return err
	}
	if err := same("read", got, live[1:]); err != nil {
		return err
	}
	if err := e.reopen(ctx); err != nil {
		return err
	}
	got, err = e.replay(ctx)
	if err != nil {
		return err
	}
	if len(got) < len(live) {
		return fmt.Errorf("%d records after reopening, %d were not trimmed", len(got), len(live))
	}
	return same("replay", got[len(got)-len(live):], live)
}

func reserveHolds(ctx context.Context, e *env) error {
	size := min(e.wal.Info().MaxRecord, int(e.wal.Stats().Capacity/100))
	all, err := e.untilFull(ctx, size, false)
	if err != nil {
		return err
	}
	got, err := e.fill(ctx, 4, size, true)
	if err != nil {
		return fmt.Errorf("internal records in a full log: %w", err)
	}
	all = append(all, got...)
	_, err = e.fill(ctx, 1, size, false)
	if err := wants("append of another record", err, engine.ErrFull); err != nil {
		return err
	}
	got, err = e.untilFull(ctx, size, true) // the reserve ends too
	if err != nil {
		return err
	}
	all = append(all, got...)
	if err := e.reopen(ctx); err != nil {
		return err
	}
	return e.holds(ctx, 0, all)
}

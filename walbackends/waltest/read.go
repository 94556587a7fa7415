package waltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/headpond/headpond/engine"
)

func readChecks() []Check {
	const between = `Read calls fn for each record in (from, to], in order.`
	return []Check{
		{Name: "read-between", Sentence: between, run: readBetween},
		{Name: "read-bounds", Sentence: `to is at most the last done position, else [ErrInvalid].`, run: readBounds},
		{Name: "read-stops", Sentence: `A false from fn ends the read without error.`, run: readStops},
		{Name: "read-while-appending", Sentence: `All methods may be called concurrently.`, run: readWhileAppending},
		{Name: "replay-from-trim-to-end", Sentence: `Replay calls fn for every record from the trim position to the recovered end, in order.`, run: replayAll},
		{Name: "replay-stops", Sentence: `An error from fn ends the replay and is returned.`, run: replayStops},
	}
}

func readBetween(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 60, 900, false)
	if err != nil {
		return err
	}
	for round := range 2 {
		for _, r := range [][2]int{{0, 60}, {0, 0}, {0, 1}, {59, 60}, {17, 18}, {30, 30}, {5, 55}, {60, 60}} {
			at := func(i int) engine.Position {
				if i == 0 {
					return 0
				}
				return all[i-1].at
			}
			got, err := e.read(ctx, at(r[0]), at(r[1]))
			if err != nil {
				return fmt.Errorf("records (%d, %d], round %d: %w", r[0], r[1], round, err)
			}
			if err := same(fmt.Sprintf("records (%d, %d], round %d", r[0], r[1], round), got, all[r[0]:r[1]]); err != nil {
				return err
			}
		}
		if err := e.reopen(ctx); err != nil {
			return err
		}
	}
	return nil
}

func readBounds(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 3, 100, false)
	if err != nil {
		return err
	}
	_, err = e.read(ctx, 0, all[2].at+1)
	if err := wants("read beyond the last done position", err, engine.ErrInvalid); err != nil {
		return err
	}
	_, err = e.read(ctx, all[2].at+5, all[2].at+6)
	return wants("read beyond the end", err, engine.ErrInvalid)
}

func readStops(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 10, 100, false)
	if err != nil {
		return err
	}
	calls := 0
	err = e.wal.Read(ctx, 0, all[9].at, func(engine.Position, []byte) bool {
		calls++
		return calls < 4
	})
	if err != nil || calls != 4 {
		return fmt.Errorf("%d calls, error %v", calls, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	err = e.wal.Read(cancelled, 0, all[9].at, func(engine.Position, []byte) bool { return true })
	return wants("read with a cancelled context", err, context.Canceled)
}

func readWhileAppending(ctx context.Context, e *env) error {
	const n = 300
	all, err := e.fill(ctx, 20, 500, false)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 5)
	for range 4 {
		wg.Go(func() {
			for range 20 {
				got, err := e.read(ctx, 0, all[19].at)
				if err == nil {
					err = same("read", got, all)
				}
				if err != nil {
					errs <- err
					return
				}
				e.wal.Stats()
			}
		})
	}
	more, err := e.fill(ctx, n, 500, false)
	wg.Wait()
	if err != nil {
		return err
	}
	select {
	case err := <-errs:
		return err
	default:
		return e.holds(ctx, all[19].at, more)
	}
}

func replayAll(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 50, 400, false)
	if err != nil {
		return err
	}
	for round := range 3 {
		if err := e.reopen(ctx); err != nil {
			return err
		}
		i := e.wal.Info()
		from := slices.IndexFunc(all, func(r entry) bool { return r.at > i.Trim })
		if from < 0 {
			from = len(all)
		}
		more, err := e.fill(ctx, 1, 10, false) // beyond the recovered end
		if err != nil {
			return err
		}
		got, err := e.replay(ctx)
		if err != nil {
			return err
		}
		if err := same("replay", got, all[from:]); err != nil {
			return err
		}
		all = append(all, more...)
		if err := e.wal.Trim(ctx, all[10*(round+1)].at); err != nil {
			return err
		}
	}
	return nil
}

func replayStops(ctx context.Context, e *env) error {
	if _, err := e.fill(ctx, 5, 100, false); err != nil {
		return err
	}
	if err := e.reopen(ctx); err != nil {
		return err
	}
	mine, calls := errors.New("mine"), 0
	err := e.wal.Replay(ctx, func(engine.Position, []byte) error {
		calls++
		if calls == 2 {
			return mine
		}
		return nil
	})
	if !errors.Is(err, mine) || calls != 2 {
		return fmt.Errorf("%d calls, error %v", calls, err)
	}
	return nil
}

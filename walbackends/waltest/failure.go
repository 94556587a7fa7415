package waltest

import (
	"context"
	"errors"
	"fmt"

	"github.com/headpond/headpond/engine"
)

func failureChecks() []Check {
	const poison = `An admitted append ends done, or with the handle poisoned.`
	const kept = `It returns a prefix of what was admitted by earlier openings that includes all that was done.`
	return []Check{
		{Name: "failed-write-poisons", Sentence: poison, Fails: true, run: poisons},
		{Name: "crash-keeps-what-was-done", Sentence: kept, Crashes: true, run: crashKeeps},
		{Name: "crash-in-flight", Sentence: kept, Crashes: true, run: crashInFlight},
	}
}

func poisons(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 5, 500, false)
	if err != nil {
		return err
	}
	e.h.Fail()
	e.spoilt = true
	const n = 10
	done := make(chan error, n)
	admitted := 0
	for i := range n {
		_, err := e.wal.Append(engine.Record{Parts: cut(content(100+i, 500))}, func(err error) { done <- err })
		if errors.Is(err, engine.ErrPoisoned) {
			break
		}
		if err != nil {
			return err
		}
		admitted++
	}
	for range admitted {
		if err := wants("a completion after a failed write", await(ctx, done), engine.ErrPoisoned); err != nil {
			return err
		}
	}
	e.h.Heal()
	_, err = e.wal.Append(engine.Record{}, func(error) {})
	if err := wants("append to a poisoned log", err, engine.ErrPoisoned); err != nil {
		return err
	}
	s := e.wal.Stats()
	if s.Poisoned == nil || s.Done != all[4].at {
		return fmt.Errorf("poisoned after %d was done: %+v", all[4].at, s)
	}
	if err := e.reopen(ctx); err != nil {
		return fmt.Errorf("after poison: %w", err)
	}
	got, err := e.replay(ctx)
	if err != nil {
		return err
	}
	for i := range got[min(5, len(got)):] { // unknown outcome: a prefix of what was admitted
		all = append(all, entry{got[5+i].at, content(100+i, 500)})
	}
	if err := same("replay", got, all); err != nil {
		return err
	}
	more, err := e.fill(ctx, 3, 100, false)
	if err != nil {
		return err
	}
	return e.holds(ctx, 0, append(all, more...))
}

func crashKeeps(ctx context.Context, e *env) error {
	var all []entry
	for round := range 4 {
		got, err := e.fill(ctx, 25, 100+3000*round, false)
		if err != nil {
			return err
		}
		all = append(all, got...)
		if err := e.crash(ctx); err != nil {
			return err
		}
		got, err = e.replay(ctx)
		if err != nil {
			return err
		}
		if err := same("replay after the crash", got, all); err != nil {
			return err
		}
	}
	return nil
}

// crashInFlight crashes while appends are under way: what completed is there, and nothing but a prefix.
func crashInFlight(ctx context.Context, e *env) error {
	var all []entry
	for round := range 5 {
		const n = 60
		var sent []entry
		done := make(chan error, n)
		for i := range n {
			data := content(len(all)+i, 37*i)
			p, err := e.wal.Append(engine.Record{Parts: cut(data)}, func(err error) { done <- err })
			if err != nil {
				return err
			}
			sent = append(sent, entry{p, data})
		}
		completed := 0
		for range round * 10 {
			if err := await(ctx, done); err != nil {
				return err
			}
			completed++
		}
		if err := e.crash(ctx); err != nil { // the handle is closed: all have fired
			return err
		}
		for range n - completed {
			if await(ctx, done) == nil {
				completed++
			}
		}
		got, err := e.replay(ctx)
		if err != nil {
			return err
		}
		if len(got) < len(all)+completed {
			return fmt.Errorf("%d records after the crash, %d were done", len(got), len(all)+completed)
		}
		all = append(all, sent...)
		if len(got) > len(all) {
			return fmt.Errorf("%d records after the crash, %d were ever admitted", len(got), len(all))
		}
		all = all[:len(got)]
		if err := same("replay after the crash", got, all); err != nil {
			return err
		}
	}
	return nil
}

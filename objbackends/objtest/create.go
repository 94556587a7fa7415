package objtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/headpond/headpond/engine"
)

func createChecks() []Check {
	const race = `Of concurrent creates of one name exactly one returns nil; the others return [ErrExists].`
	return []Check{
		{Name: "create", Sentence: `Create is Put for a small object, if the name is absent.`, run: create},
		{Name: "create-has-one-winner", Sentence: race, run: createRace},
		{Name: "create-changes-nothing-that-exists", Sentence: `Errors after which nothing happened: [ErrInvalid], [ErrDenied], [ErrNotFound], [ErrExists], [ErrFull].`, run: createLoses},
		{Name: "create-borrows-its-data", Sentence: `data is borrowed for the call.`, run: createBorrows},
	}
}

func create(ctx context.Context, e *env) error {
	for _, n := range []int{0, 1, 4096, 100_000} {
		name := e.name(fmt.Sprintf("created-%d", n))
		data := pattern(name, n)
		if err := e.store.Create(ctx, name, data); err != nil {
			return err
		}
		if err := e.holds(ctx, name, data); err != nil {
			return err
		}
	}
	return nil
}

// createRace lets two handles of the store race, as two brokers would.
func createRace(ctx context.Context, e *env) error {
	other, err := e.h.Open(ctx)
	if err != nil {
		return fmt.Errorf("open a second handle: %w", err)
	}
	for round := range 5 {
		if err := raceOnce(ctx, e, other, e.name(fmt.Sprintf("race-%d", round))); err != nil {
			return errors.Join(err, other.Close())
		}
	}
	return other.Close()
}

func raceOnce(ctx context.Context, e *env, other engine.ObjectStore, name string) error {
	const racers = 8
	var wg sync.WaitGroup
	var errs [racers]error
	start := make(chan struct{})
	for i := range racers {
		s := e.store
		if i%2 == 1 {
			s = other
		}
		wg.Go(func() {
			<-start
			errs[i] = s.Create(ctx, name, pattern(fmt.Sprint("racer", i), 1000+i))
		})
	}
	close(start)
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			return fmt.Errorf("racers %d and %d both won", winner, i)
		case !errors.Is(err, engine.ErrExists):
			return fmt.Errorf("racer %d: %w", i, err)
		}
	}
	if winner < 0 {
		return fmt.Errorf("nobody won")
	}
	return e.holds(ctx, name, pattern(fmt.Sprint("racer", winner), 1000+winner))
}

func createLoses(ctx context.Context, e *env) error {
	created, put := e.name("created"), e.name("put")
	first := pattern(created, 5000)
	if err := errors.Join(e.store.Create(ctx, created, first), e.put(ctx, put, first)); err != nil {
		return err
	}
	for _, name := range []string{created, put} {
		for _, data := range [][]byte{first, pattern("other", 6000), nil} {
			err := want(fmt.Sprintf("create over %s", name), e.store.Create(ctx, name, data), engine.ErrExists)
			if err == nil {
				err = e.holds(ctx, name, first)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func createBorrows(ctx context.Context, e *env) error {
	name := e.name("borrowed")
	data := pattern(name, 5000)
	if err := e.store.Create(ctx, name, data); err != nil {
		return err
	}
	clear(data)
	return e.holds(ctx, name, pattern(name, 5000))
}

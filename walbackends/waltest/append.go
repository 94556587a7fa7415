package waltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/headpond/headpond/engine"
)

func appendChecks() []Check {
	const (
		order   = `Appends take effect in call order, and their completions fire in call order, each exactly once, from one goroutine of the WAL;`
		ordered = `Positions are ordered as records were admitted, start at zero (the end of nothing), survive reopening and mean nothing to anyone but the WAL`
		lent    = `The parts are borrowed until the completion fires and the WAL never writes to them;`
	)
	return []Check{
		{Name: "parts-are-joined", Sentence: `The record's bytes are the concatenation of its parts.`, run: joined},
		{Name: "completions-in-order", Sentence: order, run: inOrder},
		{Name: "completions-in-order-of-many-callers", Sentence: order, run: inOrderOfMany},
		{Name: "positions-grow", Sentence: ordered, run: positionsGrow},
		{Name: "parts-are-lent", Sentence: lent, run: lentParts},
		{Name: "done-is-readable", Sentence: `last done position`, run: doneIsReadable},
		{Name: "largest-record", Sentence: `largest record in bytes`, run: largest},
		{Name: "refusal-consumes-nothing", Sentence: `Append admits one record, or refuses it at once and consumes nothing.`, run: refused},
		{Name: "many-tiny-records", Sentence: `An admitted append ends done, or with the handle poisoned.`, run: tiny},
	}
}

func joined(ctx context.Context, e *env) error {
	var want []entry
	for _, parts := range [][][]byte{
		{[]byte("one")}, nil, {nil}, {[]byte("a"), []byte("b"), nil, []byte("c")}, {bytes.Repeat([]byte("long"), 5000), []byte("!")},
	} {
		p, err := e.append(ctx, engine.Record{Parts: parts})
		if err != nil {
			return err
		}
		want = append(want, entry{p, bytes.Join(parts, nil)})
	}
	return e.holds(ctx, 0, want)
}

func inOrder(ctx context.Context, e *env) error {
	const n = 500
	var mu sync.Mutex
	var fired []int
	all := make(chan error, n+1)
	for i := range n {
		_, err := e.wal.Append(engine.Record{Parts: cut(content(i, i%700))}, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			fired = append(fired, i)
			all <- err
		})
		if err != nil {
			return err
		}
	}
	for range n {
		if err := await(ctx, all); err != nil {
			return err
		}
	}
	if err := e.reopen(ctx); err != nil { // no completion comes later
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range max(n, len(fired)) {
		if i >= len(fired) || fired[i] != i {
			return fmt.Errorf("completion %d of %d is not the append's of that number", i, len(fired))
		}
	}
	return nil
}

// inOrderOfMany learns the call order from the positions, since only the log knows it.
func inOrderOfMany(ctx context.Context, e *env) error {
	const callers, each = 8, 60
	type fired struct {
		caller, number int
	}
	var order []fired // one goroutine fires completions: no lock, so that the race detector sees another one
	var at [callers][each]engine.Position
	all := make(chan error, callers*each)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				p, err := e.wal.Append(engine.Record{Parts: cut(content(i, 50*c))}, func(err error) {
					order = append(order, fired{c, i})
					all <- err
				})
				if err != nil {
					all <- err
				}
				at[c][i] = p
			}
		})
	}
	wg.Wait()
	for range callers * each {
		if err := await(ctx, all); err != nil {
			return err
		}
	}
	last := engine.Position(0)
	for _, f := range order {
		if at[f.caller][f.number] <= last {
			return fmt.Errorf("the completion of position %d fired after that of %d", at[f.caller][f.number], last)
		}
		last = at[f.caller][f.number]
	}
	return nil
}

func positionsGrow(ctx context.Context, e *env) error {
	if end := e.wal.Info().End; end != 0 {
		return fmt.Errorf("an empty log ends at %d", end)
	}
	last := engine.Position(0)
	for round := range 3 {
		for i := range 20 {
			p, err := e.append(ctx, engine.Record{Parts: cut(content(i, 0))})
			if err != nil {
				return err
			}
			if p <= last {
				return fmt.Errorf("position %d after %d in round %d", p, last, round)
			}
			last = p
		}
		if err := e.reopen(ctx); err != nil {
			return err
		}
		if end := e.wal.Info().End; end != last {
			return fmt.Errorf("reopened at %d, closed at %d", end, last)
		}
	}
	return nil
}

func lentParts(ctx context.Context, e *env) error {
	const n = 50
	var want []entry
	done := make(chan error, n)
	for i := range n {
		data := content(i, 3000)
		lent := bytes.Clone(data)
		p, err := e.wal.Append(engine.Record{Parts: cut(lent)}, func(err error) {
			if err == nil && !bytes.Equal(lent, data) {
				err = fmt.Errorf("the parts of record %d were changed", i)
			}
			clear(lent) // from now on they are the caller's
			done <- err
		})
		if err != nil {
			return err
		}
		want = append(want, entry{p, data})
	}
	for range n {
		if err := await(ctx, done); err != nil {
			return err
		}
	}
	if err := e.holds(ctx, 0, want); err != nil {
		return err
	}
	if err := e.reopen(ctx); err != nil {
		return err
	}
	return e.holds(ctx, 0, want)
}

func doneIsReadable(ctx context.Context, e *env) error {
	last := engine.Position(0)
	for i := range 20 {
		found := make(chan error, 1)
		data := content(i, 100)
		var p engine.Position
		admitted := make(chan struct{})
		p, err := e.wal.Append(engine.Record{Parts: cut(data)}, func(err error) {
			<-admitted
			if s := e.wal.Stats(); err == nil && (s.Done < p || s.Admitted < s.Done) {
				err = fmt.Errorf("position %d completed while the log is done up to %d and admitted up to %d", p, s.Done, s.Admitted)
			}
			found <- err
		})
		close(admitted)
		if err != nil {
			return err
		}
		if err := await(ctx, found); err != nil {
			return err
		}
		got, err := e.read(ctx, last, p)
		if err != nil {
			return err
		}
		if err := same("read", got, []entry{{p, data}}); err != nil {
			return err
		}
		last = p
	}
	return nil
}

func largest(ctx context.Context, e *env) error {
	size := e.wal.Info().MaxRecord
	if int64(size) > e.h.MaxFill {
		return fmt.Errorf("%w: the largest record has %d bytes", ErrNotApplicable, size)
	}
	data := content(1, size)
	p, err := e.append(ctx, engine.Record{Parts: cut(data)})
	if err != nil {
		return fmt.Errorf("a record of %d bytes: %w", size, err)
	}
	if err := e.holds(ctx, 0, []entry{{p, data}}); err != nil {
		return err
	}
	_, err = e.wal.Append(engine.Record{Parts: cut(content(1, size+1))}, func(error) {})
	return wants("append of one byte more", err, engine.ErrTooLarge)
}

func refused(ctx context.Context, e *env) error {
	first, err := e.append(ctx, engine.Record{Parts: cut(content(0, 10))})
	if err != nil {
		return err
	}
	before := e.wal.Stats()
	fired := make(chan error, 1)
	_, err = e.wal.Append(engine.Record{Parts: [][]byte{make([]byte, e.wal.Info().MaxRecord), {1}}}, func(err error) { fired <- err })
	if err := wants("append of a record that is too large", err, engine.ErrTooLarge); err != nil {
		return err
	}
	if !errors.Is(err, engine.ErrInvalid) {
		return fmt.Errorf("too large is not invalid: %w", err)
	}
	if after := e.wal.Stats(); after.Admitted != before.Admitted || after.Poisoned != nil {
		return fmt.Errorf("a refusal changed %+v to %+v", before, after)
	}
	data := content(1, 10)
	next, err := e.append(ctx, engine.Record{Parts: cut(data)})
	if err != nil {
		return err
	}
	got, err := e.read(ctx, first, next)
	if err != nil {
		return err
	}
	if err := same("read", got, []entry{{next, data}}); err != nil {
		return err
	}
	if err := e.reopen(ctx); err != nil { // all completions have fired
		return err
	}
	select {
	case <-fired:
		return errors.New("the completion of a refused append fired")
	default:
		return nil
	}
}

func tiny(ctx context.Context, e *env) error {
	const n, at = 5000, 500
	var want []entry
	for range n / at { // a small log takes a part at a time
		got, err := e.fill(ctx, at, 0, false)
		want = append(want, got...)
		if errors.Is(err, engine.ErrFull) {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := e.holds(ctx, 0, want); err != nil {
		return err
	}
	if err := e.reopen(ctx); err != nil {
		return err
	}
	got, err := e.replay(ctx)
	if err != nil {
		return err
	}
	return same("replay", got, want)
}

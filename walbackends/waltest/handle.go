package waltest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/headpond/headpond/engine"
)

func handleChecks() []Check {
	const closed = `After Close every method but Close returns [ErrClosed]; a second Close returns what the first did.`
	return []Check{
		{Name: "info", Sentence: `Info describes this opening of the log. It is constant and needs no I/O.`, run: info},
		{Name: "epochs-grow", Sentence: `the new owner's epoch is the greater of it and the highest epoch in the log, plus one.`, run: epochs},
		{Name: "one-owner", Sentence: `Where fencing is advisory, it fails while an earlier owner holds the log.`, run: oneOwner},
		{Name: "create-only-on-request", Sentence: `Create makes the log when there is none.`, run: create},
		{Name: "read-only", Sentence: `ReadOnly opens without claiming the log: nothing is written, appends and trims are [ErrInvalid].`, run: readOnly},
		{Name: "closed", Sentence: closed, run: closedHandle},
		{Name: "close-completes", Sentence: `An append that cannot end is failed, so that every completion has fired when Close returns.`, run: closeCompletes},
		{Name: "writes-are-told", Sentence: `OnWrite, when set, is called after each device write with what it took`, run: onWrite},
	}
}

func info(ctx context.Context, e *env) error {
	i := e.wal.Info()
	switch {
	case !i.Fresh || i.End != 0 || i.Trim != 0 || i.Cut != 0:
		return fmt.Errorf("a log that was just made: %+v", i)
	case i.ID == engine.ID{} || i.URL == "" || i.MaxRecord <= 0:
		return fmt.Errorf("identity, place or largest record is missing: %+v", i)
	}
	all, err := e.fill(ctx, 3, 100, false)
	if err != nil {
		return err
	}
	if now := e.wal.Info(); now != i {
		return fmt.Errorf("was %+v, is %+v", i, now)
	}
	if err := e.reopen(ctx); err != nil {
		return err
	}
	again := e.wal.Info()
	if again.ID != i.ID || again.Fresh || again.End != all[2].at || again.Cut != 0 || again.Capabilities != i.Capabilities {
		return fmt.Errorf("was %+v, after reopening %+v", i, again)
	}
	return nil
}

func epochs(ctx context.Context, e *env) error {
	last := e.wal.Info().Epoch
	for _, o := range []engine.WALOptions{{}, {MinEpoch: 1}, {MinEpoch: last + 100}, {MinEpoch: 3}, {}} {
		if err := e.wal.Close(); err != nil {
			return err
		}
		e.wal = nil
		if err := e.open(ctx, o); err != nil {
			return err
		}
		if got, want := e.wal.Info().Epoch, max(last, o.MinEpoch)+1; got != want {
			return fmt.Errorf("epoch %d after %d with a minimum of %d", got, last, o.MinEpoch)
		}
		last = e.wal.Info().Epoch
	}
	return nil
}

func oneOwner(ctx context.Context, e *env) error {
	if f := e.wal.Info().Fencing; f != engine.FencingAdvisory {
		return fmt.Errorf("%w: fencing is %s", ErrNotApplicable, f)
	}
	for range 2 {
		second, err := e.h.Open(ctx, engine.WALOptions{Create: true})
		if err == nil {
			_ = second.Close()
		}
		if err := wants("a second open", err, engine.ErrFenced); err != nil {
			return err
		}
		if _, err := e.fill(ctx, 1, 100, false); err != nil {
			return fmt.Errorf("the first owner, after a second open failed: %w", err)
		}
	}
	return nil
}

// create can only be checked from the other side: the log exists, so a request changes nothing.
func create(ctx context.Context, e *env) error {
	id := e.wal.Info().ID
	all, err := e.fill(ctx, 3, 100, false)
	if err != nil {
		return err
	}
	if err := e.wal.Close(); err != nil {
		return err
	}
	e.wal = nil
	if err := e.open(ctx, engine.WALOptions{Create: true}); err != nil {
		return err
	}
	if i := e.wal.Info(); i.Fresh || i.ID != id {
		return fmt.Errorf("a log that exists was made anew: %+v", i)
	}
	return e.holds(ctx, 0, all)
}

func readOnly(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 10, 1000, false)
	if err != nil {
		return err
	}
	epoch := e.wal.Info().Epoch
	reader, err := e.h.Open(ctx, engine.WALOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("open read-only beside the owner: %w", err)
	}
	owner := e.wal
	e.wal = reader
	got, err := e.replay(ctx)
	if err == nil {
		err = same("replay", got, all)
	}
	if err == nil {
		_, refused := reader.Append(engine.Record{}, func(error) {})
		err = errors.Join(wants("append", refused, engine.ErrInvalid), wants("trim", reader.Trim(ctx, all[0].at), engine.ErrInvalid))
	}
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}
	e.wal = owner
	if _, err := e.fill(ctx, 1, 100, false); err != nil {
		return fmt.Errorf("the owner, after a reader: %w", err)
	}
	if err := e.reopen(ctx); err != nil {
		return err
	}
	if got := e.wal.Info().Epoch; got != epoch+1 {
		return fmt.Errorf("epoch %d after one owner of epoch %d and a reader", got, epoch)
	}
	return nil
}

func closedHandle(ctx context.Context, e *env) error {
	all, err := e.fill(ctx, 3, 100, false)
	if err != nil {
		return err
	}
	w := e.wal
	if err := e.reopen(ctx); err != nil {
		return err
	}
	_, appended := w.Append(engine.Record{}, func(error) {})
	return errors.Join(
		wants("append", appended, engine.ErrClosed),
		wants("trim", w.Trim(ctx, all[0].at), engine.ErrClosed),
		wants("read", w.Read(ctx, 0, all[2].at, func(engine.Position, []byte) bool { return true }), engine.ErrClosed),
		wants("replay", w.Replay(ctx, func(engine.Position, []byte) error { return nil }), engine.ErrClosed),
		w.Close(),
		e.holds(ctx, 0, all),
	)
}

func closeCompletes(ctx context.Context, e *env) error {
	const n = 200
	for range 3 {
		var fired atomic.Int64
		var failed atomic.Int64
		for i := range n {
			_, err := e.wal.Append(engine.Record{Parts: cut(content(i, 300))}, func(err error) {
				fired.Add(1)
				if err != nil {
					failed.Add(1)
				}
			})
			if err != nil {
				return err
			}
		}
		before := e.wal.Stats().Admitted
		if err := e.reopen(ctx); err != nil {
			return err
		}
		if fired.Load() != n || failed.Load() != 0 {
			return fmt.Errorf("%d of %d completions had fired when Close returned, %d with an error", fired.Load(), n, failed.Load())
		}
		if end := e.wal.Info().End; end != before {
			return fmt.Errorf("%d was admitted before the close, the log ends at %d", before, end)
		}
	}
	return nil
}

func onWrite(ctx context.Context, e *env) error {
	if err := e.wal.Close(); err != nil {
		return err
	}
	e.wal = nil
	var bytes, records atomic.Int64
	if err := e.open(ctx, engine.WALOptions{OnWrite: func(w engine.WALWrite) {
		bytes.Add(int64(w.Bytes))
		records.Add(int64(w.Records))
	}}); err != nil {
		return err
	}
	all, err := e.fill(ctx, 100, 1000, false)
	if err != nil {
		return err
	}
	w := e.wal
	e.wal = nil
	if err := w.Close(); err != nil {
		return err
	}
	if records.Load() != int64(len(all)) || bytes.Load() < 100*1000 {
		return fmt.Errorf("told of %d records and %d bytes, appended 100 of 1000", records.Load(), bytes.Load())
	}
	return nil
}

package engine

import (
	"context"
	"errors"
	"fmt"
)

// mayMigrate says whether the start is with another log than the registered one, which can be opened to be drained.
func (e *Engine) mayMigrate(known root) bool {
	return e.o.OpenRegisteredWAL != nil && known.URL != "" && known.URL != e.o.WALURL
}

// migrate opens the registered log, which fences its owner, moves all that it holds into objects, and registers the new one in its
// place. A crash on the way leaves the old log registered, and the next start begins again.
func (e *Engine) migrate(ctx context.Context, known root) (WAL, error) {
	open, err := e.o.OpenRegisteredWAL(known.URL)
	if err != nil {
		return nil, fmt.Errorf("the registered log %s: %w", known.URL, err)
	}
	e.o.Logger.Info("the log was changed: the registered one is drained first", "registered", known.URL, "new", e.o.WALURL)
	old, err := open(ctx, WALOptions{MinEpoch: known.Epoch})
	if err != nil {
		return nil, fmt.Errorf("open the registered log %s, to drain it into objects: %w", known.URL, err)
	}
	if err := e.drain(ctx, old, known); err != nil {
		return nil, fmt.Errorf("drain the registered log %s: %w", known.URL, err)
	}
	wal, err := e.o.OpenWAL(ctx, WALOptions{Create: true, OnWrite: e.o.Events.WALWrite})
	if err != nil {
		return nil, fmt.Errorf("open the new log %s: %w", e.o.WALURL, err)
	}
	if info := wal.Info(); info.End > 0 {
		return nil, errors.Join(fmt.Errorf("%w: the new log %s holds records of its own", ErrInvalid, info.URL), wal.Close())
	}
	state, err := e.index().State()
	if err == nil {
		err = e.replaceWAL(ctx, known, wal.Info(), state)
	}
	if err != nil {
		return nil, errors.Join(err, wal.Close())
	}
	e.epoch = wal.Info().Epoch
	return wal, nil
}

// drain runs a session on the old log until everything in it is in objects, its commits too.
func (e *Engine) drain(ctx context.Context, old WAL, known root) error {
	state, err := e.index().State()
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errIndex, err), old.Close())
	}
	if err := e.adopt(ctx, old, known, state); err != nil {
		return errors.Join(err, old.Close())
	}
	s := newSession(e, old)
	if err = s.recover(ctx); err == nil {
		s.start()
		if err = s.flush(ctx); err == nil {
			err = s.saveLast(ctx)
		}
	}
	e.endSession(s, fmt.Errorf("%w: the log is drained", ErrUnavailable))
	return err
}

// saveLast ends the session with every commit of it copied to objects: none is written while they are copied, nor after.
func (s *session) saveLast(ctx context.Context) error {
	if err := s.commits.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: last commits: %w", ErrUnavailable, err)
	}
	defer s.commits.Release(1)
	err := s.alive()
	if err == nil {
		err = s.saveAllCommits(ctx)
	}
	s.fail(fmt.Errorf("%w: the log is drained", ErrUnavailable))
	return err
}

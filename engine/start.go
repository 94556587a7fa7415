package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rootWait is how long a start with a usable index waits for the store to say whose prefix it is. The uploader asks again before
// its first put, so a store that is away does not keep a broker from starting.
const rootWait = 3 * time.Second

// openWAL opens the log. The first time it checks that log, objects and index belong together: a log is made only where nothing
// says that there was one, so that a lost log is never taken for a new cluster.
func (e *Engine) openWAL(ctx context.Context, first bool) (WAL, error) {
	if !first {
		wal, err := e.o.OpenWAL(ctx, WALOptions{MinEpoch: e.epoch, OnWrite: e.o.Events.WALWrite})
		if err != nil {
			return nil, fmt.Errorf("open the log %s: %w", e.o.WALURL, err)
		}
		e.epoch = wal.Info().Epoch
		return wal, nil
	}
	state, err := e.index().State()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	known, err := e.whatIsRegistered(ctx, state)
	if err != nil {
		return nil, err
	}
	wal, err := e.o.OpenWAL(ctx, WALOptions{MinEpoch: known.Epoch, Create: known.WAL == ID{}, OnWrite: e.o.Events.WALWrite})
	switch {
	case isNotFound(err):
		if e.mayMigrate(known) {
			return e.migrate(ctx, known)
		}
		return nil, fmt.Errorf("the log %s is absent, and the cluster's log %x is registered as %q: bring it back, or point to where it is; "+
			"without it acknowledged records would be lost: %w", e.o.WALURL, known.WAL, known.URL, err)
	case err != nil:
		return nil, fmt.Errorf("open the log %s: %w", e.o.WALURL, err)
	}
	if info := wal.Info(); info.ID != known.WAL && info.End == 0 && e.mayMigrate(known) {
		if err := wal.Close(); err != nil { // made by a start that was cut short on its way from the registered log
			return nil, err
		}
		return e.migrate(ctx, known)
	}
	if err := e.adopt(ctx, wal, known, state); err != nil {
		return nil, errors.Join(err, wal.Close())
	}
	e.epoch = wal.Info().Epoch
	return wal, nil
}

// whatIsRegistered joins what the index and the store's root say of the cluster. The root counts where both speak, since the index
// may be an older copy.
func (e *Engine) whatIsRegistered(ctx context.Context, state IndexState) (root, error) {
	known := root{Cluster: state.Cluster, WAL: state.WAL}
	wait := ctx
	if known.Cluster != (ID{}) {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, rootWait)
		defer cancel()
	}
	stored, err := e.store.readRoot(wait)
	switch {
	case isNotFound(err) && known.Cluster != (ID{}):
		// Root objects are never deleted: this is another place, or what was there is gone.
		return known, fmt.Errorf("%w: the index belongs to cluster %x, and %s holds no root object of it: is it the right place, and mounted?", ErrInvalid, known.Cluster, e.o.Store.Info().URL)
	case isNotFound(err):
		return known, nil
	case err != nil && known.Cluster != (ID{}) && errors.Is(err, ErrUnavailable):
		e.o.Logger.Warn("the object store does not answer; whose prefix it is will be checked before the first upload", "store", e.o.Store.Info().URL, "err", err)
		return known, nil
	case err != nil:
		return known, fmt.Errorf("object store %s: %w", e.o.Store.Info().URL, err)
	}
	if known.Cluster != (ID{}) && known.Cluster != stored.Cluster {
		return known, fmt.Errorf("%w: the index belongs to cluster %x and the objects in %s to cluster %x", ErrInvalid, known.Cluster, e.o.Store.Info().URL, stored.Cluster)
	}
	return stored, nil
}

// adopt checks that the opened log is the registered one, or registers a new one.
func (e *Engine) adopt(ctx context.Context, wal WAL, known root, state IndexState) error {
	info := wal.Info()
	switch {
	case known.WAL == info.ID:
		if info.Epoch <= known.Epoch {
			return fmt.Errorf("%w: the log %s is at owner epoch %d, and epoch %d is registered: it is an old copy", ErrInvalid, info.URL, info.Epoch, known.Epoch)
		}
		e.cluster = known.Cluster
		if state.Cluster == (ID{}) || state.WAL != info.ID {
			return e.bindIndex(ctx, state, info.ID)
		}
		return nil
	case known.WAL == ID{}:
		return e.found(ctx, wal, state)
	case info.Domain == DomainProcess && info.Fresh:
		// Such a log is gone with its process; the next one takes its place.
		e.cluster = known.Cluster
		return e.replaceWAL(ctx, known, info, state)
	}
	return fmt.Errorf("%w: the log %s is %x, and the cluster's log is %x, registered as %q", ErrInvalid, info.URL, info.ID, known.WAL, known.URL)
}

// found makes the cluster's first root. A log that holds something and whose beginning is gone can't be the first one.
func (e *Engine) found(ctx context.Context, wal WAL, state IndexState) error {
	info := wal.Info()
	if info.Trim > 0 {
		return fmt.Errorf("%w: the log %s has handed records on to objects, and %s holds none of them: is it the right place?", ErrInvalid, info.URL, e.o.Store.Info().URL)
	}
	cluster, err := clusterOf(ctx, wal)
	if err != nil {
		return err
	}
	if cluster == (ID{}) {
		cluster = newID()
	}
	e.cluster = cluster
	if err := e.store.createRoot(ctx, 0, root{Cluster: cluster, WAL: info.ID, URL: info.URL, Epoch: info.Epoch}); err != nil {
		return fmt.Errorf("object store %s: %w", e.o.Store.Info().URL, err)
	}
	return e.bindIndex(ctx, state, info.ID)
}

// bindIndex makes the index one of this cluster and log. Commits of earlier logs are in objects alone, and nothing in this log tells
// that they are missing. So they are applied first, and the index is bound to each log before its first commit: one that is bound to
// this log lacks nothing that came before it, even where the way here was cut short.
func (e *Engine) bindIndex(ctx context.Context, state IndexState, wal ID) error {
	reset := state.Cluster == (ID{})
	bind := func(to ID) (err error) {
		switch {
		case reset:
			err = e.index().Reset(ctx, e.cluster, to)
		case state.WAL != to:
			err = e.index().SetWAL(ctx, to)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errIndex, err)
		}
		reset, state.WAL = false, to
		return nil
	}
	err := e.store.readCommits(ctx, e.cluster, state.Seq+1, func(c *Commit, sum uint32) error {
		if err := bind(c.WAL); err != nil {
			return err
		}
		return e.applyCommit(ctx, c, sum)
	})
	if err != nil {
		return err
	}
	return bind(wal)
}

// applyCommit applies a commit that was found in the log or in an object.
func (e *Engine) applyCommit(ctx context.Context, c *Commit, sum uint32) error {
	if err := e.index().Apply(ctx, c, sum); err != nil {
		return fmt.Errorf("%w: commit %d: %w", errIndex, c.Seq, err)
	}
	return nil
}

// replaceWAL registers another log in place of the registered one, of which nothing is needed any more.
func (e *Engine) replaceWAL(ctx context.Context, known root, info WALInfo, state IndexState) error {
	now, err := e.store.readRoot(ctx) // draining the old log may have registered its last opening
	if err != nil {
		return fmt.Errorf("object store %s: %w", e.o.Store.Info().URL, err)
	}
	if now.Cluster != known.Cluster || now.WAL != known.WAL {
		return fmt.Errorf("%w: another broker registered its log in %s meanwhile", ErrFenced, e.o.Store.Info().URL)
	}
	next := root{Cluster: known.Cluster, WAL: info.ID, URL: info.URL, Epoch: info.Epoch}
	if err := e.store.createRoot(ctx, now.number+1, next); err != nil {
		return fmt.Errorf("object store %s: %w", e.o.Store.Info().URL, err)
	}
	return e.bindIndex(ctx, state, info.ID)
}

// clusterKey is the metadata key of the cluster's identity, which the first commit writes.
const clusterKey = "cluster"

// clusterOf looks for the cluster's identity in the log itself.
func clusterOf(ctx context.Context, wal WAL) (cluster ID, err error) {
	if wal.Info().Fresh {
		return ID{}, nil
	}
	stop := errors.New("found")
	err = wal.Replay(ctx, func(_ Position, record []byte) error {
		kind, _, body, err := splitRecord(record)
		if err != nil || kind != walCommit {
			return err
		}
		c, err := DecodeCommit(body)
		if err != nil {
			return err
		}
		for _, m := range c.Meta {
			if m.Key == clusterKey && len(m.Value) == len(cluster) {
				copy(cluster[:], m.Value)
				return stop
			}
		}
		return nil
	})
	if errors.Is(err, stop) {
		err = nil
	}
	return cluster, err
}

// reviveIndex opens the index again after it failed.
func (e *Engine) reviveIndex(first bool) error {
	if first || !e.indexFailed.Load() || e.o.ReopenIndex == nil {
		return nil
	}
	if err := e.index().Close(); err != nil {
		e.o.Logger.Warn("closing the failed index", "err", err)
	}
	idx, err := e.o.ReopenIndex()
	if err != nil {
		return fmt.Errorf("%w: %w", errIndex, err)
	}
	e.idx.Store(&idx)
	e.indexFailed.Store(false)
	return nil
}

// catchUp applies the commits that the index lacks and the log no longer holds: commits are copied to objects before the log
// forgets them. An index that has all that was trimmed needs no object.
func (e *Engine) catchUp(ctx context.Context, info WALInfo) (IndexState, error) {
	state, err := e.index().State()
	if err != nil {
		return state, fmt.Errorf("%w: %w", errIndex, err)
	}
	if state.Through > info.End {
		return state, &CorruptError{Where: info.URL, Offset: -1, Reason: fmt.Sprintf("the log ends at position %d, and the index has commits of it up to %d: the log is an old copy or has lost its end", info.End, state.Through)}
	}
	if state.Seq > 0 && state.Through >= info.Trim {
		return state, nil
	}
	err = e.store.readCommits(ctx, e.cluster, state.Seq+1, func(c *Commit, sum uint32) error {
		return e.applyCommit(ctx, c, sum)
	})
	if err != nil {
		return state, err
	}
	if state, err = e.index().State(); err != nil {
		return state, fmt.Errorf("%w: %w", errIndex, err)
	}
	if state.Through < info.Trim {
		return state, &CorruptError{Where: e.o.Store.Info().URL, Offset: -1, Reason: fmt.Sprintf(
			"commit-log objects end with commit %d, which covers the log up to position %d; the log begins at %d: commits between are missing", state.Seq, state.Through, info.Trim)}
	}
	return state, nil
}

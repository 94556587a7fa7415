package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/headpond/headpond/engine"
)

// formatVersion of Pebble's files. It is raised on purpose only: a store is never opened again by a program that knows
// lower ones only.
const formatVersion = pebble.FormatTableFormatV6

// store is what belongs to one opening of the Pebble store besides itself.
type store struct {
	ix   *Index
	gate *gate

	mu       sync.Mutex
	corrupt  error         // damage that background work has met
	flushErr error         // what the last flush ended with, be it a failure or not
	failed   chan struct{} // closed and replaced at each failure of a flush
	err      error         // the last of them
}

func newStore(ix *Index) *store {
	return &store{ix: ix, gate: newGate(ix.o.FS), failed: make(chan struct{})}
}

func (st *store) options() *pebble.Options {
	o := &pebble.Options{
		FS:                 st.gate,
		Lock:               st.ix.lock,
		Logger:             storeLogger{st},
		CacheSize:          st.ix.o.CacheBytes,
		FormatMajorVersion: formatVersion,
		DisableWAL:         true,
		MemTableSize:       uint64(st.ix.o.MemTableBytes),
		// makeRoom bounds what is in memory and what is on disk unsorted, with an error where Pebble would wait without end.
		MemTableStopWritesThreshold: 16,
		L0StopWritesThreshold:       1 << 20,
		// A sync makes a small table; a small base level keeps the cost of merging them in proportion.
		L0CompactionThreshold: 8,
		LBaseMaxBytes:         4 << 20,
		MaxOpenFiles:          500,
		EventListener: &pebble.EventListener{
			BackgroundError: st.backgroundError,
			DataCorruption:  func(info pebble.DataCorruptionInfo) { st.noteCorrupt(info.Details) },
			FlushEnd:        st.flushEnded,
		},
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 1 }
	// The default scheduler asks ten times a second whether the limit on compactions has changed, which it never does here,
	// and goes on asking when the store could not be opened.
	o.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	return o
}

func (st *store) flushEnded(info pebble.FlushInfo) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.flushErr = info.Err
}

// backgroundError is mostly called with the Pebble store's lock held. A flush that failed comes here after flushEnded with
// the same error; one of nothing ends with an error too, but is no failure and does not come here.
func (st *store) backgroundError(err error) {
	st.mu.Lock()
	ofFlush := st.flushErr != nil && errors.Is(err, st.flushErr)
	st.mu.Unlock()
	if ofFlush {
		st.flushFailed(err)
	}
	if pebble.IsCorruptionError(err) {
		st.noteCorrupt(err)
	}
	if st.gate.frozen() != nil || st.damage() != nil {
		// Pebble tries again at once and without end, until the store is closed. Some of its work fails before it comes to
		// create a file, where the gate would hold it.
		t := time.NewTimer(10 * time.Millisecond)
		defer t.Stop()
		select {
		case <-t.C:
		case <-st.gate.closed:
		}
	}
}

func (st *store) noteCorrupt(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.corrupt == nil {
		st.corrupt = st.ix.damaged(err)
	}
}

func (st *store) flushFailed(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.err = err
	close(st.failed)
	st.failed = make(chan struct{})
}

// failure returns a channel that is closed at the next failure of a flush.
func (st *store) failure() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.failed
}

func (st *store) lastFailure() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.err
}

func (st *store) damage() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.corrupt
}

// close closes the Pebble store, whatever state it is in.
func (st *store) close(db *pebble.DB) (err error) {
	st.gate.release()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: pebble: %v", engine.ErrUnavailable, r)
		}
	}()
	return db.Close()
}

// drainTime is how long reads are kept waiting at most for the replacement of a store that has failed to begin.
const drainTime = 200 * time.Millisecond

// pendingBatch is a batch that may have to be applied again.
type pendingBatch struct {
	content []byte
	state   []byte // the row of the state after it
}

// flush is one that is under way.
type flush struct {
	done    <-chan struct{}
	batches int // how many of pending it makes durable
}

// writable returns nil when the store can be written. One that has failed is opened again, if the cause is gone.
func (ix *Index) writable() error {
	if ix.isClosed() {
		return engine.ErrClosed
	}
	if ix.db != nil {
		if err := ix.store.damage(); err != nil {
			return err
		}
		if ix.store.gate.frozen() == nil {
			return nil
		}
	}
	return ix.reopen()
}

// stateNow is State for one who holds writer.
func (ix *Index) stateNow() (engine.IndexState, error) { return ix.stateOf(ix.db) }

// commit adds the new state to a batch and makes it visible.
func (ix *Index) commit(b *pebble.Batch, st engine.IndexState) error {
	state := appendState(nil, st)
	if err := b.Set(stateKey, state, nil); err != nil {
		return ix.classify(err)
	}
	content := slices.Clone(b.Repr()) // Pebble may keep the batch's own
	if err := b.Commit(pebble.NoSync); err != nil {
		return ix.classify(err)
	}
	ix.pending = append(ix.pending, pendingBatch{content: content, state: state})
	ix.bytes += len(content)
	return nil
}

// makeRoom bounds what a crash loses and what memory holds: where enough is pending, it is made durable first.
func (ix *Index) makeRoom(ctx context.Context) error {
	ix.settle()
	if ix.bytes < ix.o.MemTableBytes/2 {
		return nil
	}
	return ix.sync(ctx)
}

// sync makes durable what is pending. After an error the flush goes on trying, and the next call finds it.
func (ix *Index) sync(ctx context.Context) error {
	for len(ix.pending) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		failed := ix.store.failure()
		if err := ix.store.gate.frozen(); err != nil { // nothing would end the wait
			return ix.classify(err)
		}
		if ix.flush == nil {
			done, err := ix.db.AsyncFlush()
			if err != nil {
				return ix.classify(err)
			}
			ix.flush = &flush{done: done, batches: len(ix.pending)}
		}
		select {
		case <-ix.flush.done:
		case <-failed:
		case <-ctx.Done():
		}
		if ix.settle() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ix.store.gate.frozen(); err != nil {
			return ix.classify(err)
		}
		return ix.classify(ix.store.lastFailure())
	}
	return nil
}

// settle takes note of a flush that has ended, and says whether one has.
func (ix *Index) settle() bool {
	if ix.flush == nil {
		return false
	}
	select {
	case <-ix.flush.done:
	default:
		return false
	}
	for _, b := range ix.pending[:ix.flush.batches] {
		ix.bytes -= len(b.content)
	}
	ix.pending = slices.Clone(ix.pending[ix.flush.batches:])
	ix.flush = nil
	return true
}

// reopen replaces a store that has failed, and applies again what was not durable. Reads go on from the old one until
// the new one can be had.
func (ix *Index) reopen() error {
	if ix.db != nil {
		cause := ix.store.gate.frozen()
		if err := ix.probe(); err != nil {
			return fmt.Errorf("the store has failed (%w) and cannot be opened again yet: %w", ix.classify(cause), err)
		}
		if !ix.drain() {
			return fmt.Errorf("the store has failed and is being read, so that it cannot be opened again yet: %w", ix.classify(cause))
		}
		ix.settle()
		_ = ix.store.close(ix.db) // complains about what has failed
		ix.flush = nil
	} else {
		ix.mu.Lock()
		ix.swap = true
		ix.mu.Unlock()
	}
	db, st, err := ix.openStore()
	if err == nil {
		err = ix.applyPending(db)
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if err != nil && db != nil {
		_ = st.close(db)
		db = nil
	}
	ix.db, ix.store, ix.why, ix.swap = db, st, err, false
	ix.changed.Broadcast()
	return err
}

// drain keeps new reads waiting until the ones under way have ended, and says whether they have. It gives up in time: a
// read's callback may be among those that wait, for a read of its own.
func (ix *Index) drain() bool {
	expired := false
	t := time.AfterFunc(drainTime, func() {
		ix.mu.Lock()
		defer ix.mu.Unlock()
		expired = true
		ix.changed.Broadcast()
	})
	defer t.Stop()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.swap = true
	for ix.readers > 0 && !expired {
		ix.changed.Wait()
	}
	if ix.readers > 0 {
		ix.swap = false
		ix.changed.Broadcast()
	}
	return ix.swap
}

// applyPending brings a store that was opened again to where it was. It may hold some of what is pending, if the failure
// came after the write: its state tells how much.
func (ix *Index) applyPending(db *pebble.DB) error {
	var state []byte
	err := ix.get(db, stateKey, func(value []byte) error {
		state = slices.Clone(value)
		return nil
	})
	if err != nil {
		return err
	}
	todo := ix.pending
	for i, p := range slices.Backward(ix.pending) {
		if bytes.Equal(p.state, state) {
			todo = ix.pending[i+1:]
			break
		}
	}
	for _, p := range todo {
		b := db.NewBatch()
		if err := b.SetRepr(slices.Clone(p.content)); err != nil {
			return ix.classify(err)
		}
		if err := b.Commit(pebble.NoSync); err != nil {
			return ix.classify(err)
		}
		_ = b.Close()
	}
	return nil
}

// probe finds out whether files can be written. Its name is one that opening the store would clear away.
func (ix *Index) probe() error {
	const size = 1 << 20
	name := ix.o.FS.PathJoin(ix.dir, "temporary.000000.dbtmp")
	f, err := ix.o.FS.Create(name, "index-probe")
	if err != nil {
		return ix.classify(err)
	}
	_, err = f.Write(make([]byte, size))
	err = errors.Join(err, f.Sync(), f.Close())
	err = errors.Join(err, ix.o.FS.Remove(name))
	return ix.classify(err)
}

// storeLogger passes on what Pebble has to say. What it takes for fatal freezes the store, and the caller of the index
// hears of it.
type storeLogger struct{ st *store }

func (l storeLogger) Infof(format string, args ...any) {
	l.log(slog.LevelDebug, format, args)
}

func (l storeLogger) Errorf(format string, args ...any) {
	l.log(slog.LevelWarn, format, args)
}

func (l storeLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("pebble: "+format, args...)
	for _, a := range args {
		if e, ok := a.(error); ok {
			err = e
		}
	}
	l.st.gate.freeze(err)
	l.st.flushFailed(err)
	l.log(slog.LevelError, format, args)
}

func (l storeLogger) log(level slog.Level, format string, args []any) {
	if log := l.st.ix.o.Logger; log.Enabled(context.Background(), level) {
		log.Log(context.Background(), level, "index store: "+fmt.Sprintf(format, args...), "dir", l.st.ix.dir)
	}
}

package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
)

// Options are the settings and components of an [Index]. The zero value is good for a broker.
type Options struct {
	// FS holds the directory; nil stands for the machine's file system.
	FS vfs.FS
	// CacheBytes is the size of the cache of table blocks; 0 stands for 8 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one table in memory; 0 stands for 4 MiB, and 64 KiB is the least. Half of it is how much
	// is applied at most before it is written to disk.
	MemTableBytes int
	// Logger gets what Pebble reports, at debug level save for its errors; nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 8 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 4 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CacheBytes < 0 || o.MemTableBytes < 64<<10 {
		return o, fmt.Errorf("%w: index options: cache of %d bytes, table of %d bytes in memory", engine.ErrInvalid, o.CacheBytes, o.MemTableBytes)
	}
	return o, nil
}

// Index is an [engine.Index] in a directory. A callback of a read may call other reads, but not Close.
type Index struct {
	dir  string
	o    Options
	lock *pebble.Lock

	// writer is held by the methods that change the index, and guards what follows it. db is also read under mu.
	writer  sync.Mutex
	pending []pendingBatch // applied, and not durable as far as is known; oldest first
	bytes   int            // in pending
	flush   *flush         // the flush that is under way, or nil

	// mu guards what follows it. It is taken after writer, and held only for moments.
	mu      sync.Mutex
	db      *pebble.DB // nil when it could not be opened again after a failure
	store   *store
	readers int
	closed  bool
	changed *sync.Cond // readers has become 0, or swapping has ended
	swap    bool       // db is being replaced; nobody reads it
	why     error      // why db is nil
}

var _ engine.Index = (*Index)(nil)

// Open opens the index in the directory, and makes it when it is absent. The directory is locked until Close; one that
// another holds is [engine.ErrUnavailable]. Damage that shows is [engine.ErrCorrupt], a full disk [engine.ErrFull], an
// index of a newer program [engine.ErrInvalid].
func Open(dir string, o Options) (*Index, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ix := &Index{dir: dir, o: o}
	ix.changed = sync.NewCond(&ix.mu)
	if err := ix.open(); err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	return ix, nil
}

func (ix *Index) open() (err error) {
	if err := ix.makeDir(); err != nil {
		return ix.classify(err)
	}
	ix.lock, err = pebble.LockDirectory(ix.dir, ix.o.FS)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) { // the file, not the lock on it
			return ix.classify(err)
		}
		return fmt.Errorf("%w: the directory is held by another process, or another part of this one: %w", engine.ErrUnavailable, err)
	}
	ix.db, ix.store, err = ix.openStore()
	if err != nil {
		_ = ix.lock.Close()
	}
	return err
}

// makeDir makes the directory and its entry in the one above durable.
func (ix *Index) makeDir() error {
	if err := ix.o.FS.MkdirAll(ix.dir, 0o755); err != nil {
		return err
	}
	parent, err := ix.o.FS.OpenDir(ix.o.FS.PathDir(ix.dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// openStore opens the Pebble store, which fits what the lock holds.
func (ix *Index) openStore() (db *pebble.DB, st *store, err error) {
	names, err := ix.o.FS.List(ix.dir)
	if err != nil {
		return nil, nil, ix.classify(err)
	}
	if err := checkFiles(ix.dir, names); err != nil {
		return nil, nil, err
	}
	// Pebble makes a log file even though it is to write none. A crash leaves it without a proper end, which would count as
	// damage later.
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			if err := ix.o.FS.Remove(ix.o.FS.PathJoin(ix.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, ix.classify(err)
			}
		}
	}
	opening := newStore(ix)
	st = opening
	defer func() {
		switch r := recover().(type) { // Pebble has met a failure that it has no way to return, or taken damage at its word
		case nil:
		case error:
			db, st, err = nil, nil, ix.classifyOpen(r)
		default:
			db, st, err = nil, nil, ix.damaged(fmt.Errorf("%v", r))
		}
		if err != nil {
			opening.gate.release()
		}
	}()
	db, err = pebble.Open(ix.dir, st.options())
	if err != nil {
		return nil, nil, ix.classifyOpen(err)
	}
	if err := ix.checkSchema(db); err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	return db, st, nil
}

func (ix *Index) checkSchema(db *pebble.DB) error {
	var schema uint32
	found := false
	err := ix.get(db, stateKey, func(value []byte) error {
		found, schema = true, schemaOf(value)
		return nil
	})
	if err == nil && found && schema != schemaVersion {
		err = fmt.Errorf("%w: the index has version %d, this program knows %d; remove the directory %s, it is rebuilt",
			engine.ErrInvalid, schema, schemaVersion, ix.dir)
	}
	return err
}

// Reset implements [engine.Index].
func (ix *Index) Reset(ctx context.Context, cluster, wal engine.ID) error {
	return ix.rebind(ctx, "reset", func(b *pebble.Batch, st *engine.IndexState) error {
		*st = engine.IndexState{Cluster: cluster, WAL: wal}
		return b.DeleteRange([]byte{0}, []byte{0xff}, nil)
	})
}

// SetWAL implements [engine.Index].
func (ix *Index) SetWAL(ctx context.Context, wal engine.ID) error {
	return ix.rebind(ctx, "set WAL", func(_ *pebble.Batch, st *engine.IndexState) error {
		st.WAL, st.Through = wal, 0
		return nil
	})
}

// rebind changes the state by other means than a commit, durably.
func (ix *Index) rebind(ctx context.Context, what string, change func(*pebble.Batch, *engine.IndexState) error) error {
	ix.writer.Lock()
	defer ix.writer.Unlock()
	err := func() error {
		if err := ix.writable(); err != nil {
			return err
		}
		st, err := ix.stateNow()
		if err != nil {
			return err
		}
		b := ix.db.NewBatch()
		defer b.Close()
		if err := change(b, &st); err != nil {
			return err
		}
		if err := ix.commit(b, st); err != nil {
			return err
		}
		return ix.sync(ctx)
	}()
	if err != nil {
		return fmt.Errorf("index %s: %s: %w", ix.dir, what, err)
	}
	return nil
}

// Sync implements [engine.Index].
func (ix *Index) Sync(ctx context.Context) error {
	ix.writer.Lock()
	defer ix.writer.Unlock()
	err := ix.writable()
	if err == nil {
		err = ix.sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("index %s: sync: %w", ix.dir, err)
	}
	return nil
}

// Close implements [engine.Index]. It waits for the reads that are under way.
func (ix *Index) Close() error {
	ix.writer.Lock()
	defer ix.writer.Unlock()
	if ix.isClosed() {
		return nil
	}
	err := ix.writable()
	if err == nil {
		err = ix.sync(context.Background())
	}
	ix.mu.Lock()
	ix.closed = true
	for ix.readers > 0 {
		ix.changed.Wait()
	}
	db, st := ix.db, ix.store
	ix.db = nil
	ix.mu.Unlock()
	if db != nil {
		if e := st.close(db); err == nil && e != nil {
			err = ix.classify(e)
		}
	}
	if e := ix.lock.Close(); err == nil && e != nil {
		err = ix.classify(e)
	}
	if err != nil {
		return fmt.Errorf("index %s: close: %w", ix.dir, err)
	}
	return nil
}

func (ix *Index) isClosed() bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.closed
}

// read runs fn with the store, which stays open until fn returns.
func (ix *Index) read(what string, fn func(*pebble.DB) error) error {
	db, err := ix.acquire()
	if err == nil {
		defer ix.release()
		err = fn(db)
	}
	if err != nil {
		return fmt.Errorf("index %s: %s: %w", ix.dir, what, err)
	}
	return nil
}

func (ix *Index) acquire() (*pebble.DB, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for ix.swap {
		ix.changed.Wait()
	}
	switch {
	case ix.closed:
		return nil, engine.ErrClosed
	case ix.db == nil:
		return nil, ix.why
	}
	ix.readers++
	return ix.db, nil
}

func (ix *Index) release() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.readers--; ix.readers == 0 {
		ix.changed.Broadcast()
	}
}

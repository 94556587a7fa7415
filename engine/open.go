package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Engine is a running engine. It implements [Service].
type Engine struct {
	o       Options
	cluster ID
	epoch   uint64 // of the last session; only opening uses it
	store   *storeClient
	cache   *blockCache

	chunkBytes int64 // of one chunk
	tailBudget int64 // memory of recent batches
	dirBudget  int64 // memory of the directory of what waits for upload

	topics atomic.Pointer[catalog]
	idx    atomic.Pointer[Index]
	// indexFailed says that the index in use can't go on; the next session opens it again.
	indexFailed atomic.Bool

	mu         sync.RWMutex
	partitions map[PartitionID]*Partition
	sess       *session
	err        error // why there is no session now: ErrUnavailable between two, ErrClosed, or what killed the engine

	closing chan struct{} // closed by Close
	dead    chan struct{} // closed when the engine ends by itself
	stopped chan struct{} // closed when the supervisor has ended
	once    sync.Once     // closes closing

	idLock *semaphore.Weighted // guards nextID and idEnd
	nextID int64               // next producer id to give out
	idEnd  int64               // end of the block that it comes from
}

// reopenTries is how often a failed log is opened again before the engine gives up.
const reopenTries = 8

// Open starts an engine: it opens the log, which fences any earlier owner, brings the index up to the commit log, and finds
// each partition's end. It fails, and leaves log and store as they were, when the parts do not belong together; see [ErrInvalid],
// [ErrNotFound] and [ErrCorrupt] for what the operator should do. ctx bounds the start only.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		o:          o,
		chunkBytes: min(max(o.Memory/64, 256<<10), 4<<20, max(o.UploadBytes/2, 64<<10)),
		tailBudget: o.Memory / 4,
		dirBudget:  o.Memory / 8,
		partitions: make(map[PartitionID]*Partition),
		err:        fmt.Errorf("%w: starting", ErrUnavailable),
		closing:    make(chan struct{}),
		dead:       make(chan struct{}),
		stopped:    make(chan struct{}),
		idLock:     semaphore.NewWeighted(1),
	}
	e.topics.Store(newCatalog(nil))
	e.idx.Store(&o.Index)
	e.store = newStoreClient(o)
	e.cache = newBlockCache(e)
	s, err := e.openSession(ctx, true)
	if err != nil {
		return nil, errors.Join(err, o.Index.Close())
	}
	go e.supervise(s)
	s.mu.Lock()
	first := s.seq == 0 // its uploader may commit already
	s.mu.Unlock()
	if first {
		// The first commit of a cluster says whose it is, so that the log alone can tell.
		_, err := e.Metadata().CompareAndSwap(ctx, clusterKey, 0, e.cluster[:])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("first commit: %w", err), e.Close(ctx))
		}
	}
	return e, nil
}

// index is the index in use.
func (e *Engine) index() Index { return *e.idx.Load() }

// session returns the session, or why there is none.
func (e *Engine) session() (*session, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.sess, e.err
}

// ClusterID is the identity of the cluster.
func (e *Engine) ClusterID() ID { return e.cluster }

// Partition returns a handle, or [ErrNotFound]. A handle stays good until its topic is deleted.
func (e *Engine) Partition(id PartitionID) (*Partition, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if p := e.partitions[id]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("partition %d of topic id %x: %w", id.Partition, id.Topic, ErrNotFound)
}

// Dead is closed when the engine ends by itself; Err then says why.
func (e *Engine) Dead() <-chan struct{} { return e.dead }

// Err says why the engine takes no calls now; nil while it does.
func (e *Engine) Err() error {
	_, err := e.session()
	return err
}

// supervise waits for the session to end and opens the log again, in bounded tries. What was not done is dropped, and comes
// back from the log if it got there: a batch whose fate was unknown is then there whole, or not at all.
func (e *Engine) supervise(s *session) {
	defer close(e.stopped)
	for {
		select {
		case <-e.closing:
			e.endSession(s, ErrClosed)
			return
		case <-s.ended:
		}
		cause := s.alive()
		e.o.Events.WALFailed(cause)
		e.o.Logger.Error("the log failed; it is opened again", "wal", s.info.URL, "epoch", s.info.Epoch, "err", cause)
		e.endSession(s, fmt.Errorf("%w: the log is opened again", ErrUnavailable))
		next, err := e.reopen(s.info.Epoch, cause)
		if err != nil {
			e.die(err)
			return
		}
		s = next
	}
}

// reopen opens a new session after one failed.
func (e *Engine) reopen(epoch uint64, cause error) (*session, error) {
	if errors.Is(cause, ErrFenced) || errors.Is(cause, errMisplaced) {
		return nil, cause
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-e.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait := 50 * time.Millisecond
	for try := 1; ; try++ {
		s, err := e.openSession(ctx, false)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, ErrClosed
		}
		// A log that is held is tried again too: it may be by a write of ours that has not returned.
		if try == reopenTries || errors.Is(err, ErrCorrupt) && !errors.Is(err, errIndex) {
			return nil, fmt.Errorf("the log failed (%w) and can't be opened again: %w", cause, err)
		}
		if errors.Is(err, errIndex) {
			e.indexFailed.Store(true) // opened anew too
		}
		e.o.Logger.Warn("opening the log again failed", "try", try, "of", reopenTries, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// die ends the engine for a reason of its own.
func (e *Engine) die(err error) {
	select {
	case <-e.closing:
		return // Close says the rest
	default:
	}
	e.suspend(err)
	e.o.Logger.Error("the engine stops", "err", err)
	close(e.dead)
}

// Close stops the engine: no more appends are admitted, what is in flight ends, and what is not uploaded stays in the log. It
// ends by ctx's deadline, and leaves the rest to the process's end.
func (e *Engine) Close(ctx context.Context) error {
	e.once.Do(func() { close(e.closing) })
	select {
	case <-e.stopped:
	case <-ctx.Done():
		return fmt.Errorf("close engine: %w: %w", ErrUnavailable, ctx.Err())
	}
	e.suspend(ErrClosed)
	return e.index().Close()
}

// suspend takes every partition out of service.
func (e *Engine) suspend(why error) {
	e.mu.Lock()
	e.sess, e.err = nil, why
	partitions := make([]*Partition, 0, len(e.partitions))
	for _, p := range e.partitions {
		partitions = append(partitions, p)
	}
	e.mu.Unlock()
	for _, p := range partitions {
		p.suspend(why)
	}
}

// suspend takes the partition out of service: waiting calls are answered, and the memory of its tail is let go.
func (p *Partition) suspend(why error) {
	p.mu.Lock()
	if isNotFound(p.err) {
		p.mu.Unlock()
		return
	}
	p.err = why
	awaiting := p.awaiting
	p.awaiting = nil
	p.wakeWatchersLocked()
	p.mu.Unlock()
	for _, d := range awaiting {
		d.done(Appended{Err: unavailable(why)})
	}
}

// endSession stops the session's work, closes its log, and waits for both.
func (e *Engine) endSession(s *session, why error) {
	e.suspend(why)
	s.fail(why)
	s.work.Wait()
	if err := s.wal.Close(); err != nil && errors.Is(why, ErrClosed) {
		e.o.Logger.Error("closing the log failed", "wal", s.info.URL, "err", err)
	}
	s.mu.Lock()
	chunks := s.chunks
	s.chunks = nil
	for _, c := range chunks {
		if c.mem > 0 {
			c.unload()
		}
	}
	s.mu.Unlock()
}

// newID returns a random identity.
func newID() (id ID) {
	rand.Read(id[:]) // never fails
	return id
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

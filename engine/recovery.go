package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/producerstate"
	"github.com/headpond/headpond/internal/recordbatch"
)

// Recovery brings a session up from what is durable: the index is brought up to the commit log, the WAL is replayed, and each
// partition's end is what both say.
//
//	index ── commits missing in it ── commits in the WAL          topics, log starts, runs, producers
//	                 (objects)             │
//	                                       └── batches in the WAL  the tail
//
// Replay skips exactly what a commit covers, so repeating it after a crash at any point leads to the same state.

// openSession opens the log and recovers. first says that it is the engine's first session, which checks that the parts belong
// together; later ones open what the first one found.
func (e *Engine) openSession(ctx context.Context, first bool) (*session, error) {
	if err := e.reviveIndex(first); err != nil {
		return nil, err
	}
	wal, err := e.openWAL(ctx, first)
	if err != nil {
		return nil, err
	}
	s := newSession(e, wal)
	if err := s.recover(ctx); err != nil {
		s.fail(err)
		return nil, errors.Join(fmt.Errorf("recover %s: %w", s.info.URL, err), wal.Close())
	}
	e.o.Events.WALOpened(s.info)
	e.mu.Lock()
	e.sess, e.err = s, nil
	e.mu.Unlock()
	s.start()
	return s, nil
}

func newSession(e *Engine, wal WAL) *session {
	info := wal.Info()
	return &session{
		e: e, wal: wal, info: info,
		commits: semaphore.NewWeighted(1),
		ended:   make(chan struct{}), room: make(chan struct{}), sealed: make(chan struct{}, 1),
		admitted: info.Trim, done: info.End,
	}
}

// recovery is what replay gathers.
type recovery struct {
	s          *session
	state      IndexState // of the index, kept up as commits are applied
	partitions map[PartitionID]*Partition
	arena      *buffer.Buffer // batches that are kept in memory are copied here
	used       int            // of the arena
	before     Position       // of the last record
}

// recover fills the session from index, commit-log objects and WAL.
func (s *session) recover(ctx context.Context) error {
	state, err := s.e.catchUp(ctx, s.info)
	if err != nil {
		return err
	}
	r := &recovery{s: s, state: state, partitions: make(map[PartitionID]*Partition), before: s.info.Trim}
	defer r.releaseArena()
	err = s.wal.Replay(ctx, func(pos Position, record []byte) error {
		kind, id, body, err := splitRecord(record)
		switch {
		case err != nil:
		case kind == walCommit:
			err = r.commit(ctx, pos, body)
		case pos > r.state.Through:
			err = r.batch(id, recordbatch.Batch(body), pos)
		}
		r.before, s.admitted = pos, pos
		if err != nil {
			return fmt.Errorf("record at WAL position %d: %w", pos, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.admitted = s.info.End
	s.seq, s.sum, s.covered = r.state.Seq, r.state.Sum, r.state.Through
	return r.finish()
}

// commit applies a commit of the WAL that the index lacks.
func (r *recovery) commit(ctx context.Context, pos Position, encoded []byte) error {
	c, err := DecodeCommit(encoded)
	if err != nil {
		return err
	}
	r.s.commitLog = append(r.s.commitLog, loggedCommit{seq: c.Seq, before: r.before, pos: pos})
	if c.Seq <= r.state.Seq {
		return nil
	}
	sum := CommitSum(encoded)
	if err := r.s.e.applyCommit(ctx, c, sum); err != nil {
		return err
	}
	r.state.Seq, r.state.Sum = c.Seq, sum
	r.state.Through = max(r.state.Through, c.Through)
	return nil
}

// batch puts a batch that no commit covers yet into the tail.
func (r *recovery) batch(id PartitionID, b recordbatch.Batch, pos Position) error {
	if len(b) < recordbatch.HeaderSize || b.Size() != len(b) {
		return &CorruptError{Where: r.s.info.URL, Offset: -1, Reason: fmt.Sprintf("a batch of partition %d of topic id %x has a wrong length", id.Partition, id.Topic)}
	}
	p, err := r.partition(id)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A batch below the log start, or one that a later commit covers, is kept as the others are: producers and leader epochs that it
	// tells of may be known from nowhere else. The uploader leaves its records out.
	if len(p.tail) > 0 && b.BaseOffset() != p.next {
		return &CorruptError{Where: r.s.info.URL, Offset: -1, Reason: fmt.Sprintf("partition %d of topic id %x goes from offset %d to %d", id.Partition, id.Topic, p.next, b.BaseOffset())}
	}
	p.next = b.NextOffset()
	p.noteEpochLocked(b.LeaderEpoch(), b.BaseOffset())
	if b.ProducerID() >= 0 && b.BaseOffset() >= p.uploadedTo {
		p.noteProducerLocked(b)
	}
	s := r.s
	c := s.openChunkLocked()
	t := tailBatch{base: b.BaseOffset(), last: b.LastOffset(), maxTime: b.MaxTimestamp(), data: b}
	keep := c.mem > 0 || len(c.order) == 0 && s.mem+s.e.chunkBytes <= s.e.tailBudget // a chunk is in memory whole, or not
	if keep {
		t.data, t.buf = r.keep(b)
	}
	s.addLocked(c, p, t, pos, keep)
	return nil
}

// arenaBytes is how much is taken at once for the batches that replay keeps in memory.
const arenaBytes = 256 << 10

// keep copies a batch into memory of the tail's own.
func (r *recovery) keep(b []byte) ([]byte, *buffer.Buffer) {
	if r.arena == nil || r.used+len(b) > len(r.arena.Bytes()) {
		r.releaseArena()
		r.arena, r.used = buffer.Get(max(arenaBytes, len(b))), 0
	}
	to := r.arena.Bytes()[r.used : r.used+len(b) : r.used+len(b)]
	copy(to, b)
	r.used += len(b)
	return to, r.arena
}

func (r *recovery) releaseArena() {
	if r.arena != nil {
		r.arena.Release()
		r.arena = nil
	}
}

// partition returns the partition that a batch belongs to, with what the index knows of it. Whether its topic still exists is
// asked at the end: the commit that made it may come from an object, the one that deleted it may still follow.
func (r *recovery) partition(id PartitionID) (*Partition, error) {
	if p := r.partitions[id]; p != nil {
		return p, nil
	}
	r.s.e.mu.RLock()
	p := r.s.e.partitions[id] // handles outlive sessions
	r.s.e.mu.RUnlock()
	if p == nil {
		p = &Partition{id: id, e: r.s.e, err: fmt.Errorf("%w: starting", ErrUnavailable)}
	}
	if err := p.load(r.s); err != nil {
		return nil, err
	}
	r.partitions[id] = p
	return p, nil
}

// load sets a partition to what the index knows of it.
func (p *Partition) load(s *session) error {
	state, err := s.e.index().Partition(p.id)
	if err != nil {
		return fmt.Errorf("%w: %w", errIndex, err)
	}
	return p.set(s, state)
}

func (p *Partition) set(s *session, state PartitionState) error {
	producers, err := p.decodeProducers(state)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s = s
	p.next, p.high, p.committed, p.logStart = state.End, state.End, state.End, state.LogStart
	p.epoch, p.epochs = 0, state.Epochs
	p.tail, p.producers, p.uploadedTo = nil, producers, state.Producers.Offset
	return nil
}

func (p *Partition) decodeProducers(state PartitionState) (*producerstate.Table, error) {
	if len(state.Producers.State) == 0 {
		return nil, nil
	}
	t, err := producerstate.Decode(state.Producers.State, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: producers of partition %d of topic id %x: %w: %w", errIndex, p.id.Partition, p.id.Topic, ErrCorrupt, err)
	}
	return t, nil
}

// finish makes topics and partitions of what was gathered.
func (r *recovery) finish() error {
	s, e := r.s, r.s.e
	states := make(map[PartitionID]PartitionState)
	err := e.index().Partitions(func(id PartitionID, st PartitionState) bool {
		states[id] = st
		return true
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errIndex, err)
	}
	topics, err := e.readTopics()
	if err != nil {
		return err
	}
	live := make(map[PartitionID]*Partition)
	for _, t := range topics {
		for n := range t.Partitions {
			id := PartitionID{Topic: t.ID, Partition: n}
			p := r.partitions[id]
			if p == nil {
				if p = e.partitions[id]; p == nil {
					p = &Partition{id: id, e: e}
				}
				if err := p.set(s, states[id]); err != nil {
					return err
				}
			}
			if err := p.settle(states[id], s.info); err != nil {
				return err
			}
			live[id] = p
		}
	}
	if n := len(s.chunks); n > 0 {
		s.sealLocked(s.chunks[n-1]) // what is appended from now on is in memory, this chunk may not be
	}
	s.uploadedThrough(r.state.Through)
	e.mu.Lock()
	gone := e.partitions
	e.partitions = live
	e.mu.Unlock()
	e.topics.Store(newCatalog(topics))
	for id, p := range gone {
		if live[id] == nil {
			p.suspend(errPartitionGone)
		}
	}
	for id, p := range r.partitions {
		if live[id] == nil {
			p.suspend(errPartitionGone) // the uploader passes over its batches
		}
	}
	for _, p := range live {
		p.mu.Lock()
		p.err = nil
		p.wakeWatchersLocked()
		p.mu.Unlock()
	}
	return nil
}

// settle joins what the index knows at the end of the replay with the tail. The leader epoch is one more than that of the last
// batch: announced again if nothing is written, durable with the first batch that carries it.
func (p *Partition) settle(state PartitionState, info WALInfo) error {
	uploaded, err := p.decodeProducers(state)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uploaded, p.uploadedTo, p.uploadedEpoch = uploaded, state.Producers.Offset, -1
	if n := len(state.Epochs); n > 0 {
		p.uploadedEpoch = state.Epochs[n-1].Epoch
	}
	p.committed = max(p.committed, state.End)
	p.logStart = max(p.logStart, state.LogStart)
	p.next = max(p.next, p.committed)
	p.high = p.next
	if len(p.tail) > 0 && p.tail[0].base > p.committed {
		return &CorruptError{Where: info.URL, Offset: -1, Reason: fmt.Sprintf(
			"offsets %d to %d of partition %d of topic id %x are neither in the log nor in objects", p.committed, p.tail[0].base-1, p.id.Partition, p.id.Topic)}
	}
	for _, start := range state.Epochs {
		p.noteEpochLocked(start.Epoch, start.Offset)
	}
	p.epoch = 0
	if n := len(p.epochs); n > 0 {
		p.epoch = p.epochs[n-1].Epoch
		if p.next > p.epochs[n-1].Offset {
			p.epoch++
		}
	}
	return nil
}

// readTopics reads the topics from the index.
func (e *Engine) readTopics() ([]*Topic, error) {
	var topics []*Topic
	var bad error
	err := e.index().Meta(topicPrefix, func(m MetaChange) bool {
		t, err := decodeTopic(m)
		if err != nil {
			bad = err
			return false
		}
		topics = append(topics, t)
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	return topics, nil
}

// start begins the session's background work.
func (s *session) start() {
	s.work.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var loops sync.WaitGroup
		loops.Go(func() { s.uploadLoop(ctx) })
		loops.Go(func() { s.housekeep(ctx) })
		<-s.ended
		cancel()
		loops.Wait()
	})
}

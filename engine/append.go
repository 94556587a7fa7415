package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/producerstate"
	"github.com/headpond/headpond/internal/recordbatch"
)

// fullRetry is how often an append that waits for room tries by itself: a log may grow without the engine's doing.
const fullRetry = 20 * time.Millisecond

// Append admits a batch, or refuses it and consumes nothing. It waits for room, and returns nil when the batch is
// admitted: done is then called exactly once, when the batch is durable or its fate is unknown ([ErrUnavailable]), in the order
// of the appends to the partition, from a goroutine of the engine that it must not block.
// A refusal is [ErrFull] when there was no room within HoldFull or ctx's deadline, [ErrTooLarge], [ErrOutOfOrderSequence],
// [ErrProducerFenced], [ErrNotFound], [ErrUnavailable] or [ErrClosed]. A duplicate of one of the producer's last five batches is
// admitted, not appended, and done when the first copy is.
// Cancelling ctx ends the wait for room only.
func (p *Partition) Append(ctx context.Context, b Batch, done func(Appended)) error {
	var timeout, again <-chan time.Time // made at the first wait only: most appends find room
	for {
		room, answer, err := p.tryAppend(b, done)
		if answer != nil {
			answer()
		}
		if !errors.Is(err, ErrFull) || room == nil {
			return err
		}
		if timeout == nil {
			t := time.NewTimer(p.e.o.HoldFull)
			defer t.Stop()
			timeout = t.C
			tick := time.NewTicker(fullRetry)
			defer tick.Stop()
			again = tick.C
		}
		select {
		case <-room:
		case <-again:
		case <-timeout:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// tryAppend admits the batch or refuses it. With ErrFull comes a channel that is closed when another try is worth it. An answer
// that is due already is returned as a call to make without any lock.
func (p *Partition) tryAppend(b Batch, done func(Appended)) (room <-chan struct{}, answer func(), err error) {
	v := recordbatch.Batch(b.Data)
	if v.Count() <= 0 {
		return nil, nil, fmt.Errorf("%w: a batch of %d records", ErrInvalid, v.Count())
	}
	s, err := p.session()
	if err != nil {
		return nil, nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, unavailable(s.err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, nil, p.err
	}
	if v.ProducerID() >= 0 {
		first, err := p.checkProducerLocked(v)
		if err != nil {
			return nil, nil, err
		}
		if first.Duplicate {
			return nil, p.answerDuplicateLocked(first, done), nil
		}
	}
	if !b.Internal && s.dir > s.e.dirBudget {
		s.kickUploader()
		return s.room, nil, fmt.Errorf("%w: the directory of batches that wait for upload has reached its share of memory", ErrFull)
	}
	if b.Internal && s.shortLocked(len(b.Data)) {
		s.kickUploader()
		return s.room, nil, fmt.Errorf("%w: the rest of the log is for commits of uploads", ErrFull)
	}
	base := p.next
	v.SetBaseOffset(base)
	v.SetLeaderEpoch(p.epoch)
	a := &inFlight{s: s, p: p, base: base, last: v.LastOffset(), buf: b.Buffer, done: done}
	a.parts = [2][]byte{appendBatchHeader(a.header[:0], p.id), b.Data}
	b.Buffer.Retain() // until the completion
	pos, err := s.wal.Append(Record{Parts: a.parts[:], Internal: b.Internal}, a.complete)
	if err != nil {
		b.Buffer.Release()
		switch {
		case errors.Is(err, ErrFull):
			s.kickUploader()
			return s.room, nil, err
		case errors.Is(err, ErrInvalid):
			return nil, nil, err
		}
		s.failLocked(err)
		return nil, nil, unavailable(err)
	}
	c := s.openChunkLocked() // before admitted moves: the chunk begins after the record before this one
	a.c, a.pos = c, pos
	s.admitted = pos
	p.next = a.last + 1
	if v.ProducerID() >= 0 {
		p.noteProducerLocked(v)
	}
	c.undone++
	s.addLocked(c, p, tailBatch{base: base, last: a.last, maxTime: v.MaxTimestamp(), data: b.Data, buf: b.Buffer}, pos, true)
	return nil, nil, nil
}

// inFlight is an append between its admission and its completion.
type inFlight struct {
	s          *session
	p          *Partition
	c          *chunk
	pos        Position
	base, last int64
	buf        *buffer.Buffer // held until the completion
	header     [walBatchHeader]byte
	parts      [2][]byte
	done       func(Appended)
}

// complete is the durability point: the WAL calls it, in the order of admission, when the batch and all before it are
// durable. Only then does the high watermark move and the producer get its answer.
func (a *inFlight) complete(err error) {
	defer a.buf.Release()
	if err != nil {
		a.s.fail(err)
		a.done(Appended{Err: unavailable(err)})
		return
	}
	p := a.p
	a.s.mu.Lock()
	a.s.done = a.pos
	a.c.undone--
	if a.c.undone == 0 && a.c.sealed {
		a.s.kickUploader()
	}
	if a.s.mem > a.s.e.tailBudget {
		a.s.shrinkLocked(a.s.e.tailBudget)
	}
	a.s.mu.Unlock()

	p.mu.Lock()
	p.noteEpochLocked(p.epoch, a.base)
	p.high = a.last + 1
	logStart := p.logStart
	due := p.takeAwaitedLocked()
	p.wakeWatchersLocked()
	p.mu.Unlock()
	a.done(Appended{BaseOffset: a.base, LogStart: logStart})
	for _, d := range due {
		d.done(Appended{BaseOffset: d.first.BaseOffset, LogStart: logStart, Duplicate: true})
	}
}

// checkProducerLocked applies the rules of the idempotent producer.
func (p *Partition) checkProducerLocked(v recordbatch.Batch) (producerstate.Outcome, error) {
	if p.producers == nil {
		return producerstate.Outcome{}, nil
	}
	p.producers.Expire(p.e.o.Now().UnixMilli(), p.e.o.ProducerExpiry.Milliseconds())
	first, err := p.producers.Check(v.ProducerID(), v.ProducerEpoch(), v.BaseSequence(), v.Count())
	switch {
	case errors.Is(err, producerstate.ErrOutOfOrder):
		err = fmt.Errorf("%w: %w", ErrOutOfOrderSequence, err)
	case errors.Is(err, producerstate.ErrInvalidEpoch):
		err = fmt.Errorf("%w: %w", ErrProducerFenced, err)
	}
	return first, err
}

func (p *Partition) noteProducerLocked(v recordbatch.Batch) {
	if p.producers == nil {
		p.producers = newProducers()
	}
	noteProducer(p.producers, v, p.e.o.Now())
}

func newProducers() *producerstate.Table { return producerstate.New(0) }

func noteProducer(t *producerstate.Table, v recordbatch.Batch, now time.Time) {
	t.Append(v.ProducerID(), v.ProducerEpoch(), v.BaseSequence(), v.Count(), v.BaseOffset(), now.UnixMilli())
}

// awaited is a duplicate of a batch that is not done yet; it is answered when that batch is.
type awaited struct {
	first producerstate.Outcome
	done  func(Appended)
}

// answerDuplicateLocked answers a duplicate with the offsets of the first copy: at once by the call that it returns when that is
// done, else when it will be.
func (p *Partition) answerDuplicateLocked(first producerstate.Outcome, done func(Appended)) func() {
	if first.LastOffset >= p.high {
		p.awaiting = append(p.awaiting, awaited{first: first, done: done})
		return nil
	}
	answer := Appended{BaseOffset: first.BaseOffset, LogStart: p.logStart, Duplicate: true}
	return func() { done(answer) }
}

// takeAwaitedLocked removes the duplicates whose first copy is done.
func (p *Partition) takeAwaitedLocked() []awaited {
	n := 0
	for n < len(p.awaiting) && p.awaiting[n].first.LastOffset < p.high {
		n++
	}
	due := p.awaiting[:n]
	if p.awaiting = p.awaiting[n:]; len(p.awaiting) == 0 {
		p.awaiting = nil
	}
	return due
}

// Package producerstate keeps what a partition must remember of its idempotent producers: by it, a retried batch is
// told from a new one, and a lost one is noticed.
//
// The rules are Kafka's (KIP-98, KIP-360): of each producer the epoch and the last five batches are kept. A batch whose
// sequences equal those of a kept one is a duplicate and is answered with the first one's offsets; otherwise its first
// sequence must follow the last one kept. A producer's new epoch starts at sequence 0. A producer that is not known, since
// it is new, has expired or was dropped, may start anywhere (Kafka 2.5 and later). Sequences wrap from 2^31-1 to 0.
//
// # Snapshots
//
// A [Table] that is fed at admission runs ahead of what is stored: of a producer that has five batches in flight, the
// batches before those are forgotten. A snapshot of the state below some offset can therefore not be cut out of such a
// table, and there is no method for it. The exact way is to derive a snapshot from the one before it:
//
//	t, err := producerstate.Decode(previous, 0) // the state below the run's first offset
//	for each batch of the run, in order:
//		t.Append(…)
//	t.Expire(now, expiration)
//	next := t.AppendTo(nil)                     // the state below the offset that follows the run
//
// Recovery decodes the last snapshot and appends the batches that lie above it in the log.
package producerstate

import (
	"errors"
	"fmt"
	"math"
)

// Kept is how many batches of a producer are remembered. Kafka's clients have at most as many in flight.
const Kept = 5

// DefaultMaxProducers is how many producers of a partition are remembered unless [New] is told otherwise. One takes
// some 250 bytes of memory and at most 132 in a snapshot.
const DefaultMaxProducers = 1000

var (
	// ErrOutOfOrder says that a batch does not follow the producer's last one. Kafka: OUT_OF_ORDER_SEQUENCE_NUMBER.
	ErrOutOfOrder = errors.New("out of order sequence number")
	// ErrInvalidEpoch says that a batch is of an older epoch than the producer's last one. Kafka: INVALID_PRODUCER_EPOCH.
	ErrInvalidEpoch = errors.New("invalid producer epoch")
)

// Outcome is what [Table.Check] found. Of a duplicate it holds the offsets that the batch got when it was first appended,
// and the timestamp that it was appended with; the batch may not be durable yet.
type Outcome struct {
	Duplicate  bool
	BaseOffset int64
	LastOffset int64
	Timestamp  int64
}

// Table is the state of one partition's producers. It is not safe for concurrent use.
type Table struct {
	max       int
	producers map[int64]*producer
	oldest    int64    // no producer's last batch is older
	ends      producer // ends.next appended longest ago, ends.prev last: a ring
}

// producer is one producer's state; batches[:n] are the last ones, oldest first.
type producer struct {
	id         int64
	epoch      int16
	n          uint8
	batches    [Kept]batch
	prev, next *producer
}

type batch struct {
	baseSeq    int32
	delta      int32 // records less one, in sequences and in offsets alike
	baseOffset int64
	timestamp  int64
}

func (b *batch) lastSeq() int32    { return wrap(b.baseSeq, b.delta) }
func (b *batch) lastOffset() int64 { return b.baseOffset + int64(b.delta) }
func (p *producer) last() *batch   { return &p.batches[p.n-1] }

// wrap is the sequence number that comes delta after seq.
func wrap(seq, delta int32) int32 { return int32((int64(seq) + int64(delta)) & math.MaxInt32) }

// New returns an empty table that remembers at most maxProducers, 0 standing for [DefaultMaxProducers]; one more makes it
// forget the producer that appended longest ago.
func New(maxProducers int) *Table {
	if maxProducers <= 0 {
		maxProducers = DefaultMaxProducers
	}
	t := &Table{max: maxProducers, producers: make(map[int64]*producer), oldest: math.MaxInt64}
	t.ends.prev, t.ends.next = &t.ends, &t.ends
	return t
}

// Len is the number of producers remembered.
func (t *Table) Len() int { return len(t.producers) }

// Check says whether a batch of count records whose first has sequence baseSeq may be appended, or is a duplicate of
// one that was. Sequence and count are at least 0 and 1. It changes nothing; an error is [ErrOutOfOrder] or [ErrInvalidEpoch].
func (t *Table) Check(producerID int64, epoch int16, baseSeq, count int32) (Outcome, error) {
	p := t.producers[producerID]
	switch {
	case p == nil:
		return Outcome{}, nil
	case epoch < p.epoch:
		return Outcome{}, fmt.Errorf("%w: producer %d has epoch %d, the batch has %d", ErrInvalidEpoch, producerID, p.epoch, epoch)
	case epoch > p.epoch:
		if baseSeq != 0 {
			return Outcome{}, fmt.Errorf("%w: epoch %d of producer %d starts with sequence %d, not 0", ErrOutOfOrder, epoch, producerID, baseSeq)
		}
		return Outcome{}, nil
	}
	for i := range p.batches[:p.n] {
		if b := &p.batches[i]; b.baseSeq == baseSeq && b.delta == count-1 {
			return Outcome{Duplicate: true, BaseOffset: b.baseOffset, LastOffset: b.lastOffset(), Timestamp: b.timestamp}, nil
		}
	}
	if last := p.last().lastSeq(); baseSeq != wrap(last, 1) {
		return Outcome{}, fmt.Errorf("%w: producer %d epoch %d: sequence %d after %d", ErrOutOfOrder, producerID, epoch, baseSeq, last)
	}
	return Outcome{}, nil
}

// Append remembers a batch of count records that was given the offsets from baseOffset on, at a time in milliseconds since
// 1970. It trusts the caller, who has called [Table.Check] or reads a log of batches that passed it, and is called in
// offset order. A batch that does not follow the producer's last one replaces what was remembered of it: the log holds such
// a batch where the producer had been forgotten by then.
func (t *Table) Append(producerID int64, epoch int16, baseSeq, count int32, baseOffset, timestamp int64) {
	p := t.producers[producerID]
	if p == nil {
		if len(t.producers) >= t.max {
			t.remove(t.ends.next)
		}
		p = &producer{id: producerID, epoch: epoch}
		t.producers[producerID] = p
	} else {
		p.unlink()
		if epoch != p.epoch || baseSeq != wrap(p.last().lastSeq(), 1) {
			p.epoch, p.n = epoch, 0
		}
	}
	if p.n == Kept {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	p.batches[p.n] = batch{baseSeq: baseSeq, delta: count - 1, baseOffset: baseOffset, timestamp: timestamp}
	p.n++
	t.link(p)
}

// Expire forgets the producers whose last batch is at least maxAge old at the time now, all in milliseconds. It costs next
// to nothing when there can be none.
func (t *Table) Expire(now, maxAge int64) {
	if t.oldest > now-maxAge {
		return
	}
	t.oldest = math.MaxInt64
	for p := t.ends.next; p != &t.ends; {
		next := p.next
		if last := p.last().timestamp; last <= now-maxAge {
			t.remove(p)
		} else {
			t.oldest = min(t.oldest, last)
		}
		p = next
	}
}

// Clone returns a copy that shares nothing with the table.
func (t *Table) Clone() *Table {
	c := New(t.max)
	for p := t.ends.next; p != &t.ends; p = p.next {
		q := &producer{id: p.id, epoch: p.epoch, n: p.n, batches: p.batches}
		c.producers[q.id] = q
		c.link(q)
	}
	return c
}

// link puts a producer at the end of the ring, as the last that appended.
func (t *Table) link(p *producer) {
	t.oldest = min(t.oldest, p.last().timestamp)
	p.prev, p.next = t.ends.prev, &t.ends
	p.prev.next, p.next.prev = p, p
}

func (p *producer) unlink() { p.prev.next, p.next.prev = p.next, p.prev }

func (t *Table) remove(p *producer) {
	p.unlink()
	delete(t.producers, p.id)
}

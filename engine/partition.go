package engine

import "context"

// Partition is a handle of one partition.
type Partition struct {
	id PartitionID
}

// ID names the partition.
func (p *Partition) ID() PartitionID { return p.id }

// Append admits a batch, or refuses it and consumes nothing. It waits for room, and returns nil when the batch is
// admitted: done is then called exactly once, when the batch is durable or its fate is unknown ([ErrUnavailable]), in the order
// of the appends to the partition, from a goroutine of the engine that it must not block.
// A refusal is [ErrFull] when there was no room within HoldFull or ctx's deadline, [ErrTooLarge], [ErrOutOfOrderSequence],
// [ErrProducerFenced], [ErrNotFound], [ErrUnavailable] or [ErrClosed]. A duplicate of one of the producer's last five batches is
// admitted, not appended, and done when the first copy is.
// Cancelling ctx ends the wait for room only.
func (p *Partition) Append(ctx context.Context, b Batch, done func(Appended)) error {
	return ErrUnavailable
}

// Offsets returns the partition's offsets.
func (p *Partition) Offsets() (Offsets, error) { return Offsets{}, ErrUnavailable }

// EpochEnd tells where a leader epoch ended, as OffsetForLeaderEpoch (KIP-320) asks: for the current epoch the high
// watermark. An epoch that is greater than the current one gives -1, -1.
func (p *Partition) EpochEnd(epoch int32) (EpochEnd, error) { return EpochEnd{}, ErrUnavailable }

// FindTime returns the first record with a timestamp of at least ts (ms since 1970).
func (p *Partition) FindTime(ctx context.Context, ts int64) (TimedOffset, error) {
	return TimedOffset{}, ErrUnavailable
}

// MaxTimestamp returns the first record that has the partition's largest timestamp.
func (p *Partition) MaxTimestamp(ctx context.Context) (TimedOffset, error) {
	return TimedOffset{}, ErrUnavailable
}

// DeleteRecords moves the log start up to the offset, -1 standing for the high watermark, and returns the new log start. It
// is durable when it returns. Beyond the high watermark it is [ErrOutOfRange]; below the log start nothing happens.
func (p *Partition) DeleteRecords(ctx context.Context, before int64) (int64, error) {
	return 0, ErrUnavailable
}

// Size is the number of bytes from the log start to the high watermark, to within one run.
func (p *Partition) Size() int64 { return 0 }

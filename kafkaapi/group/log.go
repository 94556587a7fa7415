package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/recordbatch"
)

// offsetsLog is one partition of the topic. A shard has one call under way at a time.
type offsetsLog interface {
	// append writes one batch and returns its base offset once it is durable. With admitted false nothing was written; an
	// error with admitted true leaves unknown whether it was. The batch is borrowed for the call. When the log is full, what
	// is urgent may use a little of what is kept for internal records, and then waits for room; other batches are refused.
	append(ctx context.Context, batch *buffer.Buffer, urgent bool) (base int64, admitted bool, err error)
	// read calls fn for every batch from the log start to the high watermark, in order. The batch is valid during the call.
	read(ctx context.Context, fn func(recordbatch.Batch) error) error
	// deleteBefore makes the records below the offset go; it is durable when it returns nil.
	deleteBefore(ctx context.Context, offset int64) error
}

const (
	loadBytes    = 1 << 20          // read at once while loading
	fetchTimeout = 30 * time.Second // of one read while loading
)

// engineLog is a partition of an engine.
type engineLog struct {
	svc       engine.Service
	partition *engine.Partition
	reserve   *reserve
}

// ended is a context that has ended, for calls that are not to wait for anything.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (l *engineLog) append(ctx context.Context, batch *buffer.Buffer, urgent bool) (int64, bool, error) {
	base, admitted, err := l.try(ended, batch, false)
	if err == nil {
		l.reserve.refill()
	}
	if !urgent || admitted || !errors.Is(err, engine.ErrFull) {
		return base, admitted, err
	}
	return l.try(ctx, batch, l.reserve.take(len(batch.Bytes())))
}

func (l *engineLog) try(ctx context.Context, batch *buffer.Buffer, internal bool) (int64, bool, error) {
	done := make(chan engine.Appended, 1)
	b := engine.Batch{Data: batch.Bytes(), Buffer: batch, Internal: internal}
	if err := l.partition.Append(ctx, b, func(a engine.Appended) { done <- a }); err != nil {
		return 0, false, err
	}
	a := <-done
	return a.BaseOffset, true, a.Err
}

func (l *engineLog) read(ctx context.Context, fn func(recordbatch.Batch) error) error {
	o, err := l.partition.Offsets()
	if err != nil {
		return err
	}
	for next := o.LogStart; next < o.HighWatermark; {
		after, err := l.readFrom(ctx, next, fn)
		if err != nil {
			return err
		}
		if after <= next {
			return fmt.Errorf("%w: nothing at offset %d below the high watermark %d", engine.ErrUnavailable, next, o.HighWatermark)
		}
		next = after
	}
	return nil
}

// readFrom reads one stretch and returns the offset after it.
func (l *engineLog) readFrom(ctx context.Context, next int64, fn func(recordbatch.Batch) error) (int64, error) {
	r := l.svc.Fetch(ctx, &engine.FetchRequest{
		Partitions: []engine.FetchPartition{{Partition: l.partition, Offset: next, MaxBytes: loadBytes}},
		MaxBytes:   loadBytes,
		Timeout:    fetchTimeout,
	})
	defer r.Release()
	if err := r.Results[0].Err; err != nil {
		return 0, err
	}
	for _, piece := range r.Results[0].Batches {
		for len(piece) > 0 {
			b, rest, err := recordbatch.Next(piece)
			if err != nil {
				return 0, fmt.Errorf("%w: %w", engine.ErrCorrupt, err)
			}
			if err := fn(b); err != nil {
				return 0, err
			}
			next, piece = b.NextOffset(), rest
		}
	}
	return next, nil
}

func (l *engineLog) deleteBefore(ctx context.Context, offset int64) error {
	_, err := l.partition.DeleteRecords(ctx, offset)
	return err
}

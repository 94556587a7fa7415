package engine

import (
	"time"

	"github.com/headpond/headpond/internal/buffer"
)

// Batch is one record batch to append.
type Batch struct {
	// Data is one whole record batch of format 2 that the caller has checked. The engine patches its base offset and leader
	// epoch in place at admission, before anything reads it.
	Data []byte
	// Buffer holds Data's memory. The engine takes holds of its own for as long as it reads Data.
	Buffer *buffer.Buffer
	// Internal batches may use the log's reserve: group offsets must go through when the log is full.
	Internal bool
}

// Appended is the outcome of an append.
type Appended struct {
	BaseOffset int64
	LogStart   int64
	Duplicate  bool // the batch was there already; BaseOffset is the first copy's
	Err        error
}

// Offsets are a partition's offsets at one moment.
type Offsets struct {
	LogStart      int64 // first offset that exists
	HighWatermark int64 // one more than the last acknowledged offset; fetches see what is below it
	LeaderEpoch   int32
}

// TimedOffset is an offset that was looked up by time.
type TimedOffset struct {
	Offset      int64 // -1: none
	Timestamp   int64 // ms since 1970; -1: none
	LeaderEpoch int32
}

// EpochEnd is where a leader epoch ended.
type EpochEnd struct {
	Epoch int32 // the greatest epoch not above the one asked for; -1 when there is none
	End   int64 // one more than its last offset; -1 when there is none
}

// FetchRequest asks for batches of several partitions.
type FetchRequest struct {
	Partitions []FetchPartition
	// MaxBytes bounds the whole response: batches are added while it is below, and the first batch is returned whatever its
	// size, so that a consumer never stops before a large batch.
	MaxBytes int
	// Timeout bounds reads from the object store and the log; what has not come by then is left out without an error, save
	// where nothing at all came: then it is [ErrUnavailable].
	Timeout time.Duration
}

// FetchPartition asks for batches of one partition.
type FetchPartition struct {
	Partition *Partition
	Offset    int64 // first offset wanted; the first batch returned may begin below it
	MaxBytes  int   // as the request's
}

// FetchResult is the answer to one FetchPartition of a request.
type FetchResult struct {
	Offsets
	// Batches are whole batches in offset order, each piece holding one or more. They are valid until the response is released.
	Batches [][]byte
	Bytes   int
	// Err is nil, or one of ErrOutOfRange, [ErrNotFound] (the partition is gone), [ErrUnavailable], [ErrCorrupt] (named).
	Err error
}

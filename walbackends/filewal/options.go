package filewal

import (
	"fmt"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/internal/vfs"
)

// Defaults of [Options].
const (
	DefaultCapacity      = 2 << 30
	DefaultWriteDeadline = 30 * time.Second
	DefaultIdleAfter     = 200 * time.Millisecond
	DefaultMaxRecord     = 64 << 20
	DefaultFrameBytes    = 1 << 20
)

// Bounds of what the options derive.
const (
	sector       = 4096 // of frames: no frame shares a page, so no write can tear an earlier frame
	minSegments  = 4
	firstBytes   = 256 << 20 // of segments to make with the log; more are added as they are needed
	minSegment   = 16 * sector
	maxSegment   = 64 << 20
	reserveShare = 16      // the reserve is at least capacity / reserveShare
	reserveBytes = 1 << 20 // and at least this, or a quarter of the capacity if that is less
)

// Options of a file log. The zero value works.
type Options struct {
	// Capacity is the most bytes that the log takes on disk, in whole segments and at least four of them. 0 is
	// DefaultCapacity. A change takes effect at the next open; what a smaller one no longer admits goes as it is trimmed.
	Capacity int64
	// SegmentBytes is the size of one file, a multiple of 4096. 0 is a sixteenth of the capacity, at most 64 MiB. It is
	// fixed when the log is made; a later change has no effect. A record must fit in one segment.
	SegmentBytes int64
	// FrameBytes is when a frame that waits for its turn is full, not counting a record that is larger alone.
	// 0 is DefaultFrameBytes. Twice as much memory is held.
	FrameBytes int
	// WriteDeadline is how long one write with its sync may take. Past it the handle is poisoned. 0 is
	// DefaultWriteDeadline.
	WriteDeadline time.Duration
	// IdleAfter is how long after the last write a closing frame is written. 0 is DefaultIdleAfter.
	IdleAfter time.Duration
	// FS is where the directory lies. nil is the operating system's file system.
	FS vfs.FS

	firstBytes int64 // of segments to make at open; 0 is the constant
}

// withDefaults fills in what is zero and refuses what contradicts itself.
func (o Options) withDefaults() (Options, error) {
	if o.Capacity == 0 {
		o.Capacity = DefaultCapacity
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = min(maxSegment, max(minSegment, o.Capacity/16/sector*sector))
	}
	if o.FrameBytes == 0 {
		o.FrameBytes = DefaultFrameBytes
	}
	if o.WriteDeadline == 0 {
		o.WriteDeadline = DefaultWriteDeadline
	}
	if o.IdleAfter == 0 {
		o.IdleAfter = DefaultIdleAfter
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.firstBytes == 0 {
		o.firstBytes = firstBytes
	}
	switch {
	case o.SegmentBytes < minSegment || o.SegmentBytes%sector != 0 || o.SegmentBytes > frame.MaxPayload:
		return o, fmt.Errorf("%w: file WAL: a segment of %d bytes; it must be a multiple of %d from %d to %d",
			engine.ErrInvalid, o.SegmentBytes, sector, minSegment, frame.MaxPayload)
	case o.Capacity < minSegments*o.SegmentBytes:
		return o, fmt.Errorf("%w: file WAL: a capacity of %d bytes is less than %d segments of %d bytes",
			engine.ErrInvalid, o.Capacity, minSegments, o.SegmentBytes)
	case o.FrameBytes < 0 || o.WriteDeadline < 0 || o.IdleAfter < 0:
		return o, fmt.Errorf("%w: file WAL: a negative size or duration", engine.ErrInvalid)
	}
	return o, nil
}

// segments is how many segments the capacity allows.
func (o Options) segments(segment uint64) int {
	return max(minSegments, int(uint64(o.Capacity)/segment))
}

// first is how many of them are made when the log is opened. The rest is added while it is used.
func (o Options) first(segment uint64) int {
	return min(o.segments(segment), max(minSegments, int(uint64(o.firstBytes)/segment)))
}

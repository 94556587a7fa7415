package filewal

import (
	"github.com/headpond/headpond/internal/frame"
)

// Addresses order all bytes that a log ever wrote: segment lap × segment size + offset in the segment. Laps begin at 1.
// An address is never reused, whatever file the segment lies in.
type geometry struct {
	segment uint64 // bytes
}

func (g geometry) lap(addr uint64) uint64 { return addr / g.segment }

func (g geometry) offset(addr uint64) int64 { return int64(addr % g.segment) }

// fit is where a frame of n bytes begins when addr is the next free byte: a frame lies in one segment.
func (g geometry) fit(addr, n uint64) uint64 {
	if left := g.segment - addr%g.segment; n > left {
		addr += left
	}
	return addr
}

// cost is what a record takes at most: a frame of its own.
func cost(size int) uint64 {
	return uint64(frame.Align(frame.HeaderSize+frame.RecordHeader+size, sector))
}

// reserve is the part of usable bytes that only internal records may take.
func reserve(usable uint64) uint64 {
	return max(usable/reserveShare, min(reserveBytes, usable/4))
}

// maxRecord is the largest record that a log of such segments takes.
func (g geometry) maxRecord() int {
	return min(DefaultMaxRecord, int(g.segment)-frame.HeaderSize-frame.RecordHeader)
}

// Package buffer lends reference-counted byte buffers from pools by size class.
//
// One buffer holds a request from the socket to the log, the tail cache, the fetch response and the upload; it goes back
// to its pool when the last holder lets go.
package buffer

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// The size classes are the powers of two between these and, between each two, one and a half times the lower: a message of 64 KiB
// with its request's header then takes 96 KiB, not 128. A larger buffer is made to measure and left to the collector.
const (
	minBits = 9  // 512 B
	maxBits = 21 // 2 MiB
)

// class returns the class of n bytes, and its size; -1 when it is larger than all of them.
func class(n int) (c int8, size int) {
	k := max(bits.Len(uint(max(n, 1)-1)), minBits)
	if k > maxBits {
		return -1, n
	}
	if half := 3 << (k - 2); k > minBits && n <= half { // between the powers k-1 and k
		return int8(2*(k-minBits) - 1), half
	}
	return int8(2 * (k - minBits)), 1 << k
}

// SizeOf is the memory that a buffer of n bytes takes, in bytes.
func SizeOf(n int) int {
	_, size := class(n)
	return size
}

// Buffer is bytes with a count of holders. Its holders may read Bytes concurrently; writing needs the only hold.
type Buffer struct {
	refs  atomic.Int32
	class int8 // -1: not pooled
	data  []byte
}

var pools [2*(maxBits-minBits) + 1]sync.Pool

// Get returns a buffer of n bytes with one hold. Its content is arbitrary.
func Get(n int) *Buffer {
	c, size := class(n)
	if c < 0 {
		b := &Buffer{class: c, data: make([]byte, n)}
		b.refs.Store(1)
		return b
	}
	b, _ := pools[c].Get().(*Buffer)
	if b == nil {
		b = &Buffer{class: c, data: make([]byte, size)}
	}
	b.data = b.data[:n]
	b.refs.Store(1)
	return b
}

// Bytes is the content. It is valid while the caller has a hold.
func (b *Buffer) Bytes() []byte { return b.data }

// Cap is the memory that the buffer takes, in bytes.
func (b *Buffer) Cap() int { return cap(b.data) }

// Retain adds a hold. The caller must have one already.
func (b *Buffer) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("buffer: Retain of a released buffer")
	}
}

// Release ends a hold. The last one returns the buffer to its pool; its bytes must not be used afterwards.
func (b *Buffer) Release() {
	n := b.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		panic("buffer: Release without a hold")
	}
	if poison {
		data := b.data[:cap(b.data)]
		for i := range data {
			data[i] = 0xdb
		}
	}
	if b.class >= 0 {
		pools[b.class].Put(b)
	}
}

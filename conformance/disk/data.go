package disk

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

const (
	blockSize  = 4096 // what content is kept in
	sectorSize = 512  // what a power failure keeps or drops as one
)

var zeroBlock [blockSize]byte

// data is the content of a file, now and after a power failure.
type data struct {
	blocks [][]byte // nil is a hole
	size   int64
	// old holds the durable version of each block that has changed since; nil is a hole.
	old     map[int][]byte
	oldSize int64
}

func (d *data) block(i int) []byte {
	if i < len(d.blocks) {
		return d.blocks[i]
	}
	return nil
}

func (d *data) setBlock(i int, b []byte) {
	if i >= len(d.blocks) {
		if b == nil {
			return
		}
		d.blocks = append(d.blocks, make([][]byte, i+1-len(d.blocks))...)
	}
	d.blocks[i] = b
}

// dirty prepares a block for a change that is not durable: its present content is put aside once.
func (d *data) dirty(i int) {
	if _, ok := d.old[i]; ok {
		return
	}
	if d.old == nil {
		d.old = map[int][]byte{}
	}
	b := d.block(i)
	d.old[i] = b
	if b != nil {
		d.setBlock(i, bytes.Clone(b))
	}
}

func (d *data) read(p []byte, off int64) int {
	if off >= d.size {
		return 0
	}
	p = p[:min(int64(len(p)), d.size-off)]
	for n := 0; n < len(p); {
		i, in := int((off+int64(n))/blockSize), int((off+int64(n))%blockSize)
		src := d.block(i)
		if src == nil {
			src = zeroBlock[:]
		}
		n += copy(p[n:], src[in:])
	}
	return len(p)
}

// write changes the content; with durable the bytes written survive a power failure at once.
func (d *data) write(p []byte, off int64, durable bool) {
	for n := 0; n < len(p); {
		i, in := int((off+int64(n))/blockSize), int((off+int64(n))%blockSize)
		part := p[n:min(len(p), n+blockSize-in)]
		if durable {
			if old, ok := d.old[i]; ok {
				d.old[i] = patch(old, in, part)
			}
		} else {
			d.dirty(i)
		}
		d.setBlock(i, patch(d.block(i), in, part))
		n += len(part)
	}
	d.size = max(d.size, off+int64(len(p)))
	if durable {
		d.oldSize = d.size
	}
}

// patch writes into a block in place and makes it if it is a hole, unless only zeros are written.
func patch(b []byte, at int, p []byte) []byte {
	if b == nil {
		if bytes.Equal(p, zeroBlock[:len(p)]) {
			return nil
		}
		b = make([]byte, blockSize)
	}
	copy(b[at:], p)
	return b
}

// zero punches [off, off+n), which leaves the size alone.
func (d *data) zero(off, n int64) {
	end := min(off+n, int64(len(d.blocks))*blockSize)
	for off < end {
		i, in := int(off/blockSize), int(off%blockSize)
		part := min(end-off, int64(blockSize-in))
		if d.block(i) != nil {
			d.dirty(i)
			if part == blockSize {
				d.setBlock(i, nil)
			} else {
				clear(d.blocks[i][in : in+int(part)])
			}
		}
		off += part
	}
}

func (d *data) truncate(size int64) {
	if size < d.size {
		d.zero(size, d.size-size)
	}
	d.size = size
}

func (d *data) sync() {
	d.old, d.oldSize = nil, d.size
}

// lose is what a power failure does: each sector that was not synced stays with the probability keep. It returns how
// many sectors went back.
func (d *data) lose(rng *rand.Rand, keep float64) int {
	lost := 0
	for _, i := range slices.Sorted(maps.Keys(d.old)) {
		now, old := d.block(i), d.old[i]
		mixed := make([]byte, blockSize)
		for at := 0; at < blockSize; at += sectorSize {
			src := old
			if rng.Float64() < keep {
				src = now
			} else {
				lost++
			}
			if src != nil {
				copy(mixed[at:at+sectorSize], src[at:])
			}
		}
		d.setBlock(i, patch(nil, 0, mixed))
	}
	if d.size != d.oldSize && rng.Float64() >= keep {
		d.size = d.oldSize
	}
	// What lies beyond the end reads as zero when the file grows again.
	d.zero(d.size, int64(len(d.blocks))*blockSize-d.size)
	d.sync()
	return lost
}

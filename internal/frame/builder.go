package frame

import "hash/crc32"

// Builder gathers records into a frame. The copy into its buffer is the only one that a log makes, and the checksum is
// computed in the same pass, while the bytes are in the cache. The zero value is ready; a Builder is for one goroutine.
type Builder struct {
	buf     []byte // header, then payload
	records uint32
	crc     uint32 // of the payload so far
}

// copyChunk is copied and then summed: small enough to stay in a core's first-level cache in between.
const copyChunk = 16 << 10

// Reset begins a new frame in the same buffer. The bytes of the last frame that was sealed are lost.
func (b *Builder) Reset() {
	b.buf, b.records, b.crc = b.buf[:0], 0, 0
}

// Grow makes room for a payload of n bytes, so that adding does not allocate, and drops a buffer larger than keep.
// It is called on an empty frame.
func (b *Builder) Grow(n, keep, sector int) {
	n = Align(HeaderSize+n, sector)
	if cap(b.buf) < n || cap(b.buf) > Align(HeaderSize+max(n, keep), sector) {
		b.buf = make([]byte, 0, max(n, Align(HeaderSize+keep, sector)))
	}
}

// Records is the number of records added.
func (b *Builder) Records() int { return int(b.records) }

// Payload is the number of payload bytes.
func (b *Builder) Payload() int { return max(0, len(b.buf)-HeaderSize) }

// Add appends one record, the concatenation of its parts, of size bytes in all.
func (b *Builder) Add(parts [][]byte, size int) {
	var head [RecordHeader]byte
	le.PutUint32(head[:], uint32(size))
	b.append(head[:])
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), copyChunk)
			b.append(p[:n])
			p = p[n:]
		}
	}
	b.records++
}

func (b *Builder) append(p []byte) {
	if len(b.buf) == 0 {
		b.buf = append(b.buf, make([]byte, HeaderSize)...)
	}
	at := len(b.buf)
	b.buf = append(b.buf, p...)
	b.crc = crc32.Update(b.crc, castagnoli, b.buf[at:])
}

// Seal completes the frame: it fills in h's counts and checksum and returns the frame's bytes with zero padding. They
// belong to the builder and stay valid until Reset.
func (b *Builder) Seal(h *Header, sector int) []byte {
	if len(b.buf) == 0 {
		b.buf = append(b.buf, make([]byte, HeaderSize)...)
	}
	h.Records, h.Payload = b.records, uint32(b.Payload())
	h.put(b.buf)
	h.Checksum = crc32.Update(b.crc, castagnoli, b.buf[:checksumAt])
	le.PutUint32(b.buf[checksumAt:], h.Checksum)
	if pad := h.Size(sector) - len(b.buf); pad > 0 {
		b.buf = append(b.buf, make([]byte, pad)...)
	}
	return b.buf
}

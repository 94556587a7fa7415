// Package frame is the unit in which a write-ahead log writes: a header and records, with a checksum over both.
//
// The layout is docs/format/frame.md. One format serves the local-file log and a block device: the caller gives the sector
// size and says where frames lie. The package does no I/O.
package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/headpond/headpond/engine"
)

// Sizes in bytes.
const (
	HeaderSize   = 104
	RecordHeader = 4 // before each record: its length

	// MaxPayload bounds what a header may claim, so that a decoder never allocates more.
	MaxPayload = 256 << 20
)

// Version of the format that this package writes.
const Version = 1

const magic = "HPFRAME\x00"

// Kind says what a frame is for.
type Kind uint16

// The kinds of frames.
const (
	Records Kind = 1 // holds at least one record
	Owner   Kind = 2 // the first frame of an owner
	Closing Kind = 3 // shuts the window in which the frame before it is not covered by a mark
)

// String names the kind for people.
func (k Kind) String() string {
	switch k {
	case Records:
		return "records"
	case Owner:
		return "owner"
	case Closing:
		return "closing"
	}
	return fmt.Sprintf("kind %d", uint16(k))
}

// Header is a frame's header, save for what is constant.
type Header struct {
	Kind     Kind
	WAL      engine.ID
	Epoch    uint64
	Sequence uint64
	Lap      uint64
	Place    uint64
	First    engine.Position
	Mark     engine.Position
	Trim     engine.Position
	Records  uint32
	Payload  uint32
	Previous uint32
	Checksum uint32
}

// End is the position of the last record of the frame, or First when it has none.
func (h *Header) End() engine.Position { return h.First + engine.Position(h.Payload) }

// Size is the length of the frame with its padding.
func (h *Header) Size(sector int) int { return Align(HeaderSize+int(h.Payload), sector) }

// Align rounds up to a multiple of the sector.
func Align(n, sector int) int { return (n + sector - 1) / sector * sector }

// The reasons for which bytes are not an intact frame.
var (
	ErrNoFrame  = errors.New("no frame here")
	ErrVersion  = errors.New("frame of an unknown version")
	ErrHeader   = errors.New("frame header out of bounds")
	ErrShort    = errors.New("frame cut short")
	ErrChecksum = errors.New("frame checksum does not match")
	ErrPadding  = errors.New("frame padding is not zero")
	ErrRecords  = errors.New("record lengths do not add up")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumAt = HeaderSize - 4

var le = binary.LittleEndian

var zeros [4096]byte

// put writes the header without its checksum.
func (h *Header) put(b []byte) {
	_ = b[HeaderSize-1]
	copy(b, magic)
	le.PutUint16(b[8:], Version)
	le.PutUint16(b[10:], uint16(h.Kind))
	le.PutUint32(b[12:], 0)
	copy(b[16:], h.WAL[:])
	le.PutUint64(b[32:], h.Epoch)
	le.PutUint64(b[40:], h.Sequence)
	le.PutUint64(b[48:], h.Lap)
	le.PutUint64(b[56:], h.Place)
	le.PutUint64(b[64:], uint64(h.First))
	le.PutUint64(b[72:], uint64(h.Mark))
	le.PutUint64(b[80:], uint64(h.Trim))
	le.PutUint32(b[88:], h.Records)
	le.PutUint32(b[92:], h.Payload)
	le.PutUint32(b[96:], h.Previous)
}

// Parse reads a header from the first HeaderSize bytes of b. It checks what can be checked without the payload, so that
// the claimed size is bounded, and not the checksum: until [Verify] the header is only a claim.
func Parse(b []byte) (Header, error) {
	var h Header
	if len(b) < HeaderSize {
		return h, ErrShort
	}
	if string(b[:8]) != magic {
		return h, ErrNoFrame
	}
	if v := le.Uint16(b[8:]); v != Version {
		return h, fmt.Errorf("%w: %d, this release knows %d", ErrVersion, v, Version)
	}
	h.Kind = Kind(le.Uint16(b[10:]))
	copy(h.WAL[:], b[16:])
	h.Epoch = le.Uint64(b[32:])
	h.Sequence = le.Uint64(b[40:])
	h.Lap = le.Uint64(b[48:])
	h.Place = le.Uint64(b[56:])
	h.First = engine.Position(le.Uint64(b[64:]))
	h.Mark = engine.Position(le.Uint64(b[72:]))
	h.Trim = engine.Position(le.Uint64(b[80:]))
	h.Records = le.Uint32(b[88:])
	h.Payload = le.Uint32(b[92:])
	h.Previous = le.Uint32(b[96:])
	h.Checksum = le.Uint32(b[100:])
	switch {
	case h.Kind < Records || h.Kind > Closing, le.Uint32(b[12:]) != 0,
		h.Payload > MaxPayload,
		uint64(h.Records)*RecordHeader > uint64(h.Payload),
		(h.Records == 0) != (h.Payload == 0),
		(h.Kind == Records) != (h.Records > 0),
		h.End() < h.First:
		return h, ErrHeader
	}
	return h, nil
}

// Verify checks that b, which begins with the header that [Parse] returned, holds an intact frame. Bytes of b beyond
// the frame are ignored.
func (h *Header) Verify(b []byte, sector int) error {
	size, end := h.Size(sector), HeaderSize+int(h.Payload)
	if len(b) < size {
		return ErrShort
	}
	crc := crc32.Checksum(b[HeaderSize:end], castagnoli)
	if crc = crc32.Update(crc, castagnoli, b[:checksumAt]); crc != h.Checksum {
		return ErrChecksum
	}
	for pad := b[end:size]; len(pad) > 0; {
		n := min(len(pad), len(zeros))
		if !bytes.Equal(pad[:n], zeros[:n]) {
			return ErrPadding
		}
		pad = pad[n:]
	}
	payload := b[HeaderSize:end]
	for range h.Records {
		if len(payload) < RecordHeader {
			return ErrRecords
		}
		n := uint64(le.Uint32(payload)) + RecordHeader
		if n > uint64(len(payload)) {
			return ErrRecords
		}
		payload = payload[n:]
	}
	if len(payload) > 0 {
		return ErrRecords
	}
	return nil
}

// Each calls fn for each record of a frame that [Header.Verify] found intact, with its position and its bytes in b, until
// fn returns false. It reports whether it reached the end.
func (h *Header) Each(b []byte, fn func(engine.Position, []byte) bool) bool {
	payload := b[HeaderSize : HeaderSize+int(h.Payload)]
	end := h.First
	for len(payload) > 0 {
		n := RecordHeader + int(le.Uint32(payload))
		end += engine.Position(n)
		if !fn(end, payload[RecordHeader:n:n]) {
			return false
		}
		payload = payload[n:]
	}
	return true
}

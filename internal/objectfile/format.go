// Package objectfile writes and reads the objects that hold record batches: bundles and segments.
//
// docs/format/object.md is the layout. A writer first makes a [Layout] from the headers of the batches, which gives the
// object's exact size and its runs; then a [Writer] or [Reader] streams the bytes, holding one batch at a time. A
// reader gets the [Index] from the end of the object by [ReadIndex] and checks what it fetches by [VerifyBlock].
package objectfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Numbers of the format.
const (
	Version = 1

	HeaderSize int64 = int64(headerMagicLen) + metaSize + 4
	FooterSize int64 = metaSize + 8 + 8 + 4 + 4 + 4 + int64(footerMagicLen)

	// MaxIndex is the longest index in bytes that is written or read: it bounds what a reader allocates.
	MaxIndex = 64 << 20

	headerMagic    = "HPONDOBJ"
	footerMagic    = "HPONDEND"
	headerMagicLen = len(headerMagic)
	footerMagicLen = len(footerMagic)
	metaSize       = 72
	runSize        = 60
	blockSize      = 40
)

// ID is a 128-bit identity.
type ID = [16]byte

// Kind says what an object holds.
type Kind uint8

// The kinds of objects.
const (
	Bundle  Kind = 1 // batches of many partitions
	Segment Kind = 2 // batches of one partition
)

// String is the kind's name, which ends the object's.
func (k Kind) String() string {
	switch k {
	case Bundle:
		return "bundle"
	case Segment:
		return "segment"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Meta is where an object comes from. It determines the object's name.
type Meta struct {
	Kind     Kind
	Ordinal  uint32 // tells the objects of one upload apart
	Cluster  ID
	WAL      ID
	Epoch    uint64 // owner epoch of the WAL
	Upload   uint64 // number of the upload within the epoch
	From, To uint64 // the batches lie in the range (From, To] of WAL positions
}

// Partition names one partition of one incarnation of a topic.
type Partition struct {
	Topic     ID
	Partition int32
}

// Run is one partition's contiguous offsets in an object: [First, Last].
type Run struct {
	Partition
	First, Last  int64
	Records      int64
	MaxTimestamp int64 // milliseconds since 1970; -1 for none
	LeaderEpoch  int32 // of the first batch
	Blocks       []Block
}

// Position is where the run's bytes begin in the object.
func (r *Run) Position() int64 { return r.Blocks[0].Position }

// Length is how many bytes the run's batches have.
func (r *Run) Length() int64 {
	last := r.Blocks[len(r.Blocks)-1]
	return last.Position + int64(last.Length) - r.Blocks[0].Position
}

// Block is a piece of a run, whole batches: the unit of reading, checking and caching. Its offsets are [First, Last].
type Block struct {
	Position     int64 // in the object, in bytes
	Length       int32 // bytes
	First, Last  int64
	MaxTimestamp int64  // as the run's
	Sum          uint32 // [BlockSum] of its bytes
}

// Index is what an object says of itself.
type Index struct {
	Meta
	Size int64 // of the whole object, in bytes
	Runs []Run // in the order of topic id and partition, each partition once
}

// ErrVersion is an intact object of a version that this program does not know.
var ErrVersion = errors.New("unknown version of the object format")

// CorruptError says where an object's bytes are not what was written.
type CorruptError struct {
	Offset int64 // in the object, of the first byte that is known to be wrong
	Reason string
}

// Error names the place and the reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("object is corrupt at byte %d: %s", e.Offset, e.Reason)
}

func corrupt(offset int64, format string, args ...any) error {
	return &CorruptError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BlockSum is the checksum of a block: it covers whose bytes they are besides the bytes.
func BlockSum(cluster ID, p Partition, first int64, data []byte) uint32 {
	return crc32.Update(blockSeed(cluster, p, first), castagnoli, data)
}

// blockSeed is the checksum of what precedes a block's bytes.
func blockSeed(cluster ID, p Partition, first int64) uint32 {
	var b [44]byte
	copy(b[:], cluster[:])
	copy(b[16:], p.Topic[:])
	binary.LittleEndian.PutUint32(b[32:], uint32(p.Partition))
	binary.LittleEndian.PutUint64(b[36:], uint64(first))
	return crc32.Checksum(b[:], castagnoli)
}

// VerifyBlock checks bytes that were read for a block of partition p. A mismatch is a [*CorruptError].
func VerifyBlock(cluster ID, p Partition, b Block, data []byte) error {
	if len(data) != int(b.Length) {
		return corrupt(b.Position, "block of %d bytes, its index says %d", len(data), b.Length)
	}
	if sum := BlockSum(cluster, p, b.First, data); sum != b.Sum {
		return corrupt(b.Position, "block of offsets %d to %d of partition %d of topic %x: checksum %08x, its index says %08x",
			b.First, b.Last, p.Partition, p.Topic, sum, b.Sum)
	}
	return nil
}

func (m Meta) validate() error {
	if m.Kind != Bundle && m.Kind != Segment {
		return fmt.Errorf("object of %s", m.Kind)
	}
	if m.From > m.To {
		return fmt.Errorf("object of the log's range (%d, %d]", m.From, m.To)
	}
	return nil
}

func appendMeta(b []byte, m Meta) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, Version)
	b = append(b, byte(m.Kind), 0)
	b = le.AppendUint32(b, m.Ordinal)
	b = append(b, m.Cluster[:]...)
	b = append(b, m.WAL[:]...)
	b = le.AppendUint64(b, m.Epoch)
	b = le.AppendUint64(b, m.Upload)
	b = le.AppendUint64(b, m.From)
	return le.AppendUint64(b, m.To)
}

func decodeMeta(b []byte) Meta {
	le := binary.LittleEndian
	return Meta{
		Kind: Kind(b[2]), Ordinal: le.Uint32(b[4:]), Cluster: ID(b[8:24]), WAL: ID(b[24:40]),
		Epoch: le.Uint64(b[40:]), Upload: le.Uint64(b[48:]), From: le.Uint64(b[56:]), To: le.Uint64(b[64:]),
	}
}

func appendHeader(b []byte, m Meta) []byte {
	start := len(b)
	b = appendMeta(append(b, headerMagic...), m)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func appendIndex(b []byte, runs []Run) []byte {
	le := binary.LittleEndian
	for i := range runs {
		r := &runs[i]
		b = append(b, r.Topic[:]...)
		b = le.AppendUint32(b, uint32(r.Partition.Partition))
		b = le.AppendUint32(b, uint32(r.LeaderEpoch))
		b = le.AppendUint64(b, uint64(r.First))
		b = le.AppendUint64(b, uint64(r.Last))
		b = le.AppendUint64(b, uint64(r.Records))
		b = le.AppendUint64(b, uint64(r.MaxTimestamp))
		b = le.AppendUint32(b, uint32(len(r.Blocks)))
		for _, k := range r.Blocks {
			b = le.AppendUint64(b, uint64(k.Position))
			b = le.AppendUint32(b, uint32(k.Length))
			b = le.AppendUint64(b, uint64(k.First))
			b = le.AppendUint64(b, uint64(k.Last))
			b = le.AppendUint64(b, uint64(k.MaxTimestamp))
			b = le.AppendUint32(b, k.Sum)
		}
	}
	return b
}

// appendFooter appends the footer of an object whose index begins at position and is given.
func appendFooter(b []byte, m Meta, position int64, index []byte, runs int) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = appendMeta(b, m)
	b = le.AppendUint64(b, uint64(position))
	b = le.AppendUint64(b, uint64(len(index)))
	b = le.AppendUint32(b, uint32(runs))
	b = le.AppendUint32(b, crc32.Checksum(index, castagnoli))
	b = le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, footerMagic...)
}

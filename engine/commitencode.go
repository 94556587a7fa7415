package engine

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The layout is described in docs/format/commit.md.
const (
	commitMagic     = "HPCM"
	commitVersion   = 1
	commitHeaderLen = 56
	commitSumLen    = 4
	sectionHeadLen  = 16
)

// Tags of the sections of a commit, in the order in which they are written.
const (
	sectionAdded = 1 + iota
	sectionDeleted
	sectionLogStarts
	sectionDropped
	sectionProducers
	sectionEpochs
	sectionMeta
)

// Smallest encoded sizes, by which a count is checked before memory is allocated for it.
const (
	partitionLen = 16 + 4
	objectMinLen = 4 + 8 + 4
	runMinLen    = partitionLen + 8 + 8 + 8 + 4
	blockLen     = 8 + 4 + 8 + 8 + 8 + 4
	metaMinLen   = 4 + 8 + 1 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendTo appends the encoding of the commit to b and returns the result. Equal commits have equal encodings; nil and
// empty slices are the same, save for a [MetaChange] value. [Run.Object] is not written: a run belongs to the [Object]
// that it stands in.
func (c *Commit) AppendTo(b []byte) []byte {
	start := len(b)
	b = append(b, commitMagic...)
	b = binary.LittleEndian.AppendUint16(b, commitVersion)
	b = binary.LittleEndian.AppendUint16(b, 0) // number of sections, set below
	b = binary.LittleEndian.AppendUint64(b, c.Seq)
	b = binary.LittleEndian.AppendUint32(b, c.Prev)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, c.WAL[:]...)
	b = binary.LittleEndian.AppendUint64(b, c.Epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Through))

	sections := uint16(0)
	b = appendSection(b, &sections, sectionAdded, c.Added, appendObject)
	b = appendSection(b, &sections, sectionDeleted, c.Deleted, appendString)
	b = appendSection(b, &sections, sectionLogStarts, c.LogStarts, func(b []byte, s LogStart) []byte {
		return appendInt64(appendPartition(b, s.PartitionID), s.Offset)
	})
	b = appendSection(b, &sections, sectionDropped, c.Dropped, appendPartition)
	b = appendSection(b, &sections, sectionProducers, c.Producers, func(b []byte, s ProducerSnapshot) []byte {
		return appendString(appendInt64(appendPartition(b, s.PartitionID), s.Offset), s.State)
	})
	b = appendSection(b, &sections, sectionEpochs, c.Epochs, func(b []byte, e EpochStart) []byte {
		b = binary.LittleEndian.AppendUint32(appendPartition(b, e.PartitionID), uint32(e.Epoch))
		return appendInt64(b, e.Offset)
	})
	b = appendSection(b, &sections, sectionMeta, c.Meta, appendMeta)
	binary.LittleEndian.PutUint16(b[start+6:], sections)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// Sum is the checksum that identifies the commit in the next one's [Commit.Prev]: that of its encoding. Whoever has the
// encoding at hand uses [CommitSum], which is cheaper.
func (c *Commit) Sum() uint32 { return CommitSum(c.AppendTo(nil)) }

// CommitSum is the [Commit.Sum] of an encoded commit: the CRC-32C of all but its last four bytes, which hold the same
// number in an intact encoding. It is 0 for what is too short to be a commit.
func CommitSum(encoded []byte) uint32 {
	if len(encoded) < commitHeaderLen+commitSumLen {
		return 0
	}
	return crc32.Checksum(encoded[:len(encoded)-commitSumLen], castagnoli)
}

// appendSection writes a section, unless it has no elements.
func appendSection[E any](b []byte, sections *uint16, tag uint16, elements []E, encode func([]byte, E) []byte) []byte {
	if len(elements) == 0 {
		return b
	}
	*sections++
	b = binary.LittleEndian.AppendUint16(b, tag)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(elements)))
	lengthAt := len(b)
	b = binary.LittleEndian.AppendUint64(b, 0)
	for _, e := range elements {
		b = encode(b, e)
	}
	binary.LittleEndian.PutUint64(b[lengthAt:], uint64(len(b)-lengthAt-8))
	return b
}

func appendInt64(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) }

func appendString[S ~string | ~[]byte](b []byte, s S) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendPartition(b []byte, p PartitionID) []byte {
	return binary.LittleEndian.AppendUint32(append(b, p.Topic[:]...), uint32(p.Partition))
}

func appendObject(b []byte, o Object) []byte {
	b = appendInt64(appendString(b, o.Name), o.Size)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(o.Runs)))
	for i := range o.Runs {
		r := &o.Runs[i]
		b = appendPartition(b, r.PartitionID)
		b = appendInt64(b, r.FirstOffset)
		b = appendInt64(b, r.LastOffset)
		b = appendInt64(b, r.MaxTimestamp)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Blocks)))
		for j := range r.Blocks {
			k := &r.Blocks[j]
			b = appendInt64(b, k.Pos)
			b = binary.LittleEndian.AppendUint32(b, uint32(k.Len))
			b = appendInt64(b, k.FirstOffset)
			b = appendInt64(b, k.LastOffset)
			b = appendInt64(b, k.MaxTimestamp)
			b = binary.LittleEndian.AppendUint32(b, k.Sum)
		}
	}
	return b
}

func appendMeta(b []byte, m MetaChange) []byte {
	b = binary.LittleEndian.AppendUint64(appendString(b, m.Key), m.Rev)
	if m.Value == nil {
		return appendString(append(b, 0), "")
	}
	return appendString(append(b, 1), m.Value)
}

// DecodeCommit is the inverse of [Commit.AppendTo]. The commit shares no memory with the input; its size in memory is
// bounded by a small multiple of the input's. A damaged encoding is [ErrCorrupt]; an intact one of a newer version is
// [ErrInvalid].
func DecodeCommit(encoded []byte) (*Commit, error) {
	if len(encoded) < commitHeaderLen+commitSumLen {
		return nil, commitDamage(int64(len(encoded)), "%d bytes are too short for a commit", len(encoded))
	}
	if string(encoded[:4]) != commitMagic {
		return nil, commitDamage(0, "magic %q, want %q", encoded[:4], commitMagic)
	}
	end := len(encoded) - commitSumLen
	if got, want := crc32.Checksum(encoded[:end], castagnoli), binary.LittleEndian.Uint32(encoded[end:]); got != want {
		return nil, commitDamage(-1, "checksum %08x, want %08x", got, want)
	}
	if v := binary.LittleEndian.Uint16(encoded[4:]); v != commitVersion {
		return nil, fmt.Errorf("decode commit: %w: version %d was written by a newer program, this one knows %d", ErrInvalid, v, commitVersion)
	}
	d := commitDecoder{b: encoded[:end], pos: 8}
	c := &Commit{Seq: d.uint64(), Prev: d.uint32()}
	if d.uint32() != 0 {
		d.fail("reserved bytes are not zero")
	}
	copy(c.WAL[:], d.take(len(c.WAL)))
	c.Epoch = d.uint64()
	c.Through = Position(d.uint64())

	last := uint16(0)
	for range binary.LittleEndian.Uint16(encoded[6:]) {
		tag, reserved, count, length := d.uint16(), d.uint16(), d.uint32(), d.uint64()
		switch {
		case d.err != nil:
			return nil, d.err
		case tag <= last || reserved != 0 || count == 0:
			return nil, commitDamage(int64(d.pos-sectionHeadLen), "section %d after section %d with %d elements", tag, last, count)
		case length > uint64(len(d.b)-d.pos):
			return nil, commitDamage(int64(d.pos), "section %d has %d bytes, %d are left", tag, length, len(d.b)-d.pos)
		}
		last = tag
		s := commitDecoder{b: d.b[:d.pos+int(length)], pos: d.pos}
		d.pos += int(length)
		if !s.section(c, tag, count) {
			return nil, fmt.Errorf("decode commit %d: %w: section %d was written by a newer program", c.Seq, ErrInvalid, tag)
		}
		if s.err == nil && s.pos != len(s.b) {
			s.fail("bytes left over in section %d", tag)
		}
		if s.err != nil {
			return nil, s.err
		}
	}
	if d.err == nil && d.pos != len(d.b) {
		d.fail("bytes left over")
	}
	if d.err != nil {
		return nil, d.err
	}
	return c, nil
}

func commitDamage(offset int64, format string, args ...any) error {
	return &CorruptError{Where: "commit", Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// commitDecoder reads fixed-width fields. The first failure sticks; after it, reads return zeros.
type commitDecoder struct {
	b   []byte
	pos int
	err error
}

func (d *commitDecoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = commitDamage(int64(d.pos), format, args...)
	}
}

// take returns the next n bytes, which belong to the input; nil after a failure.
func (d *commitDecoder) take(n int) []byte {
	if d.err != nil || n > len(d.b)-d.pos {
		d.fail("%d bytes wanted, %d left", n, len(d.b)-d.pos)
		return nil
	}
	d.pos += n
	return d.b[d.pos-n : d.pos]
}

func (d *commitDecoder) uint8() (v uint8) {
	if b := d.take(1); b != nil {
		v = b[0]
	}
	return v
}

func (d *commitDecoder) uint16() (v uint16) {
	if b := d.take(2); b != nil {
		v = binary.LittleEndian.Uint16(b)
	}
	return v
}

func (d *commitDecoder) uint32() (v uint32) {
	if b := d.take(4); b != nil {
		v = binary.LittleEndian.Uint32(b)
	}
	return v
}

func (d *commitDecoder) uint64() (v uint64) {
	if b := d.take(8); b != nil {
		v = binary.LittleEndian.Uint64(b)
	}
	return v
}

func (d *commitDecoder) int64() int64 { return int64(d.uint64()) }

// bytes returns a string's bytes, which belong to the input.
func (d *commitDecoder) bytes() []byte {
	n := d.uint32()
	if uint64(n) > math.MaxInt32 {
		d.fail("string of %d bytes", n)
		return nil
	}
	return d.take(int(n))
}

func (d *commitDecoder) partition() (p PartitionID) {
	copy(p.Topic[:], d.take(len(p.Topic)))
	p.Partition = int32(d.uint32())
	return p
}

// elements decodes count elements of at least minLen bytes each.
func elements[E any](d *commitDecoder, count uint32, minLen int, decode func() E) []E {
	if uint64(count)*uint64(minLen) > uint64(len(d.b)-d.pos) {
		d.fail("%d elements of at least %d bytes do not fit in %d", count, minLen, len(d.b)-d.pos)
		return nil
	}
	s := make([]E, 0, count)
	for range count {
		if d.err != nil {
			return nil
		}
		s = append(s, decode())
	}
	return s
}

// section decodes one section into the commit; false says that the tag is unknown.
func (d *commitDecoder) section(c *Commit, tag uint16, count uint32) bool {
	switch tag {
	case sectionAdded:
		c.Added = elements(d, count, objectMinLen, d.object)
	case sectionDeleted:
		c.Deleted = elements(d, count, 4, func() string { return string(d.bytes()) })
	case sectionLogStarts:
		c.LogStarts = elements(d, count, partitionLen+8, func() LogStart {
			return LogStart{PartitionID: d.partition(), Offset: d.int64()}
		})
	case sectionDropped:
		c.Dropped = elements(d, count, partitionLen, d.partition)
	case sectionProducers:
		c.Producers = elements(d, count, partitionLen+12, func() ProducerSnapshot {
			s := ProducerSnapshot{PartitionID: d.partition(), Offset: d.int64()}
			s.State = append(s.State, d.bytes()...)
			return s
		})
	case sectionEpochs:
		c.Epochs = elements(d, count, partitionLen+12, func() EpochStart {
			return EpochStart{PartitionID: d.partition(), Epoch: int32(d.uint32()), Offset: d.int64()}
		})
	case sectionMeta:
		c.Meta = elements(d, count, metaMinLen, d.meta)
	default:
		return false
	}
	return true
}

func (d *commitDecoder) object() Object {
	o := Object{Name: string(d.bytes()), Size: d.int64()}
	if n := d.uint32(); n > 0 {
		o.Runs = elements(d, n, runMinLen, func() Run {
			r := Run{PartitionID: d.partition(), FirstOffset: d.int64(), LastOffset: d.int64(), MaxTimestamp: d.int64(), Object: o.Name}
			blocks := d.uint32()
			if blocks == 0 {
				d.fail("run without blocks")
			}
			r.Blocks = elements(d, blocks, blockLen, func() Block {
				return Block{
					Pos: d.int64(), Len: int32(d.uint32()),
					FirstOffset: d.int64(), LastOffset: d.int64(), MaxTimestamp: d.int64(), Sum: d.uint32(),
				}
			})
			return r
		})
	}
	return o
}

func (d *commitDecoder) meta() MetaChange {
	m := MetaChange{Key: string(d.bytes()), Rev: d.uint64()}
	present, value := d.uint8(), d.bytes()
	switch {
	case present == 1:
		m.Value = append([]byte{}, value...)
	case present != 0 || len(value) != 0:
		d.fail("deletion of %q with a value", m.Key)
	}
	return m
}

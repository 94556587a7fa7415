package objectfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/headpond/headpond/internal/recordbatch"
)

// TailBytes is how much of an object's end a reader fetches first: footer and index of nearly every object.
const TailBytes = 64 << 10

// ReadIndex reads and checks footer and index of an object of size bytes that is stored under the name key. get fetches
// n bytes from off and returns exactly so many; it is called once or twice. Its errors are returned as they are.
// Bytes that are not what was written are a [*CorruptError], an unknown version is [ErrVersion].
func ReadIndex(key string, size int64, get func(off, n int64) ([]byte, error)) (Index, error) {
	if size < HeaderSize+FooterSize {
		return Index{}, corrupt(size, "%d bytes are less than an object has", size)
	}
	start := max(size-TailBytes, 0)
	tail, err := get(start, size-start)
	if err != nil {
		return Index{}, err
	}
	if int64(len(tail)) != size-start {
		return Index{}, corrupt(start+int64(len(tail)), "%d bytes read of %d", len(tail), size-start)
	}
	f, err := decodeFooter(tail[int64(len(tail))-FooterSize:], size)
	if err != nil {
		return Index{}, err
	}
	if f.Key() != key {
		return Index{}, corrupt(size-FooterSize, "the object says that it is %s", f.Key())
	}
	var raw []byte
	if f.position >= start {
		raw = tail[f.position-start : int64(len(tail))-FooterSize]
	} else if raw, err = get(f.position, f.length); err != nil {
		return Index{}, err
	}
	runs, err := f.decodeIndex(raw)
	if err != nil {
		return Index{}, err
	}
	return Index{Meta: f.Meta, Size: size, Runs: runs}, nil
}

// footer is a decoded footer. Position and length are of the index.
type footer struct {
	Meta
	position, length int64
	runs             uint32
	sum              uint32
}

// decodeFooter checks the last FooterSize bytes of an object of size bytes.
func decodeFooter(b []byte, size int64) (footer, error) {
	at := size - FooterSize
	le := binary.LittleEndian
	if got := b[FooterSize-int64(footerMagicLen):]; string(got) != footerMagic {
		return footer{}, corrupt(size-int64(footerMagicLen), "it ends with %q, not with a footer", got)
	}
	sumAt := FooterSize - int64(footerMagicLen) - 4
	if sum := crc32.Checksum(b[:sumAt], castagnoli); sum != le.Uint32(b[sumAt:]) {
		return footer{}, corrupt(at, "footer's checksum is %08x, its bytes give %08x", le.Uint32(b[sumAt:]), sum)
	}
	if v := le.Uint16(b); v != Version {
		return footer{}, fmt.Errorf("%w: %d, this program reads %d", ErrVersion, v, Version)
	}
	f := footer{
		Meta:     decodeMeta(b),
		position: int64(le.Uint64(b[metaSize:])), length: int64(le.Uint64(b[metaSize+8:])),
		runs: le.Uint32(b[metaSize+16:]), sum: le.Uint32(b[metaSize+20:]),
	}
	if err := f.validate(); err != nil {
		return footer{}, corrupt(at, "%v", err)
	}
	if f.position < HeaderSize || f.position > at || f.length != at-f.position || f.length > MaxIndex {
		return footer{}, corrupt(at, "an index of %d bytes at %d does not end at the footer", f.length, f.position)
	}
	return f, nil
}

// decodeIndex checks the index's bytes and that it describes all bytes between header and index.
func (f footer) decodeIndex(b []byte) ([]Run, error) {
	if int64(len(b)) != f.length {
		return nil, corrupt(f.position, "%d bytes read of an index of %d", len(b), f.length)
	}
	if sum := crc32.Checksum(b, castagnoli); sum != f.sum {
		return nil, corrupt(f.position, "index's checksum is %08x, its bytes give %08x", f.sum, sum)
	}
	if int64(f.runs) > f.length/(runSize+blockSize) || f.runs == 0 || f.Kind == Segment && f.runs != 1 {
		return nil, corrupt(f.position, "%d runs in an index of %d bytes of a %s", f.runs, f.length, f.Kind)
	}
	d := indexDecoder{b: b, end: HeaderSize}
	runs := make([]Run, 0, f.runs)
	for i := range int(f.runs) {
		r, err := d.run()
		if err == nil && i > 0 && ComparePartitions(runs[i-1].Partition, r.Partition) >= 0 {
			err = fmt.Errorf("out of order")
		}
		if err != nil {
			return nil, corrupt(f.position, "run %d of %d: %v", i, f.runs, err)
		}
		runs = append(runs, r)
	}
	if len(d.b) > 0 || d.end != f.position {
		return nil, corrupt(f.position, "index with %d bytes left over, of blocks that end at %d", len(d.b), d.end)
	}
	return runs, nil
}

// indexDecoder takes runs off an index.
type indexDecoder struct {
	b   []byte
	end int64 // where the next block must begin
}

func (d *indexDecoder) run() (Run, error) {
	b, le := d.b, binary.LittleEndian
	if len(b) < runSize {
		return Run{}, fmt.Errorf("%d bytes left", len(b))
	}
	r := Run{
		Partition:   Partition{Topic: ID(b[:16]), Partition: int32(le.Uint32(b[16:]))},
		LeaderEpoch: int32(le.Uint32(b[20:])),
		First:       int64(le.Uint64(b[24:])), Last: int64(le.Uint64(b[32:])),
		Records: int64(le.Uint64(b[40:])), MaxTimestamp: int64(le.Uint64(b[48:])),
	}
	n := int64(le.Uint32(b[56:]))
	d.b = b[runSize:]
	if n == 0 || n > int64(len(d.b)/blockSize) {
		return Run{}, fmt.Errorf("%d blocks in %d bytes", n, len(d.b))
	}
	if r.Partition.Partition < 0 || r.First < 0 || r.Last < r.First || r.Last == math.MaxInt64 || r.Records < 1 || r.Records-1 > r.Last-r.First {
		return Run{}, fmt.Errorf("%d records with offsets %d to %d of partition %d", r.Records, r.First, r.Last, r.Partition.Partition)
	}
	r.Blocks = make([]Block, 0, n)
	next, latest := r.First, int64(recordbatch.NoTimestamp)
	for range n {
		k, err := d.block(next)
		if err != nil {
			return Run{}, err
		}
		next, latest = k.Last+1, max(latest, k.MaxTimestamp)
		r.Blocks = append(r.Blocks, k)
	}
	if next != r.Last+1 || latest != r.MaxTimestamp {
		return Run{}, fmt.Errorf("blocks to offset %d and time %d in a run to %d and %d", next-1, latest, r.Last, r.MaxTimestamp)
	}
	return r, nil
}

// block takes a block off the index, which must begin at offset first and where the block before ended.
func (d *indexDecoder) block(first int64) (Block, error) {
	b, le := d.b, binary.LittleEndian
	k := Block{
		Position: int64(le.Uint64(b)), Length: int32(le.Uint32(b[8:])),
		First: int64(le.Uint64(b[12:])), Last: int64(le.Uint64(b[20:])),
		MaxTimestamp: int64(le.Uint64(b[28:])), Sum: le.Uint32(b[36:]),
	}
	d.b = b[blockSize:]
	if k.Position != d.end || k.Length <= 0 || k.Position > math.MaxInt64-int64(k.Length) {
		return Block{}, fmt.Errorf("block of %d bytes at %d, not at %d", k.Length, k.Position, d.end)
	}
	if k.First != first || k.Last < k.First || k.Last == math.MaxInt64 {
		return Block{}, fmt.Errorf("block of offsets %d to %d, not from %d", k.First, k.Last, first)
	}
	d.end += int64(k.Length)
	return k, nil
}

// ReadHeader checks the first [HeaderSize] bytes of an object and returns what they say of its origin.
func ReadHeader(b []byte) (Meta, error) {
	if int64(len(b)) < HeaderSize {
		return Meta{}, corrupt(int64(len(b)), "%d bytes are less than a header of %d", len(b), HeaderSize)
	}
	if got := b[:headerMagicLen]; string(got) != headerMagic {
		return Meta{}, corrupt(0, "it begins with %q, not with a header", got)
	}
	sumAt := HeaderSize - 4
	if sum := crc32.Checksum(b[:sumAt], castagnoli); sum != binary.LittleEndian.Uint32(b[sumAt:]) {
		return Meta{}, corrupt(0, "header's checksum is %08x, its bytes give %08x", binary.LittleEndian.Uint32(b[sumAt:]), sum)
	}
	if v := binary.LittleEndian.Uint16(b[headerMagicLen:]); v != Version {
		return Meta{}, fmt.Errorf("%w: %d, this program reads %d", ErrVersion, v, Version)
	}
	return decodeMeta(b[headerMagicLen:]), nil
}

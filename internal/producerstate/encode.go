package producerstate

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The layout is described in docs/format/producerstate.md.
const (
	version     = 1
	headerLen   = 8
	producerLen = 8 + 2 + 2
	batchLen    = 4 + 4 + 8 + 8
)

var (
	// ErrCorrupt says that an encoded table is damaged.
	ErrCorrupt = errors.New("corrupt producer state")
	// ErrVersion says that an encoded table was written by a newer program.
	ErrVersion = errors.New("producer state of a newer version")
)

// AppendTo appends the encoding of the table to b and returns the result. Equal tables have equal encodings. The
// encoding of an empty table is empty.
func (t *Table) AppendTo(b []byte) []byte {
	if len(t.producers) == 0 {
		return b
	}
	b = binary.LittleEndian.AppendUint16(b, version)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.producers)))
	for p := t.ends.next; p != &t.ends; p = p.next {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.id))
		b = binary.LittleEndian.AppendUint16(b, uint16(p.epoch))
		b = binary.LittleEndian.AppendUint16(b, uint16(p.n))
		for i := range p.batches[:p.n] {
			k := &p.batches[i]
			b = binary.LittleEndian.AppendUint32(b, uint32(k.baseSeq))
			b = binary.LittleEndian.AppendUint32(b, uint32(k.delta))
			b = binary.LittleEndian.AppendUint64(b, uint64(k.baseOffset))
			b = binary.LittleEndian.AppendUint64(b, uint64(k.timestamp))
		}
	}
	return b
}

// Decode is the inverse of [Table.AppendTo]; maxProducers is as in [New], and where the encoding has more producers, those
// that appended longest ago are left out. What it allocates is bounded by a small multiple of the input's length. An
// error is [ErrCorrupt] or [ErrVersion].
func Decode(b []byte, maxProducers int) (*Table, error) {
	t := New(maxProducers)
	if len(b) == 0 {
		return t, nil
	}
	if len(b) < headerLen {
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	if v := binary.LittleEndian.Uint16(b); v != version {
		return nil, fmt.Errorf("%w: %d, this program knows %d", ErrVersion, v, version)
	}
	count := binary.LittleEndian.Uint32(b[4:])
	if binary.LittleEndian.Uint16(b[2:]) != 0 || count == 0 {
		return nil, fmt.Errorf("%w: bad header", ErrCorrupt)
	}
	b = b[headerLen:]
	if uint64(count)*(producerLen+batchLen) > uint64(len(b)) {
		return nil, fmt.Errorf("%w: %d producers in %d bytes", ErrCorrupt, count, len(b))
	}
	last := int64(-1) // offset of the batch before: producers are in the order of their last batch
	for range count {
		p, rest, err := decodeProducer(b)
		if err != nil {
			return nil, err
		}
		if p.last().lastOffset() <= last || t.producers[p.id] != nil {
			return nil, fmt.Errorf("%w: producer %d is out of order", ErrCorrupt, p.id)
		}
		last = p.last().lastOffset()
		if len(t.producers) >= t.max {
			t.remove(t.ends.next)
		}
		t.producers[p.id] = p
		t.link(p)
		b = rest
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("%w: %d bytes left over", ErrCorrupt, len(b))
	}
	return t, nil
}

// decodeProducer reads one producer and returns what follows it.
func decodeProducer(b []byte) (*producer, []byte, error) {
	if len(b) < producerLen {
		return nil, nil, fmt.Errorf("%w: %d bytes for a producer", ErrCorrupt, len(b))
	}
	p := &producer{id: int64(binary.LittleEndian.Uint64(b)), epoch: int16(binary.LittleEndian.Uint16(b[8:]))}
	n := int(binary.LittleEndian.Uint16(b[10:]))
	b = b[producerLen:]
	if n < 1 || n > Kept || len(b) < n*batchLen || p.id < 0 || p.epoch < 0 {
		return nil, nil, fmt.Errorf("%w: producer %d epoch %d with %d batches in %d bytes", ErrCorrupt, p.id, p.epoch, n, len(b))
	}
	last := int64(-1)
	for i := range n {
		k := &p.batches[i]
		*k = batch{
			baseSeq: int32(binary.LittleEndian.Uint32(b)), delta: int32(binary.LittleEndian.Uint32(b[4:])),
			baseOffset: int64(binary.LittleEndian.Uint64(b[8:])), timestamp: int64(binary.LittleEndian.Uint64(b[16:])),
		}
		if k.baseSeq < 0 || k.delta < 0 || k.baseOffset <= last || k.lastOffset() < k.baseOffset {
			return nil, nil, fmt.Errorf("%w: batch %d of producer %d: %+v", ErrCorrupt, i, p.id, *k)
		}
		last = k.lastOffset()
		b = b[batchLen:]
	}
	p.n = uint8(n)
	return p, b, nil
}

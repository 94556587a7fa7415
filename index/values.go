package index

import (
	"encoding/binary"
	"fmt"

	"github.com/headpond/headpond/engine"
)

// The layouts of the values are described in docs/format/index.md. Pebble checks the blocks that they lie in, so a value
// that does not decode was written by a faulty program; lengths are still checked before memory is allocated.

const schemaVersion = 1

// partition is the row of a partition.
type partition struct {
	logStart int64
	runsEnd  int64 // one more than the last offset that was ever in a run
	bytes    int64
	epochs   []engine.EpochStart
}

// object is the row of an object.
type object struct {
	size int64
	live int64
}

func appendState(b []byte, s engine.IndexState) []byte {
	b = binary.LittleEndian.AppendUint32(b, schemaVersion)
	b = append(b, s.Cluster[:]...)
	b = append(b, s.WAL[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.Seq)
	b = binary.LittleEndian.AppendUint32(b, s.Sum)
	return binary.LittleEndian.AppendUint64(b, uint64(s.Through))
}

// schemaOf is the version that a state's value was written with; 0 when it is too short to tell.
func schemaOf(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func decodeState(b []byte) (s engine.IndexState, err error) {
	d := valueDecoder{b: b}
	d.uint32()
	copy(s.Cluster[:], d.take(16))
	copy(s.WAL[:], d.take(16))
	s.Seq = d.uint64()
	s.Sum = d.uint32()
	s.Through = engine.Position(d.uint64())
	return s, d.end()
}

func appendPartitionRow(b []byte, p *partition) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(p.logStart))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.runsEnd))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.bytes))
	for _, e := range p.epochs {
		b = binary.LittleEndian.AppendUint32(b, uint32(e.Epoch))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
	}
	return b
}

func decodePartitionRow(id engine.PartitionID, b []byte) (p partition, err error) {
	d := valueDecoder{b: b}
	p.logStart, p.runsEnd, p.bytes = d.int64(), d.int64(), d.int64()
	for d.err == nil && len(d.b) > 0 {
		p.epochs = append(p.epochs, engine.EpochStart{PartitionID: id, Epoch: int32(d.uint32()), Offset: d.int64()})
	}
	return p, d.end()
}

func (p *partition) state() engine.PartitionState {
	return engine.PartitionState{LogStart: p.logStart, End: max(p.runsEnd, p.logStart), Bytes: p.bytes, Epochs: p.epochs}
}

func appendProducersRow(b []byte, s *engine.ProducerSnapshot) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(s.Offset)), s.State...)
}

func decodeProducersRow(id engine.PartitionID, b []byte) (engine.ProducerSnapshot, error) {
	d := valueDecoder{b: b}
	s := engine.ProducerSnapshot{PartitionID: id, Offset: d.int64()}
	s.State = append(s.State, d.b...)
	return s, d.err
}

func appendObjectRow(b []byte, o *object) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(o.size))
	return binary.LittleEndian.AppendUint64(b, uint64(o.live))
}

func decodeObjectRow(b []byte) (o object, err error) {
	d := valueDecoder{b: b}
	o.size, o.live = d.int64(), d.int64()
	return o, d.end()
}

func appendMetaRow(b []byte, m *engine.MetaChange) []byte {
	return append(binary.LittleEndian.AppendUint64(b, m.Rev), m.Value...)
}

func decodeMetaRow(key string, b []byte) (engine.MetaChange, error) {
	d := valueDecoder{b: b}
	m := engine.MetaChange{Key: key, Rev: d.uint64()}
	m.Value = append([]byte{}, d.b...)
	return m, d.err
}

func appendRunRow(b []byte, r *engine.Run) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.FirstOffset))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.MaxTimestamp))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Object)))
	b = append(b, r.Object...)
	for i := range r.Blocks {
		k := &r.Blocks[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(k.Pos))
		b = binary.LittleEndian.AppendUint32(b, uint32(k.Len))
		b = binary.LittleEndian.AppendUint64(b, uint64(k.FirstOffset))
		b = binary.LittleEndian.AppendUint64(b, uint64(k.LastOffset))
		b = binary.LittleEndian.AppendUint64(b, uint64(k.MaxTimestamp))
		b = binary.LittleEndian.AppendUint32(b, k.Sum)
	}
	return b
}

const blockRowLen = 8 + 4 + 8 + 8 + 8 + 4

// decodeRun reads a run from its key and value.
func decodeRun(key, value []byte) (r engine.Run, err error) {
	if len(key) != runKeyLen {
		return r, fmt.Errorf("run key of %d bytes", len(key))
	}
	r.PartitionID, r.LastOffset = partitionOfKey(key), offsetOfRunKey(key)
	d := valueDecoder{b: value}
	r.FirstOffset, r.MaxTimestamp = d.int64(), d.int64()
	r.Object = string(d.take(int(d.uint32())))
	if d.err == nil {
		r.Blocks = make([]engine.Block, 0, len(d.b)/blockRowLen)
	}
	for d.err == nil && len(d.b) > 0 {
		r.Blocks = append(r.Blocks, engine.Block{
			Pos: d.int64(), Len: int32(d.uint32()),
			FirstOffset: d.int64(), LastOffset: d.int64(), MaxTimestamp: d.int64(), Sum: d.uint32(),
		})
	}
	return r, d.end()
}

// valueDecoder reads fixed-width fields off the front of b. The first failure sticks; after it, reads return zeros.
type valueDecoder struct {
	b   []byte
	err error
}

func (d *valueDecoder) take(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.b)) {
		d.err = fmt.Errorf("%d bytes wanted, %d left", n, len(d.b))
	}
	if d.err != nil {
		return nil
	}
	field := d.b[:n]
	d.b = d.b[n:]
	return field
}

func (d *valueDecoder) uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *valueDecoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *valueDecoder) int64() int64 { return int64(d.uint64()) }

// end is the first failure, or that bytes are left over.
func (d *valueDecoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		return fmt.Errorf("%d bytes left over", len(d.b))
	}
	return d.err
}

package load

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/history"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// idSize is the length of the id with which each value begins.
const idSize = 8

// newRecord makes a record of the id with up to maxValue bytes of value, and its digest.
func newRecord(rng *rand.Rand, id history.ID, p history.Partition, maxValue int) (*kgo.Record, uint32) {
	size := idSize
	if maxValue > idSize {
		// Mostly small, with a tail up to the limit.
		size += rng.IntN(min(maxValue-idSize, 512) + 1)
		if rng.IntN(64) == 0 {
			size = idSize + rng.IntN(maxValue-idSize+1)
		}
	}
	r := &kgo.Record{
		Topic: p.Topic, Partition: p.Num,
		Value:     make([]byte, size),
		Timestamp: time.UnixMilli(time.Now().UnixMilli()),
	}
	binary.BigEndian.PutUint64(r.Value, uint64(id))
	for i := idSize; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(r.Value[i:], rng.Uint64()&0x3f3f3f3f3f3f3f3f) // compresses a little
	}
	switch rng.IntN(3) {
	case 1:
		r.Key = []byte{}
	case 2:
		r.Key = binary.AppendUvarint(nil, rng.Uint64())
	}
	for range rng.IntN(3) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "h", Value: binary.AppendUvarint(nil, rng.Uint64())})
	}
	return r, Digest(r)
}

// Digest covers everything of a record that must come back as it was sent.
func Digest(r *kgo.Record) uint32 {
	var b []byte
	field := func(p []byte) {
		if p == nil {
			b = append(b, 0)
			return
		}
		b = binary.AppendUvarint(append(b, 1), uint64(len(p)))
		b = append(b, p...)
	}
	b = binary.AppendVarint(b, r.Timestamp.UnixMilli())
	field(r.Key)
	for _, h := range r.Headers {
		field([]byte(h.Key))
		field(h.Value)
	}
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, r.Value)
}

// ID reads the id of a record that newRecord made. A value too short for one gives an id that nobody sends.
func ID(r *kgo.Record) history.ID {
	if len(r.Value) < idSize {
		return history.MakeID(1<<24-1, uint64(len(r.Value)))
	}
	return history.ID(binary.BigEndian.Uint64(r.Value))
}

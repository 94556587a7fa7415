package group

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/headpond/headpond/internal/buffer"
)

const batchHeader = 61 // bytes before the records of a batch of format 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeBatch makes one uncompressed record batch of format 2 from the records, each of them with the timestamp, in ms since
// 1970. The caller releases the buffer. Layout: https://kafka.apache.org/documentation/#recordbatch.
func encodeBatch(records []record, ms int64) *buffer.Buffer {
	n := batchHeader
	for i, r := range records {
		size := recordSize(i, r)
		n += varintLen(int64(size)) + size
	}
	buf := buffer.Get(n)
	b := buf.Bytes()[:0]
	b = binary.BigEndian.AppendUint64(b, 0)            // base offset: the engine's
	b = binary.BigEndian.AppendUint32(b, uint32(n-12)) // length from here
	b = binary.BigEndian.AppendUint32(b, 0)            // leader epoch: the engine's
	b = append(b, 2, 0, 0, 0, 0)                       // format, checksum set below
	b = binary.BigEndian.AppendUint16(b, 0)            // attributes
	b = binary.BigEndian.AppendUint32(b, uint32(len(records)-1))
	b = binary.BigEndian.AppendUint64(b, uint64(ms))
	b = binary.BigEndian.AppendUint64(b, uint64(ms))
	b = binary.BigEndian.AppendUint64(b, ^uint64(0)) // no producer id,
	b = binary.BigEndian.AppendUint16(b, ^uint16(0)) // epoch
	b = binary.BigEndian.AppendUint32(b, ^uint32(0)) // or sequence
	b = binary.BigEndian.AppendUint32(b, uint32(len(records)))
	for i, r := range records {
		b = binary.AppendVarint(b, int64(recordSize(i, r)))
		b = append(b, 0)                     // attributes
		b = binary.AppendVarint(b, 0)        // timestamp less the batch's
		b = binary.AppendVarint(b, int64(i)) // offset less the batch's
		b = appendNullable(b, r.key)
		b = appendNullable(b, r.value)
		b = binary.AppendVarint(b, 0) // headers
	}
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return buf
}

// recordSize is the length of the record without its own length field.
func recordSize(i int, r record) int {
	return 3 + varintLen(int64(i)) + nullableLen(r.key) + nullableLen(r.value)
}

func appendNullable(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

func nullableLen(v []byte) int {
	if v == nil {
		return 1
	}
	return varintLen(int64(len(v))) + len(v)
}

func varintLen(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// Package recordbatch reads, checks and patches Kafka record batches of format 2 without decoding their records.
//
// A batch is kept byte for byte as the client sent it. A broker rewrites the base offset and the partition leader epoch,
// which lie outside the checksum, and, for topics whose timestamps are those of the append, the attributes, the largest
// timestamp and the checksum. All integers are big endian:
//
//	 0 base offset        int64     21 attributes         int16     51 producer epoch  int16
//	 8 length from 12     int32     23 last offset delta  int32     53 base sequence   int32
//	12 leader epoch       int32     27 base timestamp     int64     57 record count    int32
//	16 magic              int8      35 largest timestamp  int64     61 records, compressed as one
//	17 CRC-32C from 21    uint32    43 producer id        int64
//
// Attributes: bits 0-2 codec, 3 timestamps are those of the append, 4 transactional, 5 control, 6 base timestamp is a
// delete horizon. Source: https://kafka.apache.org/documentation/#recordbatch. docs/format/batch.md has more.
package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Sizes and numbers of the format.
const (
	HeaderSize = 61 // bytes before the records
	Magic      = 2  // the only format served

	// NoProducerID is the producer id of a batch that is not idempotent.
	NoProducerID = -1
	// NoTimestamp is the timestamp of a record that has none.
	NoTimestamp = -1

	lengthEnd   = 12 // the length field counts the bytes after it
	crcStart    = 21 // the checksum covers the bytes from here to the end
	minRecord   = 7  // length, attributes, timestamp, offset, key length, value length, header count: a byte each
	posLength   = 8
	posEpoch    = 12
	posMagic    = 16
	posCRC      = 17
	posAttrs    = 21
	posDelta    = 23
	posBaseTime = 27
	posMaxTime  = 35
	posProducer = 43
	posProdEp   = 51
	posSequence = 53
	posCount    = 57
)

// The bits of the attributes above the codec.
const (
	codecMask         = 0x07
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
	attrDeleteHorizon = 1 << 6
)

// Codec is how a batch's records are compressed.
type Codec int8

// The codecs of the format.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// String is Kafka's name of the codec.
func (c Codec) String() string {
	if c < None || c > Zstd {
		return "unknown"
	}
	return [...]string{"none", "gzip", "snappy", "lz4", "zstd"}[c]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a view over the bytes of exactly one batch: what [Next], [Check] or a store that checks its own bytes gave.
// Its methods read fields in place and panic if the slice is shorter than a header.
type Batch []byte

// BaseOffset is the offset of the first record.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b)) }

// LastOffset is the offset of the last record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after the last record.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// Size is the length in bytes by the length field, header included; a checked batch is as long.
func (b Batch) Size() int { return int(b.int32(posLength)) + lengthEnd }

// LeaderEpoch is the partition's leader epoch when the batch was appended.
func (b Batch) LeaderEpoch() int32 { return b.int32(posEpoch) }

// Magic is the format's number.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the checksum field.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes are the raw attribute bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[posAttrs:])) }

// Codec is how the records are compressed; a value above [Zstd] is possible in a batch that was not checked.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & codecMask) }

// LogAppendTime says that every record's timestamp is [Batch.MaxTimestamp], the time of the append.
func (b Batch) LogAppendTime() bool { return b.Attributes()&attrLogAppendTime != 0 }

// Transactional says that the batch belongs to a transaction.
func (b Batch) Transactional() bool { return b.Attributes()&attrTransactional != 0 }

// Control says that the records are markers of the broker's, not data.
func (b Batch) Control() bool { return b.Attributes()&attrControl != 0 }

// LastOffsetDelta is the last record's offset less the first's.
func (b Batch) LastOffsetDelta() int32 { return b.int32(posDelta) }

// BaseTimestamp is what the records' timestamps are relative to, in milliseconds since 1970.
func (b Batch) BaseTimestamp() int64 { return b.int64(posBaseTime) }

// MaxTimestamp is the largest timestamp of the records, in milliseconds since 1970, as the producer says;
// [NoTimestamp] when they have none.
func (b Batch) MaxTimestamp() int64 { return b.int64(posMaxTime) }

// ProducerID is the idempotent producer's id, or [NoProducerID].
func (b Batch) ProducerID() int64 { return b.int64(posProducer) }

// ProducerEpoch is the idempotent producer's epoch, or -1.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[posProdEp:])) }

// BaseSequence is the sequence of the first record, or -1.
func (b Batch) BaseSequence() int32 { return b.int32(posSequence) }

// LastSequence is the sequence of the last record; sequences wrap to 0 after 2^31-1. It is -1 without a sequence.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() < 0 {
		return -1
	}
	return AddSequence(b.BaseSequence(), b.LastOffsetDelta())
}

// AddSequence is the sequence n records after s: sequences wrap to 0 after 2^31-1. n is not negative.
func AddSequence(s, n int32) int32 {
	return int32((int64(s) + int64(n)) % (math.MaxInt32 + 1))
}

// Count is the number of records.
func (b Batch) Count() int32 { return b.int32(posCount) }

// Payload is the records' bytes, compressed as [Batch.Codec] says.
func (b Batch) Payload() []byte { return b[HeaderSize:b.Size()] }

// ComputeCRC is the checksum that the field should hold.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[crcStart:b.Size()], castagnoli) }

// SetBaseOffset writes the base offset, in place; the checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) { binary.BigEndian.PutUint64(b, uint64(offset)) }

// SetLeaderEpoch writes the partition leader epoch, in place; the checksum does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) { binary.BigEndian.PutUint32(b[posEpoch:], uint32(epoch)) }

// SetLogAppendTime gives every record the time of the append, in milliseconds since 1970: it sets the attribute and the
// largest timestamp and computes the checksum anew.
func (b Batch) SetLogAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[posAttrs:], uint16(b.Attributes()|attrLogAppendTime))
	binary.BigEndian.PutUint64(b[posMaxTime:], uint64(ms))
	binary.BigEndian.PutUint32(b[posCRC:], b.ComputeCRC())
}

func (b Batch) int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

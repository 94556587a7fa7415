package recordbatch

import (
	"errors"
	"fmt"
	"math"
)

// Why a batch is refused. Each is one error code of the protocol; they are matched with [errors.Is].
var (
	// ErrCorruptMessage is Kafka's CORRUPT_MESSAGE: cut short, or the checksum does not match.
	ErrCorruptMessage = errors.New("corrupt message")
	// ErrInvalidRecord is Kafka's INVALID_RECORD: intact, and not something that a client may send.
	ErrInvalidRecord = errors.New("invalid record")
	// ErrInvalidTimestamp is Kafka's INVALID_TIMESTAMP.
	ErrInvalidTimestamp = errors.New("invalid timestamp")
	// ErrUnsupportedCompression is Kafka's UNSUPPORTED_COMPRESSION_TYPE.
	ErrUnsupportedCompression = errors.New("unsupported compression type")
	// ErrTooLarge is Kafka's MESSAGE_TOO_LARGE.
	ErrTooLarge = errors.New("message too large")
)

// Limits are what [Check] allows. The zero value allows any size and no zstd.
type Limits struct {
	// MaxBytes is the largest batch, header included: the topic's max.message.bytes. Zero or less is no limit.
	MaxBytes int
	// Zstd allows that codec: clients may use it from version 7 of produce (KIP-110).
	Zstd bool
	// SkipCRC leaves the checksum to the caller, who computes it while it copies.
	SkipCRC bool
}

// Next returns the first batch in b and the bytes after it. It checks the length, the format's number and the range of
// the offsets, not the checksum, and not the count, which compaction may have lowered. The batch shares b's memory.
// An error is an [ErrCorruptMessage]; so is an empty b: callers loop while bytes are left.
func Next(b []byte) (batch Batch, rest []byte, err error) {
	if len(b) < HeaderSize {
		return nil, b, fmt.Errorf("%w: %d bytes are less than a header of %d", ErrCorruptMessage, len(b), HeaderSize)
	}
	h := Batch(b)
	if h.Magic() != Magic {
		return nil, b, fmt.Errorf("%w: format %d, not %d", ErrCorruptMessage, h.Magic(), Magic)
	}
	if h.int32(posLength) < HeaderSize-lengthEnd {
		return nil, b, fmt.Errorf("%w: length %d is less than a header's", ErrCorruptMessage, h.int32(posLength))
	}
	size := h.Size()
	if size > len(b) {
		return nil, b, fmt.Errorf("%w: %d bytes of %d", ErrCorruptMessage, len(b), size)
	}
	if h.LastOffsetDelta() < 0 || h.BaseOffset() < 0 || h.BaseOffset() > math.MaxInt64-int64(h.LastOffsetDelta())-1 {
		return nil, b, fmt.Errorf("%w: base offset %d, last offset delta %d", ErrCorruptMessage, h.BaseOffset(), h.LastOffsetDelta())
	}
	return Batch(b[:size:size]), b[size:], nil
}

// Verify compares the checksum with the bytes. A mismatch is [ErrCorruptMessage].
func (b Batch) Verify() error {
	if got := b.ComputeCRC(); got != b.CRC() {
		return fmt.Errorf("%w: checksum %08x, the bytes give %08x", ErrCorruptMessage, b.CRC(), got)
	}
	return nil
}

// Check decides whether b is exactly one batch that a client may produce. The order of the checks is Kafka's, so that a
// batch with several faults gets the same answer. The records of an uncompressed batch are walked, so that their number
// is known to be true; those of a compressed one are not looked at. The leader epoch may be anything: clients send -1
// or 0, and the broker overwrites it. The returned batch shares b's memory.
func Check(b []byte, limits Limits) (Batch, error) {
	if len(b) > posMagic {
		// Older formats keep their number at the same place; their lengths mean the same.
		if m := int8(b[posMagic]); m != Magic {
			return nil, fmt.Errorf("%w: format %d, not %d", ErrInvalidRecord, m, Magic)
		}
	}
	if len(b) < HeaderSize {
		return nil, fmt.Errorf("%w: %d bytes are less than a header of %d", ErrCorruptMessage, len(b), HeaderSize)
	}
	h := Batch(b)
	if length := int64(h.int32(posLength)) + lengthEnd; length != int64(len(b)) {
		if length >= HeaderSize && length < int64(len(b)) {
			return nil, fmt.Errorf("%w: more than one batch: %d bytes after the first", ErrInvalidRecord, int64(len(b))-length)
		}
		return nil, fmt.Errorf("%w: %d bytes, the length says %d", ErrCorruptMessage, len(b), length)
	}
	if c := h.Codec(); c > Zstd || c == Zstd && !limits.Zstd {
		return nil, fmt.Errorf("%w: codec %d", ErrUnsupportedCompression, c)
	}
	if h.BaseOffset() != 0 {
		return nil, fmt.Errorf("%w: base offset %d, not 0", ErrInvalidRecord, h.BaseOffset())
	}
	if limits.MaxBytes > 0 && len(b) > limits.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, len(b), limits.MaxBytes)
	}
	if !limits.SkipCRC {
		if err := h.Verify(); err != nil {
			return nil, err
		}
	}
	if err := h.checkClient(); err != nil {
		return nil, err
	}
	return h, nil
}

// checkClient is what remains to be checked of an intact batch.
func (b Batch) checkClient() error {
	switch {
	case b.Count() <= 0 || b.LastOffsetDelta() < 0 || int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidRecord, b.Count(), b.LastOffsetDelta())
	case b.Control():
		return fmt.Errorf("%w: clients may not write control records", ErrInvalidRecord)
	case b.ProducerID() < NoProducerID:
		return fmt.Errorf("%w: producer id %d", ErrInvalidRecord, b.ProducerID())
	case b.ProducerID() >= 0 && (b.BaseSequence() < 0 || b.ProducerEpoch() < 0):
		return fmt.Errorf("%w: producer id %d with epoch %d and sequence %d", ErrInvalidRecord, b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	case b.Transactional() && b.ProducerID() < 0:
		return fmt.Errorf("%w: transactional without a producer id", ErrInvalidRecord)
	case b.LogAppendTime():
		return fmt.Errorf("%w: clients may not set the time of the append", ErrInvalidTimestamp)
	case b.Attributes()&attrDeleteHorizon != 0:
		return fmt.Errorf("%w: clients may not set a delete horizon", ErrInvalidRecord)
	case b.Codec() == None:
		return walk(b.Payload(), b.Count())
	case len(b.Payload()) == 0:
		return fmt.Errorf("%w: %d compressed records in no bytes", ErrInvalidRecord, b.Count())
	}
	return nil
}

// walk follows the records' lengths and refuses payloads that do not hold exactly count of them.
func walk(p []byte, count int32) error {
	if int64(len(p)) < int64(count)*minRecord {
		return fmt.Errorf("%w: %d bytes cannot hold %d records", ErrInvalidRecord, len(p), count)
	}
	for i := range count {
		n, width := varint(p)
		if width <= 0 || n < minRecord-1 || n > int64(len(p)-width) {
			return fmt.Errorf("%w: record %d of %d: length %d of %d bytes left", ErrInvalidRecord, i, count, n, len(p))
		}
		p = p[width+int(n):]
	}
	if len(p) > 0 {
		return fmt.Errorf("%w: %d bytes after %d records", ErrInvalidRecord, len(p), count)
	}
	return nil
}

// varint reads a zigzag varint; width is 0 or less when there is none. Most lengths take a byte or two.
func varint(p []byte) (v int64, width int) {
	if len(p) >= 2 {
		if c := p[0]; c < 0x80 {
			return int64(c>>1) ^ -int64(c&1), 1
		}
		if c := p[1]; c < 0x80 {
			u := uint16(p[0]&0x7f) | uint16(c)<<7
			return int64(u>>1) ^ -int64(u&1), 2
		}
	}
	return longVarint(p)
}

func longVarint(p []byte) (v int64, width int) {
	var u uint64
	for i, c := range p[:min(len(p), 10)] {
		if i == 9 && c > 1 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

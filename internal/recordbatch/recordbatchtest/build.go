// Package recordbatchtest makes record batches for tests.
package recordbatchtest

import (
	"encoding/binary"
	"fmt"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/codec"
)

// Spec says what a batch holds. The zero value is one record with an empty value and timestamp 0, neither idempotent
// nor compressed.
type Spec struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         recordbatch.Codec
	Idempotent    bool // the three below count only with this
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
	LogAppendTime bool
	BaseTimestamp int64 // record timestamps are relative to the first record's, as clients do, if this is zero
	Records       []Record
}

// Record is one record to build.
type Record struct {
	Timestamp  int64 // milliseconds since 1970
	Key, Value []byte
	Headers    []recordbatch.Header
}

// Build returns a valid batch, with its checksum, or panics on a codec that is none.
func Build(s Spec) recordbatch.Batch {
	if len(s.Records) == 0 {
		s.Records = []Record{{Value: []byte{}}}
	}
	base := s.BaseTimestamp
	if base == 0 {
		base = s.Records[0].Timestamp
	}
	latest := s.Records[0].Timestamp
	var payload []byte
	for i, r := range s.Records {
		payload = appendRecord(payload, r, r.Timestamp-base, int64(i))
		latest = max(latest, r.Timestamp)
	}
	payload, err := codec.Compress(s.Codec, payload)
	if err != nil {
		panic(fmt.Sprintf("build a batch: %v", err))
	}
	if !s.Idempotent {
		s.ProducerID, s.ProducerEpoch, s.BaseSequence = recordbatch.NoProducerID, -1, -1
	}
	attributes := uint16(s.Codec)
	for bit, set := range map[int]bool{3: s.LogAppendTime, 4: s.Transactional, 5: s.Control} {
		if set {
			attributes |= 1 << bit
		}
	}
	b := make([]byte, 0, recordbatch.HeaderSize+len(payload))
	be := binary.BigEndian
	b = be.AppendUint64(b, uint64(s.BaseOffset))
	b = be.AppendUint32(b, uint32(recordbatch.HeaderSize-12+len(payload)))
	b = be.AppendUint32(b, uint32(s.LeaderEpoch))
	b = append(b, recordbatch.Magic)
	b = be.AppendUint32(b, 0)
	b = be.AppendUint16(b, attributes)
	b = be.AppendUint32(b, uint32(len(s.Records)-1))
	b = be.AppendUint64(b, uint64(base))
	b = be.AppendUint64(b, uint64(latest))
	b = be.AppendUint64(b, uint64(s.ProducerID))
	b = be.AppendUint16(b, uint16(s.ProducerEpoch))
	b = be.AppendUint32(b, uint32(s.BaseSequence))
	b = be.AppendUint32(b, uint32(len(s.Records)))
	return Seal(append(b, payload...))
}

// Seal writes the checksum that the bytes have, after a test has changed some, and returns the batch.
func Seal(b []byte) recordbatch.Batch {
	batch := recordbatch.Batch(b)
	binary.BigEndian.PutUint32(b[17:], batch.ComputeCRC())
	return batch
}

// Values returns a batch of one record a value, without keys, all with timestamp ms.
func Values(ms int64, values ...string) recordbatch.Batch {
	s := Spec{}
	for _, v := range values {
		s.Records = append(s.Records, Record{Timestamp: ms, Value: []byte(v)})
	}
	return Build(s)
}

func appendRecord(b []byte, r Record, time, delta int64) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, time)
	body = binary.AppendVarint(body, delta)
	body = appendBytes(body, r.Key)
	body = appendBytes(body, r.Value)
	body = binary.AppendVarint(body, int64(len(r.Headers)))
	for _, h := range r.Headers {
		body = appendBytes(body, append([]byte{}, h.Key...))
		body = appendBytes(body, h.Value)
	}
	b = binary.AppendVarint(b, int64(len(body)))
	return append(b, body...)
}

// appendBytes appends a length and the bytes; nil is null.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

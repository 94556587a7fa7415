package engine

import (
	"encoding/binary"
	"fmt"
)

// A record of the WAL is a batch or a commit (docs/format/walrecord.md):
//
//	batch   1 | topic id, 16 bytes | partition, 4 bytes big endian | the record batch
//	commit  2 | the encoded commit
const (
	walBatch  = 1
	walCommit = 2

	walBatchHeader = 1 + 16 + 4
)

// appendBatchHeader appends the header of a batch's WAL record.
func appendBatchHeader(dst []byte, p PartitionID) []byte {
	dst = append(dst, walBatch)
	dst = append(dst, p.Topic[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(p.Partition))
}

// splitRecord tells what a WAL record is. For a batch, body is the record batch and p its partition; for a commit, body is its
// encoding. body is a part of record.
func splitRecord(record []byte) (kind byte, p PartitionID, body []byte, err error) {
	if len(record) == 0 {
		return 0, p, nil, fmt.Errorf("%w: empty WAL record", ErrCorrupt)
	}
	switch kind = record[0]; kind {
	case walBatch:
		if len(record) < walBatchHeader {
			return 0, p, nil, fmt.Errorf("%w: WAL record of %d bytes is shorter than a batch's header", ErrCorrupt, len(record))
		}
		copy(p.Topic[:], record[1:])
		p.Partition = int32(binary.BigEndian.Uint32(record[17:]))
		return kind, p, record[walBatchHeader:], nil
	case walCommit:
		return kind, p, record[1:], nil
	}
	return 0, p, nil, fmt.Errorf("%w: WAL record of kind %d; a later version of this program may know it", ErrInvalid, kind)
}

package index

import (
	"encoding/binary"
	"math"

	"github.com/headpond/headpond/engine"
)

// Keys are ordered bytewise. The first byte is the kind:
//
//	's'                                      the state
//	'm' key                                  one key of the metadata
//	'o' name                                 one object
//	'p' topic id, partition, 0               one partition
//	'p' topic id, partition, 1               its producers
//	'r' topic id, partition, last offset     one run
//
// Numbers are big-endian with the sign bit flipped, so that they sort as numbers.
const (
	kindState     = 's'
	kindMeta      = 'm'
	kindObject    = 'o'
	kindPartition = 'p'
	kindRun       = 'r'

	partitionKeyLen = 1 + 16 + 4
	runKeyLen       = partitionKeyLen + 8

	rowPartition = 0
	rowProducers = 1
)

var stateKey = []byte{kindState}

func partitionPrefix(kind byte, p engine.PartitionID) []byte {
	b := make([]byte, 0, runKeyLen+1)
	b = append(b, kind)
	b = append(b, p.Topic[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(p.Partition)^(1<<31))
}

// partitionOfKey reads the partition from a key of kind 'p' or 'r' that is long enough.
func partitionOfKey(key []byte) (p engine.PartitionID) {
	copy(p.Topic[:], key[1:])
	p.Partition = int32(binary.BigEndian.Uint32(key[17:]) ^ (1 << 31))
	return p
}

func partitionKey(p engine.PartitionID, row byte) []byte {
	return append(partitionPrefix(kindPartition, p), row)
}

func runKey(p engine.PartitionID, lastOffset int64) []byte {
	return binary.BigEndian.AppendUint64(partitionPrefix(kindRun, p), uint64(lastOffset)^(1<<63))
}

func offsetOfRunKey(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[partitionKeyLen:]) ^ (1 << 63))
}

// runBounds are the bounds [lower, upper) of the keys of the partition's runs whose last offset is at least the given one.
func runBounds(p engine.PartitionID, offset int64) (lower, upper []byte) {
	return runKey(p, offset), append(runKey(p, math.MaxInt64), 0)
}

func objectKey(name string) []byte { return append([]byte{kindObject}, name...) }
func metaKey(key string) []byte    { return append([]byte{kindMeta}, key...) }

// prefixEnd is the first key after all that begin with the prefix, which does not end in 0xff throughout.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

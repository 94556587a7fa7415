package objectfile

import (
	"bytes"
	"cmp"
	"fmt"
	"math"

	"github.com/headpond/headpond/internal/recordbatch"
)

// DefaultBlockBytes is the length at which a block is full.
const DefaultBlockBytes = 512 << 10

// Batch is what a layout must know of a record batch.
type Batch struct {
	Size         int   // bytes
	First, Last  int64 // offsets
	Records      int32
	MaxTimestamp int64
	LeaderEpoch  int32
}

// Describe reads a batch's header. b is as long as the batch.
func Describe(b recordbatch.Batch) Batch {
	return Batch{Size: len(b), First: b.BaseOffset(), Last: b.LastOffset(), Records: b.Count(), MaxTimestamp: b.MaxTimestamp(), LeaderEpoch: b.LeaderEpoch()}
}

// Layout is the plan of an object: its exact size and its runs, known before a byte is written. It takes memory by
// blocks, not by batches. A Layout is not safe for concurrent use while it is added to.
type Layout struct {
	meta       Meta
	blockBytes int
	runs       []Run // the last has no blocks when it was just begun
	end        int64 // where the next block goes
	indexSize  int64
}

// NewLayout begins the plan of an object with blocks of some blockBytes; 0 is [DefaultBlockBytes].
func NewLayout(m Meta, blockBytes int) (*Layout, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	if blockBytes <= 0 {
		blockBytes = DefaultBlockBytes
	}
	return &Layout{meta: m, blockBytes: blockBytes, end: HeaderSize}, nil
}

// Begin starts the run of a partition. Partitions come in the order of [ComparePartitions], each once; a segment has
// one. Every run takes a batch at least.
func (l *Layout) Begin(p Partition) error {
	if n := len(l.runs); n > 0 {
		if l.meta.Kind == Segment {
			return fmt.Errorf("a second partition in a segment")
		}
		last := &l.runs[n-1]
		if len(last.Blocks) == 0 {
			return fmt.Errorf("partition %d of topic %x has no batches", last.Partition.Partition, last.Topic)
		}
		if ComparePartitions(last.Partition, p) >= 0 {
			return fmt.Errorf("partition %d of topic %x is out of order", p.Partition, p.Topic)
		}
	}
	if p.Partition < 0 {
		return fmt.Errorf("partition %d of topic %x", p.Partition, p.Topic)
	}
	l.runs = append(l.runs, Run{Partition: p, MaxTimestamp: recordbatch.NoTimestamp})
	l.indexSize += runSize
	return nil
}

// Add plans the next batch of the partition begun last. Its offsets follow those of the batch before.
func (l *Layout) Add(b Batch) error {
	if len(l.runs) == 0 {
		return fmt.Errorf("a batch before its partition")
	}
	r := &l.runs[len(l.runs)-1]
	switch {
	case b.Size <= 0 || b.Size > math.MaxInt32:
		return fmt.Errorf("batch of %d bytes", b.Size)
	case b.First < 0 || b.Last < b.First || b.Last == math.MaxInt64 || b.Records < 1 || int64(b.Records)-1 > b.Last-b.First:
		return fmt.Errorf("batch of %d records with offsets %d to %d", b.Records, b.First, b.Last)
	case len(r.Blocks) > 0 && b.First != r.Last+1:
		return fmt.Errorf("batch at offset %d after %d", b.First, r.Last)
	case l.indexSize+blockSize > MaxIndex:
		return fmt.Errorf("index of more than %d bytes", MaxIndex)
	case l.end > math.MaxInt64-int64(b.Size)-MaxIndex-FooterSize:
		return fmt.Errorf("object of more than 2^63 bytes")
	}
	if len(r.Blocks) == 0 {
		r.First, r.LeaderEpoch = b.First, b.LeaderEpoch
	}
	if n := len(r.Blocks); n == 0 || int64(r.Blocks[n-1].Length)+int64(b.Size) > int64(l.blockBytes) {
		r.Blocks = append(r.Blocks, Block{Position: l.end, First: b.First, MaxTimestamp: recordbatch.NoTimestamp})
		l.indexSize += blockSize
	}
	k := &r.Blocks[len(r.Blocks)-1]
	k.Length += int32(b.Size)
	k.Last, r.Last = b.Last, b.Last
	k.MaxTimestamp = max(k.MaxTimestamp, b.MaxTimestamp)
	r.MaxTimestamp = max(r.MaxTimestamp, b.MaxTimestamp)
	r.Records += int64(b.Records)
	l.end += int64(b.Size)
	return nil
}

// Meta is what the object will say of its origin.
func (l *Layout) Meta() Meta { return l.meta }

// Size is the exact length of the object in bytes, as planned so far.
func (l *Layout) Size() int64 { return l.end + l.indexSize + FooterSize }

// ready refuses a plan that is not an object yet.
func (l *Layout) ready() error {
	if len(l.runs) == 0 || len(l.runs[len(l.runs)-1].Blocks) == 0 {
		return fmt.Errorf("object with a partition missing or empty")
	}
	return nil
}

// ComparePartitions orders partitions as an object does: by the bytes of the topic id, then by number.
func ComparePartitions(a, b Partition) int {
	if c := bytes.Compare(a.Topic[:], b.Topic[:]); c != 0 {
		return c
	}
	return cmp.Compare(a.Partition, b.Partition)
}

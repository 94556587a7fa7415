package engine

// PartitionID names one partition of one incarnation of a topic.
type PartitionID struct {
	Topic     ID
	Partition int32
}

// Commit is a record of the commit log: one atomic change of what the engine knows besides the batches themselves. The
// commit log lives in the WAL among the batches; a commit takes effect when its record is done, and only then is it
// applied to the [Index]. Applying the same commits in the same order always leads to the same index.
type Commit struct {
	// Seq counts the commits of a cluster: 1, 2, 3 and so on, without a gap.
	Seq uint64
	// Prev is the [Commit.Sum] of the commit before, so that an index of another history is found out. The first has 0.
	Prev uint32
	// WAL and Epoch are the log, and the owner of it, that wrote the commit.
	WAL   ID
	Epoch uint64
	// Through, when not zero, says that every batch of WAL at or below this position is in an object that a commit up to
	// and including this one adds, or belongs to a partition that is gone.
	Through Position

	Added     []Object           // objects that count from now on, with their runs
	Deleted   []string           // objects whose bytes are gone: the index forgets them
	LogStarts []LogStart         // log start offsets that moved up: runs wholly below are dropped
	Dropped   []PartitionID      // partitions that are gone with all their runs, producers and epochs
	Producers []ProducerSnapshot // producer state of partitions, each replacing the one before
	Epochs    []EpochStart       // leader epochs that began
	Meta      []MetaChange       // metadata written
}

// Object is an object that a commit adds.
type Object struct {
	Name string
	Size int64 // bytes
	Runs []Run
}

// Run is one partition's contiguous offsets inside one object: the unit of the index. Batches of the run lie in its
// blocks, in order; the offsets are [FirstOffset, LastOffset].
type Run struct {
	PartitionID
	FirstOffset  int64
	LastOffset   int64
	MaxTimestamp int64 // largest record timestamp, ms since 1970; -1 when no record has one
	Object       string
	Blocks       []Block // at least one; in offset order
}

// Bytes is the length of the run's batches.
func (r *Run) Bytes() int64 {
	var n int64
	for i := range r.Blocks {
		n += int64(r.Blocks[i].Len)
	}
	return n
}

// Block is a piece of a run: whole batches that are checked, read and cached together.
type Block struct {
	Pos          int64 // byte offset in the object
	Len          int32 // bytes
	FirstOffset  int64
	LastOffset   int64
	MaxTimestamp int64  // as Run's
	Sum          uint32 // checksum as the object format defines it; covers cluster, topic, partition and first offset too
}

// LogStart says that offsets of a partition below Offset are gone.
type LogStart struct {
	PartitionID
	Offset int64
}

// ProducerSnapshot is the state of a partition's idempotent producers after all batches below Offset.
type ProducerSnapshot struct {
	PartitionID
	Offset int64
	State  []byte // encoding of internal/producerstate; empty: none
}

// EpochStart says that leader epoch Epoch of a partition begins at offset Offset.
type EpochStart struct {
	PartitionID
	Epoch  int32
	Offset int64
}

// MetaChange writes one key of the metadata. A nil Value deletes it.
type MetaChange struct {
	Key   string
	Rev   uint64 // revision that this change gives the key: the Seq of its commit
	Value []byte
}

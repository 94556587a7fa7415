package engine

import "context"

// Index maps partitions to runs and holds what else the commits say. It is a cache of the truth, which is the commit
// log: it may be lost, or be an older copy, and is then brought up by applying commits again.
//
// Reads may run concurrently with each other and with one writer; Apply, Sync and Reset are called by one goroutine at a
// time. A read sees whole commits only. Results belong to the caller. Damage that is found is [ErrCorrupt], a device
// without room [ErrFull], a call after Close [ErrClosed].
type Index interface {
	// State says which commit was applied last. A new index has the zero state.
	State() (IndexState, error)

	// Apply applies the commit whose Seq is State().Seq+1 and whose Prev is State().Sum, as one atomic change; another is
	// [ErrInvalid]. sum is the commit's own checksum. The change is visible when it returns and durable at the next Sync
	// at the latest; a crash keeps a prefix of the commits applied.
	Apply(ctx context.Context, c *Commit, sum uint32) error

	// Sync makes everything applied durable.
	Sync(ctx context.Context) error

	// Reset empties the index and binds it to a cluster and a WAL. It is durable when it returns.
	Reset(ctx context.Context, cluster, wal ID) error

	// SetWAL binds the index to another WAL of the same cluster, whose positions start anew. Durable when it returns.
	SetWAL(ctx context.Context, wal ID) error

	// Run returns the run that holds the offset, else the first one after it, else [ErrNotFound].
	Run(p PartitionID, offset int64) (Run, error)

	// Runs calls fn for the partition's runs in offset order, from the one that holds the offset, or the first after it,
	// until fn returns false.
	Runs(p PartitionID, offset int64, fn func(Run) bool) error

	// Partition returns what commits say of a partition; the zero state when they say nothing.
	Partition(p PartitionID) (PartitionState, error)

	// Partitions calls fn for every partition that commits say something of, until it returns false.
	Partitions(fn func(PartitionID, PartitionState) bool) error

	// Meta calls fn for the metadata keys that begin with prefix, in key order, until it returns false.
	Meta(prefix string, fn func(MetaChange) bool) error

	// Objects calls fn for every object added and not yet deleted, in name order, until it returns false.
	Objects(fn func(ObjectState) bool) error

	// Close releases the index. It makes everything applied durable first. A second Close returns nil.
	Close() error
}

// IndexState is the last commit that an index holds.
type IndexState struct {
	Cluster ID
	WAL     ID
	Seq     uint64
	Sum     uint32   // of that commit
	Through Position // greatest Through of the commits of this WAL
}

// PartitionState is what the commits say of a partition.
type PartitionState struct {
	LogStart  int64 // lowest offset that exists
	End       int64 // one more than the last offset in runs; at least LogStart
	Bytes     int64 // in runs
	Epochs    []EpochStart
	Producers ProducerSnapshot
}

// ObjectState is one object of the index.
type ObjectState struct {
	Name string
	Size int64
	Live int // runs that still count; at 0 the object may be deleted
}

package engine

import "time"

// Events are called as things happen; each may be nil. They are called from the engine's own goroutines and must not block.
type Events struct {
	// WALWrite: the log wrote to its device.
	WALWrite func(WALWrite)
	// WALOpened: the log was opened, at start or after a failure.
	WALOpened func(WALInfo)
	// WALFailed: the open log failed; the engine opens it again unless the error is [ErrFenced].
	WALFailed func(error)
	// Uploaded: an upload ended; err is nil when its commit is done.
	Uploaded func(bytes int64, objects int, took time.Duration, err error)
	// StoreCall: one attempt at the object store ended. op is put, create, get, head, list or delete.
	StoreCall func(op string, bytes int64, took time.Duration, err error)
	// Committed: a commit is done and applied to the index.
	Committed func(seq uint64)
	// Trimmed: the log was told that it may forget what lies at or below the position.
	Trimmed func(Position)
	// Retained: retention or a deletion of records moved a log start.
	Retained func(p PartitionID, logStart int64)
	// ObjectsDeleted: objects that nothing refers to were deleted.
	ObjectsDeleted func(n int)
	// CacheRead: a block was asked of the block cache.
	CacheRead func(hit bool)
	// Damaged: stored bytes were found damaged.
	Damaged func(error)
}

func (e *Events) withDefaults() *Events {
	d := *e
	if d.WALWrite == nil {
		d.WALWrite = func(WALWrite) {}
	}
	if d.WALOpened == nil {
		d.WALOpened = func(WALInfo) {}
	}
	if d.WALFailed == nil {
		d.WALFailed = func(error) {}
	}
	if d.Uploaded == nil {
		d.Uploaded = func(int64, int, time.Duration, error) {}
	}
	if d.StoreCall == nil {
		d.StoreCall = func(string, int64, time.Duration, error) {}
	}
	if d.Committed == nil {
		d.Committed = func(uint64) {}
	}
	if d.Trimmed == nil {
		d.Trimmed = func(Position) {}
	}
	if d.Retained == nil {
		d.Retained = func(PartitionID, int64) {}
	}
	if d.ObjectsDeleted == nil {
		d.ObjectsDeleted = func(int) {}
	}
	if d.CacheRead == nil {
		d.CacheRead = func(bool) {}
	}
	if d.Damaged == nil {
		d.Damaged = func(error) {}
	}
	return &d
}

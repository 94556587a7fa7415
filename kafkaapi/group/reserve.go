package group

import "sync/atomic"

const (
	// reserveBytes is how much of a full log the batches of all groups together may take. It is far below what a log
	// reserves: the rest belongs to the engine's commits, which alone can make room. Groups that took it all would leave the
	// log full for ever.
	reserveBytes = 128 << 10
	// reserveFrame is what a batch may take in a log besides its own bytes.
	reserveFrame = 4 << 10
)

// reserve counts what groups took of a full log. It is shared by the shards.
type reserve struct {
	used atomic.Int64
}

// take says whether a batch of n bytes may be appended to a full log.
func (r *reserve) take(n int) bool {
	cost := int64(n + reserveFrame)
	if r.used.Add(cost) > reserveBytes {
		r.used.Add(-cost)
		return false
	}
	return true
}

// refill makes all of it available again: the log has room for others, which come after it.
func (r *reserve) refill() {
	if r.used.Load() != 0 {
		r.used.Store(0)
	}
}

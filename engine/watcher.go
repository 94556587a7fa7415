package engine

// Watcher tells when partitions have something new, so that a long poll over many partitions costs nothing while nothing
// happens: partitions are watched once and stay watched across polls, like descriptors of an epoll set.
//
// A watched partition becomes ready when its high watermark passes the offset that is watched for, when its log start moves above
// it, and when the partition is deleted or the engine becomes unavailable. It is then handed out by Take once, and is not
// watched any more until Watch is called again. Methods may be called concurrently.
type Watcher struct{}

// NewWatcher returns a watcher of no partitions.
func (e *Engine) NewWatcher() *Watcher { return &Watcher{} }

// Watch watches a partition for something at or above the offset; it replaces an earlier watch of it. What is there already
// makes it ready at once.
func (w *Watcher) Watch(p *Partition, offset int64) {}

// Forget ends the watch of a partition.
func (w *Watcher) Forget(p *Partition) {}

// C receives after partitions became ready. It has room for one token: a receive is a hint to call Take.
func (w *Watcher) C() <-chan struct{} { return nil }

// Take appends the partitions that became ready since the last call to dst.
func (w *Watcher) Take(dst []*Partition) []*Partition { return dst }

// Close ends all watches.
func (w *Watcher) Close() {}

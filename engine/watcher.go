package engine

import (
	"slices"
	"sync"
)

// Watcher tells when partitions have something new, so that a long poll over many partitions costs nothing while nothing
// happens: partitions are watched once and stay watched across polls, like descriptors of an epoll set.
//
// A watched partition becomes ready when its high watermark passes the offset that is watched for, when its log start moves above
// it, and when the partition is deleted or the engine becomes unavailable. It is then handed out by Take once, and is not
// watched any more until Watch is called again. Methods may be called concurrently.
type Watcher struct {
	c chan struct{}

	// A Partition's mu is taken before mu, never after.
	mu     sync.Mutex
	closed bool
	// state holds each partition that is watched or waits for Take: true for the latter, which are in ready too.
	state map[*Partition]bool
	ready []*Partition
}

// NewWatcher returns a watcher of no partitions.
func (e *Engine) NewWatcher() *Watcher {
	return &Watcher{c: make(chan struct{}, 1), state: make(map[*Partition]bool)}
}

// Watch watches a partition for something at or above the offset; it replaces an earlier watch of it. What is there already
// makes it ready at once.
func (w *Watcher) Watch(p *Partition, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.unreadyLocked(p)
	if p.newsLocked(offset) {
		delete(p.watches, w)
		w.readyLocked(p)
		return
	}
	if p.watches == nil {
		p.watches = make(map[*Watcher]int64)
	}
	p.watches[w] = offset
	w.state[p] = false
}

// Forget ends the watch of a partition.
func (w *Watcher) Forget(p *Partition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unreadyLocked(p)
	delete(p.watches, w)
	delete(w.state, p)
}

// C receives after partitions became ready. It has room for one token: a receive is a hint to call Take.
func (w *Watcher) C() <-chan struct{} { return w.c }

// Take appends the partitions that became ready since the last call to dst.
func (w *Watcher) Take(dst []*Partition) []*Partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	dst = append(dst, w.ready...)
	for _, p := range w.ready {
		delete(w.state, p)
	}
	clear(w.ready)
	w.ready = w.ready[:0]
	return dst
}

// Close ends all watches. Later calls do nothing.
func (w *Watcher) Close() {
	w.mu.Lock()
	state := w.state
	w.closed, w.state, w.ready = true, nil, nil
	w.mu.Unlock()
	// Nothing is added any more, so that each partition's lock can be taken without w's, in their order.
	for p := range state {
		p.mu.Lock()
		delete(p.watches, w)
		p.mu.Unlock()
	}
}

// unreadyLocked takes p out of ready, if it is there.
func (w *Watcher) unreadyLocked(p *Partition) {
	if !w.state[p] {
		return
	}
	i := slices.Index(w.ready, p)
	w.ready = slices.Delete(w.ready, i, i+1)
	delete(w.state, p)
}

// readyLocked hands p to the next Take.
func (w *Watcher) readyLocked(p *Partition) {
	w.state[p] = true
	w.ready = append(w.ready, p)
	select {
	case w.c <- struct{}{}:
	default: // a token that nobody took yet says the same
	}
}

// newsLocked tells whether someone who has read up to offset should look again.
func (p *Partition) newsLocked(offset int64) bool {
	return p.err != nil || p.high > offset || p.logStart > offset
}

// wakeWatchersLocked hands the partition to the watchers that have waited for what just changed: its high watermark, its log
// start or its error. p.mu is held.
func (p *Partition) wakeWatchersLocked() {
	if len(p.watches) == 0 {
		return
	}
	for w, offset := range p.watches {
		if !p.newsLocked(offset) {
			continue
		}
		delete(p.watches, w)
		w.mu.Lock()
		if !w.closed {
			w.readyLocked(p)
		}
		w.mu.Unlock()
	}
}

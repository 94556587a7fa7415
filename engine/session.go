package engine

import (
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A session is one opening of the WAL, from recovery to the failure or the close that ends it. All state that is not durable lives
// and dies with it: after a failed write nothing in memory is trusted, and the next session rebuilds it from index and log.
//
// Lock order: commits, session.mu, Partition.mu, Watcher.mu. None is held across I/O, save commits.
type session struct {
	e    *Engine
	wal  WAL
	info WALInfo

	// commits is held by the one commit that is decided, written and applied at a time.
	commits *semaphore.Weighted

	mu       sync.Mutex
	err      error         // why the session admits nothing more; nil while it lives
	ended    chan struct{} // closed when err is set
	chunks   []*chunk      // in WAL order: what a commit doesn't cover yet, and what it does and is in memory
	mem      int64         // sum of the chunks' mem
	dir      int64         // sum of the chunks' dir
	admitted Position      // of the last record admitted
	done     Position      // of the last record done
	room     chan struct{} // closed, and replaced, when something makes room for appends
	sealed   chan struct{} // has room for one token: a chunk was sealed, or the log fills; for the uploader
	taken    Position      // the uploader has taken the chunks up to here
	wanted   Position      // somebody waits for uploads up to here
	// commitLog holds the commits that are in the WAL and in no commit-log object yet, oldest first.
	commitLog []loggedCommit
	covered   Position   // the greatest Through of a commit that is done and applied
	seq       uint64     // of the last commit done
	sum       uint32     // of that commit
	saving    sync.Mutex // held while commits are copied to objects

	registering  sync.Mutex
	isRegistered bool // the store's root knows this opening of the log

	// background work of the session: stopped by ended, and waited for.
	work sync.WaitGroup
}

// loggedCommit is a commit that is done, as it stands in the WAL.
type loggedCommit struct {
	seq         uint64
	before, pos Position // its record is the one in (before, pos]
}

// fail ends the session: nothing more is admitted, and the engine opens the log again or dies.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

func (s *session) failLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	close(s.ended)
	s.wakeLocked()
}

// alive returns nil while the session admits.
func (s *session) alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// wakeLocked wakes the appends that wait for room.
func (s *session) wakeLocked() {
	close(s.room)
	s.room = make(chan struct{})
}

// kickUploader tells the uploader to look again.
func (s *session) kickUploader() {
	select {
	case s.sealed <- struct{}{}:
	default:
	}
}

// openChunkLocked returns the chunk that takes the next batch.
func (s *session) openChunkLocked() *chunk {
	if n := len(s.chunks); n > 0 {
		c := s.chunks[n-1]
		if !c.sealed && c.bytes < s.e.chunkBytes && c.mem < 2*s.e.chunkBytes {
			return c
		}
		s.sealLocked(c)
	}
	from := s.admitted
	if n := len(s.chunks); n > 0 {
		from = s.chunks[n-1].to // commits between two chunks belong to the later one
	}
	c := &chunk{from: from, to: from, born: time.Now(), runs: make(map[*Partition]*chunkRun)}
	s.chunks = append(s.chunks, c)
	s.kickUploader() // for its timer
	return c
}

// addLocked notes an admitted batch in a chunk. p.mu is held too.
func (s *session) addLocked(c *chunk, p *Partition, b tailBatch, pos Position, keep bool) {
	mem, dir := c.mem, c.dir
	c.add(p, b, pos, keep)
	s.mem += c.mem - mem
	s.dir += c.dir - dir
}

// sealLocked closes a chunk to further batches.
func (s *session) sealLocked(c *chunk) {
	if c.sealed {
		return
	}
	c.sealed = true
	s.kickUploader()
}

// shrinkLocked drops the oldest chunks from memory until the tail fits its budget again. What a commit covers is forgotten
// altogether, since objects have it; what it doesn't is read from the WAL from then on.
func (s *session) shrinkLocked(budget int64) {
	for i := 0; i < len(s.chunks) && s.mem > budget; i++ {
		c := s.chunks[i]
		if c.mem == 0 {
			continue
		}
		if !c.sealed || c.undone > 0 {
			break
		}
		s.mem -= c.unload()
	}
	s.dropLocked()
}

// dropLocked forgets the chunks at the front that a commit covers and that are not in memory.
func (s *session) dropLocked() {
	n := 0
	for n < len(s.chunks) && s.chunks[n].uploaded && !s.chunks[n].inMemory() {
		c := s.chunks[n]
		s.dir -= c.dir
		for _, r := range c.order {
			r.p.mu.Lock()
			if len(r.p.tail) > 0 && r.p.tail[0] == r {
				r.p.tail[0] = nil
				r.p.tail = r.p.tail[1:]
			}
			r.p.mu.Unlock()
		}
		n++
	}
	if n > 0 {
		clear(s.chunks[:n])
		s.chunks = s.chunks[n:]
		s.wakeLocked()
	}
}

// uploadedThrough notes that a done commit covers every batch at or below the position.
func (s *session) uploadedThrough(pos Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.chunks {
		if c.sealed && c.to <= pos {
			c.uploaded = true
		}
	}
	s.dropLocked()
	s.wakeLocked()
}

package group

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
)

// phase is how far a shard is.
type phase int8

const (
	unloaded  phase = iota // memory is empty; the next request loads
	loading                // a load is under way
	loaded                 // memory answers
	abandoned              // out of use for good
)

const (
	loadWait     = 3 * time.Second // how long a request waits for a load before the client is told to ask again
	minLoadRetry = 50 * time.Millisecond
	maxLoadRetry = 5 * time.Second
)

// shard is one partition of the topic: its groups, and the writer of its log.
type shard struct {
	c     *Coordinator
	index int32

	mu       sync.Mutex
	phase    phase
	loadEnd  chan struct{} // closed when the load under way ends
	retryAt  time.Time     // no load begins before
	retry    time.Duration
	groups   map[string]*group
	queue    []*write
	queued   int  // bytes in queue
	writing  bool // a writer is running
	sweeping bool // a sweep is under way
	log      offsetsLog
	logBytes int64 // of the log, from its start
	end      int64 // offset after the log's last record
	// rewriteAt is the length of the log at which to look whether its live entries are to be written anew.
	rewriteAt int64
}

func newShard(c *Coordinator, index int32) *shard {
	return &shard{c: c, index: index, groups: map[string]*group{}}
}

// lockLoaded locks the shard once it is loaded. With a code other than none it is not locked.
func (s *shard) lockLoaded(ctx context.Context) int16 {
	var expired <-chan time.Time
	for {
		s.mu.Lock()
		switch s.phase {
		case loaded:
			return codeNone
		case abandoned:
			s.mu.Unlock()
			return codeNotCoordinator
		case unloaded:
			if !s.startLoad() {
				s.mu.Unlock()
				return codeLoading
			}
		}
		end := s.loadEnd
		s.mu.Unlock()
		if expired == nil {
			timer := time.NewTimer(loadWait)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-end:
		case <-expired:
			return codeLoading
		case <-ctx.Done():
			return codeLoading
		}
	}
}

// kick begins a load where none was made yet.
func (s *shard) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == unloaded {
		s.startLoad()
	}
}

// startLoad begins a load of an unloaded shard, unless the last one failed a moment ago. s.mu is held.
func (s *shard) startLoad() bool {
	if time.Now().Before(s.retryAt) {
		return false
	}
	s.phase, s.loadEnd = loading, make(chan struct{})
	s.c.work.Go(s.load)
	return true
}

// load reads the log and fills memory with what it says.
func (s *shard) load() {
	s.c.loads <- struct{}{}
	r, err := s.readLog()
	<-s.c.loads

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(s.loadEnd)
	if s.phase != loading {
		return
	}
	if err != nil {
		s.phase = unloaded
		s.retry = min(max(2*s.retry, minLoadRetry), maxLoadRetry)
		s.retryAt = time.Now().Add(s.retry)
		if errors.Is(err, engine.ErrCorrupt) {
			s.c.o.Logger.Error("groups cannot be loaded", "topic", Topic, "partition", s.index, "error", err)
		} else {
			s.c.o.Logger.Warn("groups cannot be loaded, trying again", "topic", Topic, "partition", s.index, "error", err)
		}
		return
	}
	s.phase, s.retry = loaded, 0
	s.log, s.logBytes, s.end, s.rewriteAt = r.log, r.bytes, r.end, s.c.o.SnapshotBytes
	for id, gi := range r.image {
		if err := s.restore(id, gi); err != nil {
			s.c.o.Logger.Error("a group's members are lost, its offsets are kept", "group", id, "error", err)
		}
	}
	if s.logBytes >= s.rewriteAt {
		s.startWriter()
	}
}

// loadedLog is what a load found.
type loadedLog struct {
	log   offsetsLog // nil: there is no topic yet
	image image
	bytes int64
	end   int64 // offset after the last record
}

func (s *shard) readLog() (loadedLog, error) {
	r := loadedLog{image: image{}}
	log, err := s.c.openFor(s.c.loadCtx, s, false)
	if err != nil || log == nil {
		return r, err
	}
	r.log = log
	skipped := 0
	err = log.read(s.c.loadCtx, func(b recordbatch.Batch) error {
		r.bytes, r.end = r.bytes+int64(b.Size()), b.NextOffset()
		for rec, err := range b.Records(nil, 0) {
			if err != nil {
				return errors.Join(engine.ErrCorrupt, err)
			}
			known, err := r.image.apply(rec.Key, rec.Value)
			if err != nil {
				return err
			}
			if !known {
				skipped++
			}
		}
		return nil
	})
	if skipped > 0 {
		s.c.o.Logger.Warn("skipped records of an unknown kind", "topic", Topic, "partition", s.index, "records", skipped)
	}
	return r, err
}

// abandon takes the shard out of use. Parked requests are answered; writes that were accepted go on.
func (s *shard) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = abandoned
	s.dropGroups()
}

// unload forgets everything, because memory may no longer be what the log says; the next request loads. s.mu is held.
func (s *shard) unload(cause error) {
	queue := s.queue
	s.queue, s.queued, s.log = nil, 0, nil
	for _, w := range queue {
		w.done(cause)
	}
	s.dropGroups()
	if s.phase != abandoned {
		s.phase = unloaded
	}
}

// dropGroups answers all that is parked and stops all timers. s.mu is held.
func (s *shard) dropGroups() {
	for _, g := range s.groups {
		g.drop()
	}
	s.groups = map[string]*group{}
}

// group returns a group, which is made when it is not there. s.mu is held.
func (s *shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = newGroup(s, id)
		s.groups[g.id] = g
	}
	return g
}

package kafkaapi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

const (
	sessionIdle = 2 * time.Minute // a session that was not used for so long makes room for another
	sessionMost = 200_000         // partitions of all sessions together, of some 300 bytes each
)

// fetchSessions are the sessions of all clients (KIP-227). A session belongs to no connection: a client that connects
// again goes on with its session.
//
// Locks: fetchSessions.mu may be taken while a session is held; sessions are never waited for.
type fetchSessions struct {
	slots int

	mu         sync.Mutex
	byID       map[int32]*fetchSession
	partitions int // of all sessions
}

// fetchSession is what a client wants to read. It is held by one request at a time, from [fetchSessions.open] to leave; a
// request without a session has one for itself that is not kept.
//
// Its partitions are watched from the moment when nothing more is to be had of them, and stay so over any number of
// requests, so that a request for which there is nothing new looks at none of them.
type fetchSession struct {
	id      int32 // 0: not kept
	epoch   int32 // of the next request
	byID    bool  // topics are named by id
	watcher *engine.Watcher

	topics map[topicKey]*fetchTopic
	all    []*fetchPart                      // in the order in which they were named
	known  map[engine.PartitionID]*fetchPart // those that are found, for the watcher
	ready  []*fetchPart                      // those that must be looked at, those that were served longest ago first
	taken  []*engine.Partition               // scratch

	fresh bool // the next response names every partition

	// Guarded by fetchSessions.mu.
	held     bool
	dropped  bool
	counted  int // partitions that count in fetchSessions.partitions
	lastUsed time.Time
}

type topicKey struct {
	name string
	id   engine.ID
}

type fetchTopic struct {
	topicKey
	parts map[int32]*fetchPart
	emit  []*fetchPart // scratch of the encoder
}

// fetchPart is one partition of a session.
type fetchPart struct {
	topic       *fetchTopic
	index       int32
	name        string // the topic's, when it is known
	p           *engine.Partition
	offset      int64
	maxBytes    int32
	leaderEpoch int32 // that the client knows; negative: none
	lastEpoch   int32 // of the record before offset, as the client knows; negative: not known
	queued      bool  // in ready
	gone        bool  // not of the session any more

	told engine.Offsets // as the client was told last
	out  fetchOutcome   // of the present request
}

// fetchOutcome is what one request found out of a partition.
type fetchOutcome struct {
	offsets   engine.Offsets
	batches   [][]byte
	bytes     int
	code      int16
	diverging engine.EpochEnd // where the log went another way; Epoch -1: nowhere
}

func newFetchSessions(slots int) *fetchSessions {
	return &fetchSessions{slots: slots, byID: make(map[int32]*fetchSession)}
}

// open returns the session that a request belongs to, held for it.
func (ss *fetchSessions) open(r *request, req *kmsg.FetchRequest) (*fetchSession, error) {
	if r.version < 7 || req.SessionEpoch == -1 {
		ss.end(req.SessionID)
		return newFetchSession(r), nil
	}
	if req.SessionEpoch == 0 {
		ss.end(req.SessionID)
		s := newFetchSession(r)
		n := 0
		for i := range req.Topics {
			n += len(req.Topics[i].Partitions)
		}
		ss.keep(s, n)
		return s, nil
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byID[req.SessionID]
	switch {
	case s == nil:
		return nil, refuse(kerr.FetchSessionIDNotFound, fmt.Sprintf("there is no fetch session %d", req.SessionID))
	case s.held || s.epoch != req.SessionEpoch:
		return nil, refuse(kerr.InvalidFetchSessionEpoch, fmt.Sprintf("fetch session %d is at epoch %d, not %d", s.id, s.epoch, req.SessionEpoch))
	case s.byID != (r.version >= 13):
		return nil, refuse(kerr.FetchSessionTopicIDError, fmt.Sprintf("fetch session %d was begun with the other way to name topics", s.id))
	}
	s.epoch = nextEpoch(s.epoch)
	s.held = true
	return s, nil
}

func newFetchSession(r *request) *fetchSession {
	return &fetchSession{
		byID: r.version >= 13, fresh: true, held: true,
		topics: make(map[topicKey]*fetchTopic), known: make(map[engine.PartitionID]*fetchPart),
	}
}

func nextEpoch(e int32) int32 {
	if e++; e < 0 {
		return 1
	}
	return e
}

// keep makes a session of n partitions one that further requests can name, if there is room.
func (ss *fetchSessions) keep(s *fetchSession, n int) {
	now := time.Now()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.partitions+n > sessionMost || ss.slots == 0 {
		return
	}
	if len(ss.byID) >= ss.slots {
		var oldest *fetchSession
		for _, other := range ss.byID {
			if !other.held && (oldest == nil || other.lastUsed.Before(oldest.lastUsed)) {
				oldest = other
			}
		}
		if oldest == nil || now.Sub(oldest.lastUsed) < sessionIdle {
			return
		}
		ss.dropLocked(oldest)
	}
	for s.id == 0 || ss.byID[s.id] != nil {
		s.id = rand.Int32()
	}
	s.epoch = 1
	s.counted = n
	ss.partitions += n
	ss.byID[s.id] = s
}

// end forgets a session that its client gives up.
func (ss *fetchSessions) end(id int32) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.byID[id]; s != nil && id != 0 {
		ss.dropLocked(s)
	}
}

func (ss *fetchSessions) dropLocked(s *fetchSession) {
	delete(ss.byID, s.id)
	ss.partitions -= s.counted
	s.dropped = true
	if !s.held {
		s.close()
	}
}

// leave ends the request's hold on the session.
func (ss *fetchSessions) leave(s *fetchSession) {
	if s.id == 0 {
		s.close()
		return
	}
	now := time.Now()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.held, s.lastUsed = false, now
	if s.dropped {
		s.close()
		return
	}
	ss.partitions += len(s.all) - s.counted
	s.counted = len(s.all)
}

// close forgets all sessions. None is held.
func (ss *fetchSessions) close() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byID {
		ss.dropLocked(s)
	}
}

func (s *fetchSession) close() {
	if s.watcher != nil {
		s.watcher.Close()
		s.watcher = nil
	}
}

// apply takes over what a request changes: partitions named and forgotten. What was named must be looked at.
func (s *fetchSession) apply(r *request, req *kmsg.FetchRequest) error {
	for i := range req.ForgottenTopics {
		f := &req.ForgottenTopics[i]
		t := s.topics[s.key(f.Topic, f.TopicID)]
		if t == nil {
			continue
		}
		for _, index := range f.Partitions {
			if p := t.parts[index]; p != nil {
				s.forget(p)
			}
		}
		if len(t.parts) == 0 {
			delete(s.topics, t.topicKey)
		}
	}
	if len(req.ForgottenTopics) > 0 {
		s.all = slices.DeleteFunc(s.all, func(p *fetchPart) bool { return p.gone })
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		key := s.key(rt.Topic, rt.TopicID)
		t := s.topics[key]
		if t == nil {
			t = &fetchTopic{topicKey: key, parts: make(map[int32]*fetchPart, len(rt.Partitions))}
			s.topics[key] = t
		}
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			p := t.parts[rp.Partition]
			if p == nil {
				if len(s.all) >= sessionMost {
					return refuse(kerr.InvalidRequest, "too many partitions in one fetch")
				}
				p = &fetchPart{topic: t, index: rp.Partition, told: engine.Offsets{LogStart: -1, HighWatermark: -1}}
				t.parts[rp.Partition] = p
				s.all = append(s.all, p)
			}
			p.offset, p.maxBytes = rp.FetchOffset, rp.PartitionMaxBytes
			p.leaderEpoch, p.lastEpoch = rp.CurrentLeaderEpoch, rp.LastFetchedEpoch
			if r.version < 9 {
				p.leaderEpoch = -1
			}
			if r.version < 12 {
				p.lastEpoch = -1
			}
			s.queue(p)
		}
	}
	return nil
}

// key names a topic in the session's way. The name is the request's own copy.
func (s *fetchSession) key(name string, id engine.ID) topicKey {
	if s.byID {
		return topicKey{id: id}
	}
	return topicKey{name: name}
}

func (s *fetchSession) queue(p *fetchPart) {
	if !p.queued && !p.gone {
		p.queued = true
		s.ready = append(s.ready, p)
	}
}

func (s *fetchSession) forget(p *fetchPart) {
	p.gone = true
	delete(p.topic.parts, p.index)
	s.unbind(p)
}

// unbind gives up the partition's handle, so that it is looked for again.
func (s *fetchSession) unbind(p *fetchPart) {
	if p.p == nil {
		return
	}
	if s.watcher != nil {
		s.watcher.Forget(p.p)
	}
	delete(s.known, p.p.ID())
	p.p = nil
}

// bind finds the partition, unless it is found already.
func (s *fetchSession) bind(sv *Server, p *fetchPart) error {
	if p.p != nil {
		return nil
	}
	var t *topic
	var err error
	if s.byID {
		t, err = sv.topicByID(p.topic.id)
	} else {
		t, err = sv.topic(p.topic.name)
	}
	if err != nil {
		return err
	}
	h, err := sv.partition(t.Topic, p.index)
	if err != nil {
		return err
	}
	p.p, p.name = h, t.Name
	s.known[h.ID()] = p
	return nil
}

// watch has the partition made ready when there is something at or above the offset.
func (s *fetchSession) watch(sv *Server, p *fetchPart, offset int64) {
	if s.watcher == nil {
		s.watcher = sv.svc.NewWatcher()
	}
	s.watcher.Watch(p.p, offset)
}

// take queues the partitions that the watcher found ready.
func (s *fetchSession) take() {
	if s.watcher == nil {
		return
	}
	s.taken = s.watcher.Take(s.taken[:0])
	for _, h := range s.taken {
		if p := s.known[h.ID()]; p != nil {
			s.queue(p)
		}
	}
	clear(s.taken)
}

// rotate puts the partitions that were served behind those that were not, so that each gets its turn.
func (s *fetchSession) rotate() {
	slices.SortStableFunc(s.ready, func(a, b *fetchPart) int { return served(a) - served(b) })
}

func served(p *fetchPart) int { return min(p.out.bytes, 1) }

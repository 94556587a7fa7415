package kafkaapi

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

// poller runs the fetch requests of a connection. Everything in it is used again for the next one, so that a request for
// which there is nothing new takes no memory: it is read, waits on one channel and one timer, and is answered by the same
// goroutine, which looks at no partition.
type poller struct {
	req     kmsg.FetchRequest
	timer   *time.Timer
	looked  []*fetchPart            // of the present look
	asked   []engine.FetchPartition // of the present look
	encoder fetchEncoder
}

func (pl *poller) close() {
	if pl.timer != nil {
		pl.timer.Stop()
	}
}

// fetchTimeout bounds a look-up of batches, below the usual request timeout of clients, 30 s.
const fetchTimeout = 20 * time.Second

// run waits until there is enough to answer, and answers.
func (pl *poller) run(r *request, s *fetchSession) error {
	sv, req := r.c.s, &pl.req
	maxBytes := min(max(int(req.MaxBytes), 0), sv.maxFetch)
	minBytes := max(min(int(req.MinBytes), maxBytes), 0)
	wait := min(time.Duration(req.MaxWaitMillis)*time.Millisecond, sv.o.FetchWait)
	over, waiting := wait <= 0, false
	for {
		s.take()
		l := look{}
		if len(s.ready) > 0 {
			var err error
			if l, err = pl.look(r, s, maxBytes); err != nil {
				return err
			}
		}
		if over || l.failed || l.bytes >= minBytes {
			if waiting {
				pl.timer.Stop()
			}
			return pl.answer(r, s, &l)
		}
		l.release(sv)
		pl.rest(sv, s, true)
		if !waiting {
			waiting = true
			pl.startTimer(wait)
		}
		over = pl.sleep(r, s)
	}
}

func (pl *poller) startTimer(d time.Duration) {
	if pl.timer == nil {
		pl.timer = time.NewTimer(d)
		return
	}
	pl.timer.Reset(d)
}

// sleep waits for something new, or for the end of the wait, which it reports.
func (pl *poller) sleep(r *request, s *fetchSession) (over bool) {
	var news <-chan struct{}
	if s.watcher != nil {
		news = s.watcher.C()
	}
	select {
	case <-news:
		return false
	case <-pl.timer.C:
	case <-r.c.s.closing:
	case <-r.c.ctx.Done():
	}
	return true
}

// look is what one look at the ready partitions found.
type look struct {
	resp   *engine.FetchResponse // holds the batches' memory
	taken  int64                 // of FetchMemory
	bytes  int
	failed bool // a partition has an error
}

func (l *look) release(sv *Server) {
	if l.resp != nil {
		l.resp.Release()
		l.resp = nil
	}
	if l.taken > 0 {
		sv.fetches.Release(l.taken)
		l.taken = 0
	}
}

// look asks the engine for the ready partitions and notes the outcome in each.
func (pl *poller) look(r *request, s *fetchSession, maxBytes int) (look, error) {
	var l look
	sv := r.c.s
	pl.looked, pl.asked = pl.looked[:0], pl.asked[:0]
	live := s.ready[:0]
	for _, p := range s.ready {
		if p.gone {
			continue
		}
		live = append(live, p)
		p.out = fetchOutcome{offsets: engine.Offsets{LogStart: -1, HighWatermark: -1}, diverging: engine.EpochEnd{Epoch: -1, End: -1}}
		if err := pl.prepare(s, sv, p); err != nil {
			l.failed = true
			p.out.code = r.fetchCode(s, err)
			continue
		}
		if p.out.diverging.Epoch >= 0 {
			l.failed = true
			continue
		}
		pl.looked = append(pl.looked, p)
		pl.asked = append(pl.asked, engine.FetchPartition{Partition: p.p, Offset: p.offset, MaxBytes: int(p.maxBytes)})
	}
	clear(s.ready[len(live):])
	s.ready = live
	if len(pl.asked) == 0 {
		return l, nil
	}
	// Each partition adds a batch at most when its limit is reached, and only the first one goes beyond the whole limit.
	take := int64(1)
	for i := range pl.asked {
		take += int64(max(pl.asked[i].MaxBytes, 0))
	}
	take = min(take, int64(maxBytes))
	if err := sv.fetches.Acquire(r.c.ctx, take); err != nil {
		return l, err
	}
	l.taken = take
	l.resp = sv.svc.Fetch(r.c.ctx, &engine.FetchRequest{Partitions: pl.asked, MaxBytes: maxBytes, Timeout: fetchTimeout})
	if less := l.taken - int64(l.resp.Bytes); less > 0 {
		sv.fetches.Release(less)
		l.taken -= less
	}
	for i := range l.resp.Results {
		res, p := &l.resp.Results[i], pl.looked[i]
		if res.Err != nil {
			l.failed = true
			p.out.code = r.fetchCode(s, res.Err)
			if !errors.Is(res.Err, engine.ErrOutOfRange) {
				s.unbind(p)
			}
			continue
		}
		p.out.offsets, p.out.batches, p.out.bytes = res.Offsets, res.Batches, res.Bytes
		l.bytes += res.Bytes
	}
	return l, nil
}

// prepare finds the partition and checks the epochs that the client knows.
func (pl *poller) prepare(s *fetchSession, sv *Server, p *fetchPart) error {
	if err := s.bind(sv, p); err != nil {
		return err
	}
	if p.leaderEpoch < 0 && p.lastEpoch < 0 {
		return nil
	}
	o, err := p.p.Offsets()
	if err != nil {
		s.unbind(p)
		return err
	}
	if err := checkLeaderEpoch(p.leaderEpoch, o); err != nil {
		return err
	}
	if p.lastEpoch < 0 || p.lastEpoch == o.LeaderEpoch && p.offset <= o.HighWatermark {
		return nil
	}
	end, err := p.p.EpochEnd(p.lastEpoch)
	if err != nil {
		return err
	}
	if end.Epoch >= 0 && (end.Epoch < p.lastEpoch || end.End < p.offset) {
		p.out.diverging, p.out.offsets = end, o
	}
	return nil
}

// fetchCode is the code of a partition's error. A topic named by id is unknown in another way.
func (r *request) fetchCode(s *fetchSession, err error) int16 {
	if s.byID && errors.Is(err, engine.ErrNotFound) {
		err = kerr.UnknownTopicID
	}
	return r.code(err, reading)
}

// rest lets the partitions of which nothing is to be had rest until they have something new. With more, those that have
// something, but not enough, are watched for more.
func (pl *poller) rest(sv *Server, s *fetchSession, more bool) {
	keep := s.ready[:0]
	for _, p := range s.ready {
		switch {
		case p.p == nil || p.out.code != 0 || p.out.diverging.Epoch >= 0:
			keep = append(keep, p)
		case p.out.offsets.HighWatermark <= p.offset:
			s.watch(sv, p, p.offset)
			p.queued = false
		default:
			if more {
				s.watch(sv, p, p.out.offsets.HighWatermark)
			}
			keep = append(keep, p)
		}
	}
	clear(s.ready[len(keep):])
	s.ready = keep
}

// answer writes the response and leaves the session ready for the next request.
func (pl *poller) answer(r *request, s *fetchSession, l *look) error {
	sv := r.c.s
	defer l.release(sv)
	err := pl.encoder.write(r, s)
	if s.id != 0 && len(s.ready) > 0 {
		if l.bytes > 0 {
			s.rotate()
		}
		pl.rest(sv, s, false)
	}
	for _, p := range s.ready {
		p.out.batches = nil
	}
	s.fresh = false
	return err
}

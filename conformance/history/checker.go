package history

import (
	"cmp"
	"maps"
	"slices"
)

// Checker collects the events of a history and judges them. Events of one log are added in its order; logs may be added
// one after the other or mixed. It is not for concurrent use.
type Checker struct {
	sent       map[uint32][]sent // by producer, at the count of the record
	partitions map[Partition]*partition
	sessions   map[sessionKey]*session
	rep        Report  // what was found as events came
	early      []Event // outcomes of records whose sending is in a log not added yet
	n          Report  // counts only
}

type outcome byte

const (
	pending outcome = iota
	acked
	refused
	unknown
)

type sent struct {
	known   bool
	outcome outcome
	seen    bool // read at least once
	part    *partition
	digest  uint32
	offset  int64 // where it was acknowledged
	at      int64 // when
	found   int64 // where it was read first
}

type partition struct {
	name     Partition
	base     int64   // offset of values[0]
	values   []value // what was read first at each offset
	marks    []Event // Watermark and Progress
	asked    marks   // the Watermarks of marks, once all are there
	complete []Event // Complete
}

type value struct {
	id     ID
	digest uint32
	set    bool
}

type sessionKey struct {
	session uint64
	part    Partition
}

type session struct {
	first, next int64 // read [first, next)
}

// NewChecker returns an empty checker.
func NewChecker() *Checker {
	return &Checker{
		sent:       map[uint32][]sent{},
		partitions: map[Partition]*partition{},
		sessions:   map[sessionKey]*session{},
		rep:        Report{Count: map[AnomalyKind]int{}},
	}
}

// Add takes one event.
func (c *Checker) Add(e Event) {
	switch e.Kind {
	case Sending:
		c.n.Sent++
		list := c.sent[e.ID.Producer()]
		if n := int(e.ID.N()); n >= len(list) {
			list = append(list, make([]sent, n+1-len(list))...)
			c.sent[e.ID.Producer()] = list
		}
		s := &list[e.ID.N()]
		if s.known {
			c.rep.add(Inconsistent, e.Partition, -1, "%s is sent twice in the history", e.ID)
			return
		}
		*s = sent{known: true, part: c.partition(e.Partition), digest: e.Digest, found: -1}
	case Acked, Refused, Unknown:
		if !c.outcome(e) {
			c.early = append(c.early, e)
		}
	case Read:
		c.n.Read++
		c.read(e)
	case Watermark, Progress:
		p := c.partition(e.Partition)
		p.marks = append(p.marks, e)
	case Complete:
		p := c.partition(e.Partition)
		p.complete = append(p.complete, e)
		p.marks = append(p.marks, Event{Kind: Watermark, Asked: e.Asked, At: e.Asked, From: -1, To: e.To})
	}
}

func (c *Checker) find(id ID) *sent {
	list := c.sent[id.Producer()]
	if n := id.N(); n < uint64(len(list)) && list[n].known {
		return &list[n]
	}
	return nil
}

func (c *Checker) partition(name Partition) *partition {
	p := c.partitions[name]
	if p == nil {
		p = &partition{name: name}
		c.partitions[name] = p
	}
	return p
}

func (c *Checker) outcome(e Event) bool {
	s := c.find(e.ID)
	if s == nil {
		return false
	}
	was := s.outcome
	switch e.Kind {
	case Acked:
		c.n.Acked++
		if was == acked && s.offset != e.Offset {
			c.rep.add(WrongOffset, s.part.name, e.Offset, "%s was acknowledged at %d before", e.ID, s.offset)
		}
		s.outcome, s.offset, s.at = acked, e.Offset, e.At
	case Refused:
		s.outcome = refused
	case Unknown:
		s.outcome = unknown
	}
	if was != pending && was != s.outcome {
		c.rep.add(Inconsistent, s.part.name, e.Offset, "%s has two outcomes", e.ID)
	}
	return true
}

// read judges what can be judged at once: the order within the session, and the value at the offset.
func (c *Checker) read(e Event) {
	key := sessionKey{e.Session, e.Partition}
	s := c.sessions[key]
	switch {
	case s == nil:
		s = &session{first: e.Offset}
		c.sessions[key] = s
	case e.Offset < s.next:
		c.rep.add(WentBack, e.Partition, e.Offset, "session %d had read up to %d", e.Session, s.next-1)
	case e.Offset > s.next:
		c.rep.add(Gap, e.Partition, e.Offset, "session %d expected offset %d", e.Session, s.next)
	}
	s.next = max(s.next, e.Offset+1)

	p := c.partition(e.Partition)
	v := p.at(e.Offset)
	if v.set && (v.id != e.ID || v.digest != e.Digest) {
		c.rep.add(TwoValues, p.name, e.Offset, "%s (%08x) in session %d, %s (%08x) before", e.ID, e.Digest, e.Session, v.id, v.digest)
		return
	}
	*v = value{id: e.ID, digest: e.Digest, set: true}
}

// at returns the slot of an offset, which it makes room for.
func (p *partition) at(offset int64) *value {
	if len(p.values) == 0 {
		p.base = offset
	}
	if offset < p.base {
		p.values = slices.Concat(make([]value, p.base-offset), p.values)
		p.base = offset
	}
	if i := int(offset - p.base); i >= len(p.values) {
		p.values = append(p.values, make([]value, i+1-len(p.values))...)
	}
	return &p.values[offset-p.base]
}

// Report judges the history as far as it was added. More may be added after it, and judged again.
func (c *Checker) Report() Report {
	c.early = slices.DeleteFunc(c.early, c.outcome)
	r := Report{Count: maps.Clone(c.rep.Count), Anomalies: slices.Clone(c.rep.Anomalies)}
	for _, e := range c.early {
		r.add(Inconsistent, Partition{}, e.Offset, "an outcome of %s, which was never sent", e.ID)
	}
	for _, list := range c.sent {
		for i := range list {
			list[i].seen = false
		}
	}
	for _, p := range c.partitions {
		c.judgeValues(&r, p)
		p.asked = newMarks(p.marks)
		c.judgeMarks(&r, p)
	}
	c.judgeSent(&r)
	r.Sent, r.Acked, r.Read, r.Partitions = c.n.Sent, c.n.Acked, c.n.Read, len(c.partitions)
	slices.SortFunc(r.Anomalies, func(a, b Anomaly) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Partition.Topic, b.Partition.Topic),
			cmp.Compare(a.Partition.Num, b.Partition.Num), cmp.Compare(a.Offset, b.Offset))
	})
	return r
}

package history

import (
	"cmp"
	"slices"
)

// judgeValues looks at what a partition holds: each record sent there, whole, once, in its producer's order.
func (c *Checker) judgeValues(r *Report, p *partition) {
	last := map[uint32]ID{}
	for i, v := range p.values {
		if !v.set {
			continue // gaps are told by sessions and by judgeMarks
		}
		offset := p.base + int64(i)
		s := c.find(v.id)
		switch {
		case s == nil:
			r.add(Phantom, p.name, offset, "%s was never sent", v.id)
			continue
		case s.part != p:
			r.add(Phantom, p.name, offset, "%s was sent to %s", v.id, s.part.name)
			continue
		case s.outcome == refused:
			r.add(Phantom, p.name, offset, "%s was refused", v.id)
		case s.digest != v.digest:
			r.add(Altered, p.name, offset, "%s has digest %08x, was sent with %08x", v.id, v.digest, s.digest)
		}
		if s.seen {
			r.add(Duplicate, p.name, offset, "%s is also at %d", v.id, s.found)
			continue
		}
		s.seen, s.found = true, offset
		prod := v.id.Producer()
		if before, ok := last[prod]; ok && before > v.id {
			r.add(Reordered, p.name, offset, "%s comes after %s", v.id, before)
		}
		last[prod] = max(last[prod], v.id)
	}
}

// judgeMarks looks at a partition's ends. An answer counts from the instant it was there; a later question must not
// be answered with less. Two that overlap in time may be answered in either order.
func (c *Checker) judgeMarks(r *Report, p *partition) {
	for _, e := range p.complete {
		s := c.sessions[sessionKey{e.Session, p.name}]
		switch {
		case e.From == e.To:
		case s == nil:
			r.add(Gap, p.name, e.From, "session %d read nothing of [%d, %d)", e.Session, e.From, e.To)
		case s.first != e.From || s.next < e.To:
			r.add(Gap, p.name, s.first, "session %d read [%d, %d) of [%d, %d)", e.Session, s.first, s.next, e.From, e.To)
		}
	}
	byAt := slices.SortedFunc(slices.Values(p.marks), func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	start, end, next := int64(-1), int64(-1), 0
	for _, e := range p.asked.events {
		for ; next < len(byAt) && byAt[next].At < e.Asked; next++ {
			if end = max(end, byAt[next].To); byAt[next].Kind == Watermark {
				start = max(start, byAt[next].From)
			}
		}
		if e.To < end {
			r.add(Fell, p.name, e.To, "high watermark %d, was %d before", e.To, end)
		}
		if e.From >= 0 && e.From < start { // a complete reading may begin anywhere
			r.add(StartFell, p.name, e.From, "log start %d, was %d before", e.From, start)
		}
	}
}

// marks are a partition's watermarks in the order of asking, with the lowest answer to each question and all later ones.
type marks struct {
	events []Event
	lowest []int64
}

func newMarks(all []Event) marks {
	var m marks
	for _, e := range all {
		if e.Kind == Watermark {
			m.events = append(m.events, e)
		}
	}
	slices.SortFunc(m.events, func(a, b Event) int { return cmp.Compare(a.Asked, b.Asked) })
	m.lowest = make([]int64, len(m.events))
	for i := len(m.events) - 1; i >= 0; i-- {
		m.lowest[i] = m.events[i].To
		if i+1 < len(m.lowest) {
			m.lowest[i] = min(m.lowest[i], m.lowest[i+1])
		}
	}
	return m
}

// lowestAfter returns the lowest high watermark that was answered to a question asked after the instant.
func (m marks) lowestAfter(at int64) (int64, bool) {
	i, _ := slices.BinarySearchFunc(m.events, at, func(e Event, at int64) int {
		if e.Asked > at {
			return 1
		}
		return -1
	})
	if i == len(m.events) {
		return 0, false
	}
	return m.lowest[i], true
}

// lastComplete is the complete reading that was asked for last, or nil.
func (p *partition) lastComplete() *Event {
	var last *Event
	for i := range p.complete {
		if last == nil || p.complete[i].Asked >= last.Asked {
			last = &p.complete[i]
		}
	}
	return last
}

// judgeSent looks for each acknowledged record where its producer was told that it is.
func (c *Checker) judgeSent(r *Report) {
	for prod, list := range c.sent {
		for n := range list {
			if s := &list[n]; s.known && s.outcome == acked {
				c.judgeAcked(r, MakeID(prod, uint64(n)), s)
			}
		}
	}
}

func (c *Checker) judgeAcked(r *Report, id ID, s *sent) {
	p := s.part
	if lowest, asked := p.asked.lowestAfter(s.at); asked && lowest <= s.offset {
		r.add(Fell, p.name, lowest, "high watermark %d, and %s had been acknowledged at %d", lowest, id, s.offset)
	}
	if s.seen {
		if s.found != s.offset {
			r.add(WrongOffset, p.name, s.offset, "%s is at %d", id, s.found)
		}
		return
	}
	if i := s.offset - p.base; i >= 0 && i < int64(len(p.values)) && p.values[i].set {
		r.add(Lost, p.name, s.offset, "%s was acknowledged; %s is there", id, p.values[i].id)
		return
	}
	last := p.lastComplete()
	if last != nil && last.Asked > s.at && s.offset >= last.From {
		r.add(Lost, p.name, s.offset, "%s was acknowledged; a later reading of [%d, %d) does not have it", id, last.From, last.To)
	}
}

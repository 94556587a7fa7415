package group

import (
	"github.com/headpond/headpond/engine"
)

// onTick looks at every shard for what has expired. A shard that was not asked for yet is loaded, and looked at the next time.
func (c *Coordinator) onTick() {
	shards, _ := c.current()
	for _, s := range shards {
		s.kick()
		s.sweepSoon()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.tick.Reset(c.o.RetentionInterval)
	}
}

// sweepSoon begins a sweep, unless one is under way.
func (s *shard) sweepSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == loaded && !s.sweeping {
		s.sweeping = true
		s.c.work.Go(s.sweep)
	}
}

// sweep deletes offsets that have expired or whose topic is gone, and groups of which nothing is left.
func (s *shard) sweep() {
	gone := s.goneTopics()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeping = false
	if s.phase != loaded {
		return
	}
	for _, g := range s.groups {
		if g.dead {
			continue
		}
		if len(g.expired(gone)) > 0 {
			g.deleteOffsets(func() []topicPartition { return g.expired(gone) }, func(err error) {
				if err != nil {
					s.c.o.Logger.Warn("cannot delete expired offsets, trying later", "group", g.id, "error", err)
				} else if s.groups[g.id] == g {
					g.expire()
				}
			})
		} else {
			g.expire()
		}
	}
}

// expire deletes a group without members and offsets.
func (g *group) expire() {
	if len(g.offsets) > 0 || g.deletable() != codeNone {
		return
	}
	if g.meta == nil {
		g.forgetIfBare()
		return
	}
	g.delete(func(int16) {})
}

// goneTopics returns the ids of topics that offsets were committed for and that do not exist any more. Ids are never used
// again, so that the answer stays good.
func (s *shard) goneTopics() map[engine.ID]bool {
	s.mu.Lock()
	gone := map[engine.ID]bool{}
	for _, g := range s.groups {
		for _, o := range g.offsets {
			gone[o.topicID] = false
		}
	}
	s.mu.Unlock()
	for id := range gone {
		if id == (engine.ID{}) {
			continue
		}
		ok, err := s.c.topicAlive("", id)
		gone[id] = !ok && err == nil
	}
	return gone
}

// expired returns the offsets that are to go. Those of a group that had members stay for the retention after it became
// empty, those of other groups for as long after their commit. While a group of consumers has members, the offsets of topics
// that none subscribes to age by their commits (KIP-496).
func (g *group) expired(gone map[engine.ID]bool) []topicPartition {
	retention := g.s.c.o.OffsetsRetention
	limit := g.nowMillis() - retention.Milliseconds()
	subscribed, code := g.subscription()
	ages := retention > 0 && (g.state == empty && len(g.pending) == 0 || g.state == stable && code == codeNone)
	var keys []topicPartition
	for tp, o := range g.offsets {
		since := o.committed
		if g.state == empty {
			since = max(since, g.stateSince)
		}
		_, in := subscribed[tp.topic]
		if gone[o.topicID] || ages && !in && since <= limit {
			keys = append(keys, tp)
		}
	}
	return keys
}

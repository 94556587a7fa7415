package engine

import (
	"slices"
	"strings"
)

// applied makes a commit that is done and in the index take effect on topics and partitions.
func (e *Engine) applied(s *session, c *Commit) {
	e.applyTopics(s, c.Meta)
	for i := range c.Added {
		for j := range c.Added[i].Runs {
			r := &c.Added[i].Runs[j]
			e.withPartition(r.PartitionID, func(p *Partition) { p.committed = max(p.committed, r.LastOffset+1) })
		}
	}
	for _, l := range c.LogStarts {
		e.withPartition(l.PartitionID, func(p *Partition) {
			p.logStart = max(p.logStart, l.Offset)
			p.wakeWatchersLocked()
		})
		e.o.Events.Retained(l.PartitionID, l.Offset)
	}
	for _, id := range c.Dropped {
		e.dropPartition(id)
	}
}

func (e *Engine) withPartition(id PartitionID, fn func(*Partition)) {
	if p, err := e.Partition(id); err == nil {
		p.mu.Lock()
		fn(p)
		p.mu.Unlock()
	}
}

// applyTopics makes new topics, and more partitions of old ones, usable before they can be found.
func (e *Engine) applyTopics(s *session, changes []MetaChange) {
	now := e.topics.Load()
	var topics []*Topic
	for _, m := range changes {
		if !strings.HasPrefix(m.Key, topicPrefix) {
			continue
		}
		if topics == nil {
			topics = slices.Clone(now.sorted)
		}
		name := strings.TrimPrefix(m.Key, topicPrefix)
		topics = slices.DeleteFunc(topics, func(t *Topic) bool { return t.Name == name })
		if m.Value == nil {
			continue
		}
		t, err := decodeTopic(m)
		if err != nil {
			e.o.Logger.Error("metadata of a topic can't be read", "err", err) // written by another program
			continue
		}
		e.addPartitions(s, t)
		topics = append(topics, t)
	}
	if topics != nil {
		e.topics.Store(newCatalog(topics))
	}
}

// addPartitions makes the partitions that the topic has and the engine has not.
func (e *Engine) addPartitions(s *session, t *Topic) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := range t.Partitions {
		id := PartitionID{Topic: t.ID, Partition: n}
		if e.partitions[id] == nil {
			e.partitions[id] = &Partition{id: id, e: e, s: s, uploadedEpoch: -1}
		}
	}
}

// dropPartition ends a partition whose topic was deleted. Its batches in the tail stay until their chunks go; nothing finds them.
func (e *Engine) dropPartition(id PartitionID) {
	e.mu.Lock()
	p := e.partitions[id]
	delete(e.partitions, id)
	e.mu.Unlock()
	if p == nil {
		return
	}
	p.suspend(errPartitionGone)
}

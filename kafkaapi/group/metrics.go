package group

import (
	"cmp"
	"slices"

	"github.com/headpond/headpond/engine"
)

// Group is a moment's state of a group.
type Group struct {
	ID           string
	State        string // Kafka's name of it
	ProtocolType string // "" when nobody ever joined
	Generation   int32
	Members      int
	Offsets      []GroupOffset // by topic and partition; of topics that exist
}

// GroupOffset is a committed offset.
type GroupOffset struct {
	Topic     string
	Partition int32
	Offset    int64
	// Lag is how many offsets lie between the committed one and the high watermark, at least 0; -1 when that is not known.
	Lag int64
}

// Groups returns the groups of all partitions that are loaded, in id order; it begins to load the others. It waits for
// nothing, and costs a copy of the offsets and a look at the high watermark of each.
func (c *Coordinator) Groups() []Group {
	shards, _ := c.current()
	type entry struct {
		group   Group
		offsets map[topicPartition]offset
	}
	var groups []Group
	for _, s := range shards {
		s.kick()
		var entries []entry
		s.mu.Lock()
		if s.phase == loaded {
			for _, g := range s.groups {
				if g.dead {
					continue
				}
				e := entry{Group{g.id, g.state.String(), g.protocolType, g.generation, len(g.members), nil}, nil}
				e.offsets = make(map[topicPartition]offset, len(g.offsets))
				for tp, o := range g.offsets {
					e.offsets[tp] = o
				}
				entries = append(entries, e)
			}
		}
		s.mu.Unlock()
		for _, e := range entries {
			e.group.Offsets = c.lags(e.offsets)
			groups = append(groups, e.group)
		}
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	return groups
}

func (c *Coordinator) lags(offsets map[topicPartition]offset) []GroupOffset {
	if _, err := c.dropDead(offsets); err != nil {
		return nil
	}
	all := make([]GroupOffset, 0, len(offsets))
	for tp, o := range offsets {
		l := GroupOffset{tp.topic, tp.partition, o.at, -1}
		if o.topicID != (engine.ID{}) {
			if hw, err := c.highWatermark(engine.PartitionID{Topic: o.topicID, Partition: tp.partition}); err == nil {
				l.Lag = max(hw-o.at, 0)
			}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

package main

import (
	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/metrics"
)

// topics tells a scrape of every partition.
func (b *broker) topics(fn func(metrics.PartitionState)) {
	for _, t := range b.engine.Topics() {
		for i := range t.Partitions {
			p, err := b.engine.Partition(engine.PartitionID{Topic: t.ID, Partition: i})
			if err != nil {
				continue // deleted meanwhile
			}
			o, err := p.Offsets()
			if err != nil {
				continue
			}
			fn(metrics.PartitionState{Topic: t.Name, Partition: i, LogStart: o.LogStart, HighWatermark: o.HighWatermark})
		}
	}
}

// groups tells a scrape of every group.
func (b *broker) groups(fn func(metrics.GroupState)) {
}

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
				continue // the log is being opened again
			}
			fn(metrics.PartitionState{Topic: t.Name, Partition: i, LogStart: o.LogStart, HighWatermark: o.HighWatermark})
		}
	}
}

// groups tells a scrape of every group.
func (b *broker) groups(fn func(metrics.GroupState)) {
	for _, g := range b.server.Groups().Groups() {
		state := metrics.GroupState{Group: g.ID, Members: g.Members}
		for _, o := range g.Offsets {
			state.Offsets = append(state.Offsets, metrics.GroupOffset{Topic: o.Topic, Partition: o.Partition, Offset: o.Offset})
		}
		fn(state)
	}
}

// stats tells a scrape of the engine.
func (b *broker) stats() metrics.EngineState {
	s := b.engine.Stats()
	return metrics.EngineState{
		Topics: s.Topics, Partitions: s.Partitions,
		PendingBytes: s.Pending, PendingAge: s.PendingAge, UnsavedCommits: s.Unsaved, TailBytes: s.TailMemory, DirectoryBytes: s.Directory,
	}
}

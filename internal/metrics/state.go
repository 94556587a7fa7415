package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headpond/headpond/engine"
)

// Sources are asked at each scrape. A nil source reports nothing. They must be quick and must not touch a device.
type Sources struct {
	// Topics calls fn for each partition, all of a topic's in a row.
	Topics func(fn func(PartitionState))
	// Groups calls fn for each group.
	Groups func(fn func(GroupState))
	// WAL reports the log, or false while there is none.
	WAL func() (engine.WALStats, bool)
	// Engine reports the engine.
	Engine func() EngineState
	// Ready says whether clients are served.
	Ready func() bool
}

// EngineState is an engine's state at one moment.
type EngineState struct {
	Topics         int
	Partitions     int
	PendingBytes   int64         // of batches that are in no object yet
	PendingAge     time.Duration // of the oldest of them
	UnsavedCommits int           // that are in the log only
	TailBytes      int64         // memory of recent batches
	DirectoryBytes int64         // memory of the directory of what waits for upload
}

// PartitionState is a partition's offsets.
type PartitionState struct {
	Topic         string
	Partition     int32
	LogStart      int64
	HighWatermark int64
}

// GroupState is what a group has committed.
type GroupState struct {
	Group   string
	Members int
	Offsets []GroupOffset
}

// GroupOffset is one committed offset.
type GroupOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Register makes the sources' metrics part of reg.
func Register(reg prometheus.Registerer, s Sources) error { return reg.Register(&collector{s}) }

type collector struct{ s Sources }

// These names and labels are kafka_exporter's.
var (
	brokers        = desc("kafka_brokers", "Number of brokers in the cluster.")
	topicParts     = desc("kafka_topic_partitions", "Number of partitions of a topic.", "topic")
	currentOffset  = desc("kafka_topic_partition_current_offset", "End of a partition: its high watermark.", "topic", "partition")
	oldestOffset   = desc("kafka_topic_partition_oldest_offset", "Lowest offset of a partition.", "topic", "partition")
	groupMembers   = desc("kafka_consumergroup_members", "Members of a group.", "consumergroup")
	groupOffset    = desc("kafka_consumergroup_current_offset", "Offset that a group has committed.", "consumergroup", "topic", "partition")
	groupOffsetSum = desc("kafka_consumergroup_current_offset_sum", "Sum of the offsets that a group has committed in a topic.", "consumergroup", "topic")
	groupLag       = desc("kafka_consumergroup_lag", "Records between a group's committed offset and the end; -1 where the partition is not there.", "consumergroup", "topic", "partition")
	groupLagSum    = desc("kafka_consumergroup_lag_sum", "Sum of a group's lag over a topic.", "consumergroup", "topic")
)

var (
	ready       = desc(prefix+"ready", "1 while clients are served.")
	walCapacity = desc(prefix+"wal_capacity_bytes", "Room of the log.")
	walUsed     = desc(prefix+"wal_used_bytes", "Bytes of the log that cannot be used again yet.")
	topics      = desc(prefix+"topics", "Topics.")
	partitions  = desc(prefix+"partitions", "Partitions.")
	pending     = desc(prefix+"upload_pending_bytes", "Bytes of acknowledged batches that are in no object yet.")
	pendingAge  = desc(prefix+"upload_pending_seconds", "Age of the oldest of them.")
	unsaved     = desc(prefix+"commits_unsaved", "Commits that are in the log and in no object yet.")
	tail        = desc(prefix+"tail_memory_bytes", "Memory of recent batches.")
	directory   = desc(prefix+"directory_memory_bytes", "Memory of the directory of what waits for upload.")
	walPoisoned = desc(prefix+"wal_poisoned", "1 while the log's handle does not take appends after a failure.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe sends nothing: what there is differs from scrape to scrape.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect asks the sources.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if c.s.Ready != nil {
		gauge(ready, number(c.s.Ready()))
	}
	if c.s.WAL != nil {
		if w, ok := c.s.WAL(); ok {
			gauge(walCapacity, float64(w.Capacity))
			gauge(walUsed, float64(w.Used))
			gauge(walPoisoned, number(w.Poisoned != nil))
		}
	}
	if c.s.Engine != nil {
		e := c.s.Engine()
		gauge(topics, float64(e.Topics))
		gauge(partitions, float64(e.Partitions))
		gauge(pending, float64(e.PendingBytes))
		gauge(pendingAge, e.PendingAge.Seconds())
		gauge(unsaved, float64(e.UnsavedCommits))
		gauge(tail, float64(e.TailBytes))
		gauge(directory, float64(e.DirectoryBytes))
	}
	gauge(brokers, 1)
	ends := c.topics(gauge)
	if c.s.Groups != nil {
		c.s.Groups(func(g GroupState) { group(g, ends, gauge) })
	}
}

type place struct {
	topic     string
	partition int32
}

// topics sends the partitions' metrics and returns their high watermarks.
func (c *collector) topics(gauge func(*prometheus.Desc, float64, ...string)) map[place]int64 {
	ends := map[place]int64{}
	if c.s.Topics == nil {
		return ends
	}
	topic, n := "", 0
	flush := func() {
		if n > 0 {
			gauge(topicParts, float64(n), topic)
		}
	}
	c.s.Topics(func(p PartitionState) {
		if p.Topic != topic {
			flush()
			topic, n = p.Topic, 0
		}
		n++
		partition := strconv.Itoa(int(p.Partition))
		gauge(currentOffset, float64(p.HighWatermark), p.Topic, partition)
		gauge(oldestOffset, float64(p.LogStart), p.Topic, partition)
		ends[place{p.Topic, p.Partition}] = p.HighWatermark
	})
	flush()
	return ends
}

func group(g GroupState, ends map[place]int64, gauge func(*prometheus.Desc, float64, ...string)) {
	gauge(groupMembers, float64(g.Members), g.Group)
	type sum struct{ offset, lag int64 }
	sums := map[string]sum{}
	for _, o := range g.Offsets {
		partition := strconv.Itoa(int(o.Partition))
		lag := int64(-1)
		s := sums[o.Topic]
		if end, ok := ends[place{o.Topic, o.Partition}]; ok {
			// The end was read before the offset, and may be the older of the two.
			lag = max(end-o.Offset, 0)
			s.lag += lag
		}
		s.offset += o.Offset
		sums[o.Topic] = s
		gauge(groupOffset, float64(o.Offset), g.Group, o.Topic, partition)
		gauge(groupLag, float64(lag), g.Group, o.Topic, partition)
	}
	for topic, s := range sums {
		gauge(groupOffsetSum, float64(s.offset), g.Group, topic)
		gauge(groupLagSum, float64(s.lag), g.Group, topic)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

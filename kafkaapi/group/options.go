package group

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/headpond/headpond/engine"
)

// Topic is the internal topic that holds groups and their offsets.
const Topic = "__consumer_offsets"

// Options are a coordinator's settings, by the names of Kafka's broker settings where there is one. A zero value stands for
// the default.
type Options struct {
	// Partitions is how many partitions the topic gets when the first group is written (offsets.topic.num.partitions).
	// Default 50. A topic that exists keeps its own number.
	Partitions int32
	// InitialRebalanceDelay is how long the first member of an empty group waits for others
	// (group.initial.rebalance.delay.ms). Default 3 s. Negative: no wait.
	InitialRebalanceDelay time.Duration
	// MinSessionTimeout and MaxSessionTimeout bound what members may ask for (group.min.session.timeout.ms,
	// group.max.session.timeout.ms). Default 6 s and 30 min.
	MinSessionTimeout time.Duration
	MaxSessionTimeout time.Duration
	// MaxMembers bounds a group (group.max.size). Default 10,000.
	MaxMembers int
	// OffsetsRetention is how long offsets stay after their group became empty, or after the commit where nobody ever joined
	// (offsets.retention.minutes). Default 7 days. Negative: for ever.
	OffsetsRetention time.Duration
	// RetentionInterval is the time between two looks at what has expired (offsets.retention.check.interval.ms).
	// Default 10 min.
	RetentionInterval time.Duration
	// MaxMetadataBytes bounds the metadata of one committed offset (offset.metadata.max.bytes). Default 4096.
	MaxMetadataBytes int
	// CommitTimeout is how long a commit waits to become durable before the client is told to ask again. Default 20 s.
	CommitTimeout time.Duration
	// SnapshotBytes is the length of a partition's log below which its live entries are never written anew. Default 1 MiB.
	SnapshotBytes int64

	// Logger gets what an operator should know. Nil: [slog.Default].
	Logger *slog.Logger
	// Now is the wall clock for the timestamps of commits. Nil: [time.Now]. Intervals are measured with the package time.
	Now func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.Partitions, 50)
	setDefault(&o.InitialRebalanceDelay, 3*time.Second)
	setDefault(&o.MinSessionTimeout, 6*time.Second)
	setDefault(&o.MaxSessionTimeout, 30*time.Minute)
	setDefault(&o.MaxMembers, 10_000)
	setDefault(&o.OffsetsRetention, 7*24*time.Hour)
	setDefault(&o.RetentionInterval, 10*time.Minute)
	setDefault(&o.MaxMetadataBytes, 4096)
	setDefault(&o.CommitTimeout, 20*time.Second)
	setDefault(&o.SnapshotBytes, 1<<20)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.Partitions < 0:
		return o, fmt.Errorf("%w: %d partitions of %s", engine.ErrInvalid, o.Partitions, Topic)
	case o.MinSessionTimeout < 0 || o.MaxSessionTimeout < o.MinSessionTimeout:
		return o, fmt.Errorf("%w: session timeouts from %s to %s", engine.ErrInvalid, o.MinSessionTimeout, o.MaxSessionTimeout)
	case o.MaxMembers < 0 || o.MaxMetadataBytes < 0 || o.SnapshotBytes < 0:
		return o, fmt.Errorf("%w: MaxMembers, MaxMetadataBytes and SnapshotBytes must not be negative", engine.ErrInvalid)
	case o.RetentionInterval < 0 || o.CommitTimeout < 0:
		return o, fmt.Errorf("%w: RetentionInterval and CommitTimeout must not be negative", engine.ErrInvalid)
	}
	return o, nil
}

func setDefault[T int | int32 | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

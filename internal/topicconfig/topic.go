package topicconfig

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Names of the topic settings that have an effect, or a warning.
const (
	CleanupPolicy      = "cleanup.policy"
	CompressionType    = "compression.type"
	MaxMessageBytes    = "max.message.bytes"
	RetentionBytes     = "retention.bytes"
	RetentionMs        = "retention.ms"
	TimestampType      = "message.timestamp.type"
	TimestampBeforeMax = "message.timestamp.before.max.ms"
	TimestampAfterMax  = "message.timestamp.after.max.ms"
)

const forever = "9223372036854775807"

// topicKeys are in name order.
var topicKeys = []Key{
	{Name: CleanupPolicy, Type: List, Default: "delete", Effect: true, check: eachOf("delete", "compact"),
		Doc: "delete: records go by retention. compact is stored and reported, but nothing is compacted yet; without delete beside it, nothing is deleted by retention either"},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", check: between(-1, 9), Doc: "no effect: batches keep the producer's compression"},
	{Name: "compression.lz4.level", Type: Int, Default: "9", check: between(1, 17), Doc: "no effect: batches keep the producer's compression"},
	{Name: CompressionType, Type: String, Default: "producer", check: oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		Doc: "batches are stored as the producer sent them, whatever is set"},
	{Name: "compression.zstd.level", Type: Int, Default: "3", check: between(-131072, 22), Doc: "no effect: batches keep the producer's compression"},
	{Name: "delete.retention.ms", Type: Long, Default: "86400000", check: between(0, math.MaxInt64), Doc: "no effect: nothing is compacted yet"},
	{Name: "file.delete.delay.ms", Type: Long, Default: "60000", check: between(0, math.MaxInt64), Doc: "no effect: there are no files per topic"},
	{Name: "flush.messages", Type: Long, Default: forever, check: between(1, math.MaxInt64), Doc: "no effect: every acknowledged record is durable"},
	{Name: "flush.ms", Type: Long, Default: forever, check: between(0, math.MaxInt64), Doc: "no effect: every acknowledged record is durable"},
	{Name: "follower.replication.throttled.replicas", Type: List, Default: "", Doc: "no effect: there are no followers"},
	{Name: "index.interval.bytes", Type: Int, Default: "4096", check: between(0, math.MaxInt32), Doc: "no effect"},
	{Name: "leader.replication.throttled.replicas", Type: List, Default: "", Doc: "no effect: there are no followers"},
	{Name: "local.retention.bytes", Type: Long, Default: "-2", check: between(-2, math.MaxInt64), Doc: "no effect: all data is in the object store"},
	{Name: "local.retention.ms", Type: Long, Default: "-2", check: between(-2, math.MaxInt64), Doc: "no effect: all data is in the object store"},
	{Name: "max.compaction.lag.ms", Type: Long, Default: forever, check: between(1, math.MaxInt64), Doc: "no effect: nothing is compacted yet"},
	{Name: MaxMessageBytes, Type: Int, Default: "1048588", Broker: MessageMaxBytes, Effect: true, check: between(0, math.MaxInt32),
		Doc: "largest record batch, in bytes as sent"},
	{Name: TimestampAfterMax, Type: Long, Default: "3600000", Broker: LogTimestampAfterMax, Effect: true, check: between(0, math.MaxInt64),
		Doc: "how far a record's timestamp may lie in the future, in ms"},
	{Name: TimestampBeforeMax, Type: Long, Default: forever, Broker: LogTimestampBeforeMax, Effect: true, check: between(0, math.MaxInt64),
		Doc: "how far a record's timestamp may lie in the past, in ms"},
	{Name: TimestampType, Type: String, Default: "CreateTime", Broker: LogTimestampType, Effect: true, check: oneOf("CreateTime", "LogAppendTime"),
		Doc: "whether records keep the producer's time or get the broker's"},
	{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", check: fraction, Doc: "no effect: nothing is compacted yet"},
	{Name: "min.compaction.lag.ms", Type: Long, Default: "0", check: between(0, math.MaxInt64), Doc: "no effect: nothing is compacted yet"},
	{Name: "min.insync.replicas", Type: Int, Default: "1", check: between(1, math.MaxInt32), Doc: "no effect: durability is the log's, not that of replicas"},
	{Name: "preallocate", Type: Boolean, Default: "false", Doc: "no effect: the log is preallocated for all topics together"},
	{Name: "remote.log.copy.disable", Type: Boolean, Default: "false", Doc: "no effect: all data is in the object store"},
	{Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false", Doc: "no effect: all data is in the object store"},
	{Name: "remote.storage.enable", Type: Boolean, Default: "false", Doc: "no effect: all data is in the object store"},
	{Name: RetentionBytes, Type: Long, Default: "-1", Broker: LogRetentionBytes, Effect: true, check: between(-1, math.MaxInt64),
		Doc: "bytes kept per partition; -1: any number"},
	{Name: RetentionMs, Type: Long, Default: "604800000", Broker: LogRetentionMs, Effect: true, check: between(-1, math.MaxInt64),
		Doc: "how long records are kept, in ms; -1: for ever"},
	{Name: "segment.bytes", Type: Int, Default: "1073741824", check: between(14, math.MaxInt32), Doc: "no effect: retention drops whole runs of an object"},
	{Name: "segment.index.bytes", Type: Int, Default: "10485760", check: between(4, math.MaxInt32), Doc: "no effect"},
	{Name: "segment.jitter.ms", Type: Long, Default: "0", check: between(0, math.MaxInt64), Doc: "no effect"},
	{Name: "segment.ms", Type: Long, Default: "604800000", check: between(1, math.MaxInt64), Doc: "no effect: retention drops whole runs of an object"},
	{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Doc: "no effect: there is one copy, and it is durable"},
}

var topicByName = byName(topicKeys)

func byName(keys []Key) map[string]Key {
	m := make(map[string]Key, len(keys))
	for _, k := range keys {
		m[k.Name] = k
	}
	return m
}

// Topic returns all topic settings in name order. The slice belongs to the caller.
func Topic() []Key { return slices.Clone(topicKeys) }

// TopicKey returns the topic setting of that name. The error wraps ErrUnknown and says what may have been meant.
func TopicKey(name string) (Key, error) {
	k, ok := topicByName[name]
	if !ok {
		return Key{}, unknown("topic", name, topicKeys)
	}
	return k, nil
}

// CheckTopic checks what is set on a topic: every name and value, and that they do not contradict each other. The error
// is the first one in name order.
func CheckTopic(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		k, err := TopicKey(name)
		if err != nil {
			return err
		}
		if err := k.Check(set[name]); err != nil {
			return err
		}
	}
	least, most := number(topicByName["min.compaction.lag.ms"], set), number(topicByName["max.compaction.lag.ms"], set)
	if least > most {
		return fmt.Errorf("%w: min.compaction.lag.ms is %d, above max.compaction.lag.ms, which is %d", ErrValue, least, most)
	}
	return nil
}

func number(k Key, set map[string]string) int64 {
	v, ok := set[k.Name]
	if !ok {
		v = k.Default
	}
	n, err := parseInt(v)
	if err != nil {
		panic(fmt.Sprintf("topicconfig: %s was not checked: %v", k.Name, err))
	}
	return n
}

// Warnings says which of what is set will not do what its name promises, a sentence each.
func Warnings(set map[string]string) []string {
	var w []string
	if slices.Contains(split(set[CleanupPolicy]), "compact") {
		w = append(w, "cleanup.policy=compact is stored, but nothing is compacted yet: every record is kept until delete is added to the policy or records are deleted by request")
	}
	if c, ok := set[CompressionType]; ok && c != "producer" {
		w = append(w, fmt.Sprintf("compression.type=%s has no effect: batches are stored as the producer sent them", c))
	}
	if set["remote.storage.enable"] == "true" {
		w = append(w, "remote.storage.enable has no effect: all data is in the object store anyway")
	}
	return w
}

func fraction(value string) error {
	// A NaN compares false with everything.
	if f, err := strconv.ParseFloat(value, 64); err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is not a number from 0 to 1", value)
	}
	return nil
}

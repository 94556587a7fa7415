package topicconfig

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Names of the broker settings. All of them have an effect.
const (
	AutoCreateTopics          = "auto.create.topics.enable"
	ConnectionsMaxIdleMs      = "connections.max.idle.ms"
	DeleteTopicEnable         = "delete.topic.enable"
	FetchMaxBytes             = "fetch.max.bytes"
	GroupInitialRebalanceMs   = "group.initial.rebalance.delay.ms"
	GroupMaxSessionTimeoutMs  = "group.max.session.timeout.ms"
	GroupMaxSize              = "group.max.size"
	GroupMinSessionTimeoutMs  = "group.min.session.timeout.ms"
	LogTimestampAfterMax      = "log.message.timestamp.after.max.ms"
	LogTimestampBeforeMax     = "log.message.timestamp.before.max.ms"
	LogTimestampType          = "log.message.timestamp.type"
	LogRetentionBytes         = "log.retention.bytes"
	LogRetentionCheckMs       = "log.retention.check.interval.ms"
	LogRetentionHours         = "log.retention.hours"
	LogRetentionMinutes       = "log.retention.minutes"
	LogRetentionMs            = "log.retention.ms"
	MaxConnections            = "max.connections"
	MaxConnectionsPerIP       = "max.connections.per.ip"
	MaxIncrementalFetchSlots  = "max.incremental.fetch.session.cache.slots"
	MessageMaxBytes           = "message.max.bytes"
	NumPartitions             = "num.partitions"
	OffsetMetadataMaxBytes    = "offset.metadata.max.bytes"
	OffsetsRetentionMinutes   = "offsets.retention.minutes"
	OffsetsTopicNumPartitions = "offsets.topic.num.partitions"
	ProducerIDExpirationMs    = "producer.id.expiration.ms"
	SocketRequestMaxBytes     = "socket.request.max.bytes"
)

// brokerKeys are in name order.
var brokerKeys = effective([]Key{
	{Name: AutoCreateTopics, Type: Boolean, Default: "true", Doc: "make a topic when a client that allows it asks for one that is not there"},
	{Name: ConnectionsMaxIdleMs, Type: Long, Default: "600000", check: between(1000, math.MaxInt64/1_000_000), Doc: "close a connection on which nothing was asked for so long"},
	{Name: DeleteTopicEnable, Type: Boolean, Default: "true", Doc: "whether clients may delete topics"},
	{Name: FetchMaxBytes, Type: Int, Default: "57671680", check: between(1024, math.MaxInt32), Doc: "largest fetch response; a first batch that is larger is sent all the same"},
	{Name: GroupInitialRebalanceMs, Type: Int, Default: "3000", check: between(0, math.MaxInt32), Doc: "how long an empty group waits for more members at its first join"},
	{Name: GroupMaxSessionTimeoutMs, Type: Int, Default: "1800000", check: between(1, math.MaxInt32), Doc: "longest session timeout that a member may ask for"},
	{Name: GroupMaxSize, Type: Int, Default: "2147483647", check: between(1, math.MaxInt32), Doc: "most members of a group"},
	{Name: GroupMinSessionTimeoutMs, Type: Int, Default: "6000", check: between(1, math.MaxInt32), Doc: "shortest session timeout that a member may ask for"},
	{Name: LogTimestampAfterMax, Type: Long, Default: "3600000", check: between(0, math.MaxInt64), Doc: "default of message.timestamp.after.max.ms"},
	{Name: LogTimestampBeforeMax, Type: Long, Default: forever, check: between(0, math.MaxInt64), Doc: "default of message.timestamp.before.max.ms"},
	{Name: LogTimestampType, Type: String, Default: "CreateTime", check: oneOf("CreateTime", "LogAppendTime"), Doc: "default of message.timestamp.type"},
	{Name: LogRetentionBytes, Type: Long, Default: "-1", check: between(-1, math.MaxInt64), Doc: "default of retention.bytes, per partition; -1: any number"},
	{Name: LogRetentionCheckMs, Type: Long, Default: "60000", check: between(100, math.MaxInt64/1_000_000), Doc: "time between two looks at what retention lets go; Kafka's own default is 5 minutes"},
	{Name: LogRetentionHours, Type: Int, Default: "168", check: retention(math.MaxInt32), Doc: "default of retention.ms in hours, when neither log.retention.minutes nor log.retention.ms is set; -1: for ever"},
	{Name: LogRetentionMinutes, Type: Int, Default: "", check: retention(math.MaxInt32), Doc: "default of retention.ms in minutes, when log.retention.ms is not set; -1: for ever"},
	{Name: LogRetentionMs, Type: Long, Default: "", check: retention(math.MaxInt64), Doc: "default of retention.ms; -1: for ever"},
	{Name: MaxConnections, Type: Int, Default: "10000", check: between(1, math.MaxInt32), Doc: "most connections at once"},
	{Name: MaxConnectionsPerIP, Type: Int, Default: "2147483647", check: between(0, math.MaxInt32), Doc: "most connections at once from one address"},
	{Name: MaxIncrementalFetchSlots, Type: Int, Default: "1000", check: between(0, 100000), Doc: "most fetch sessions at once"},
	{Name: MessageMaxBytes, Type: Int, Default: "1048588", check: between(0, math.MaxInt32), Doc: "default of max.message.bytes: largest record batch"},
	{Name: NumPartitions, Type: Int, Default: "1", check: between(1, 100000), Doc: "partitions of a topic whose creator did not say"},
	{Name: OffsetMetadataMaxBytes, Type: Int, Default: "4096", check: between(0, 65536), Doc: "most bytes of a client's own text beside a committed offset"},
	{Name: OffsetsRetentionMinutes, Type: Int, Default: "10080", check: between(1, math.MaxInt32), Doc: "how long an empty group's offsets are kept"},
	{Name: OffsetsTopicNumPartitions, Type: Int, Default: "50", check: between(1, 1000), Doc: "partitions of the topic that holds group offsets; has an effect when that is made"},
	{Name: ProducerIDExpirationMs, Type: Int, Default: "86400000", check: between(1, math.MaxInt32), Doc: "how long an idle producer's sequence numbers are known"},
	{Name: SocketRequestMaxBytes, Type: Int, Default: "104857600", check: between(1024, math.MaxInt32), Doc: "largest request"},
})

var brokerByName = byName(brokerKeys)

// effective marks all of the keys as having an effect.
func effective(keys []Key) []Key {
	for i := range keys {
		keys[i].Effect = true
	}
	return keys
}

// retention checks a retention time: -1, or from 1 up.
func retention(high int64) func(string) error {
	return func(value string) error {
		if value == "0" {
			return fmt.Errorf("0 keeps nothing; -1 keeps for ever")
		}
		return between(-1, high)(value)
	}
}

// BrokerKeys returns all broker settings in name order. The slice belongs to the caller.
func BrokerKeys() []Key { return slices.Clone(brokerKeys) }

// BrokerKey returns the broker setting of that name. The error wraps ErrUnknown and says what may have been meant.
func BrokerKey(name string) (Key, error) {
	k, ok := brokerByName[name]
	if !ok {
		return Key{}, unknown("broker", name, brokerKeys)
	}
	return k, nil
}

// Broker is what the broker's configuration sets. The zero value and nil set nothing: every value is the default.
// It is immutable.
type Broker struct{ set map[string]string }

// NewBroker checks and takes what is set, by name. The map is copied.
func NewBroker(set map[string]string) (*Broker, error) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		k, err := BrokerKey(name)
		if err != nil {
			return nil, err
		}
		if err := k.Check(set[name]); err != nil {
			return nil, err
		}
	}
	b := &Broker{set: maps.Clone(set)}
	if low, high := b.Int(GroupMinSessionTimeoutMs), b.Int(GroupMaxSessionTimeoutMs); low > high {
		return nil, fmt.Errorf("%w: %s is %d, above %s, which is %d", ErrValue, GroupMinSessionTimeoutMs, low, GroupMaxSessionTimeoutMs, high)
	}
	return b, nil
}

// Value returns a broker setting's value and where it comes from. A name that is none of this package's constants is
// the caller's fault, and panics.
//
// The three retention times are one setting in three units: log.retention.ms always has a value, computed from what
// is set, and the others have one when they are set, or are the default.
func (b *Broker) Value(name string) (string, Source) {
	k, ok := brokerByName[name]
	if !ok {
		panic("topicconfig: no broker setting " + name)
	}
	if v, ok := b.isSet(name); ok {
		return v, FromBroker
	}
	if name == LogRetentionMs {
		return b.retentionMs()
	}
	return k.Default, FromDefault
}

func (b *Broker) isSet(name string) (string, bool) {
	if b == nil {
		return "", false
	}
	v, ok := b.set[name]
	return v, ok
}

func (b *Broker) retentionMs() (string, Source) {
	for _, unit := range []struct {
		name string
		ms   int64
	}{{LogRetentionMinutes, 60_000}, {LogRetentionHours, 3_600_000}} {
		v, ok := b.isSet(unit.name)
		if !ok {
			continue
		}
		n := mustInt(unit.name, v)
		if n > 0 {
			n *= unit.ms
		}
		return fmt.Sprint(n), FromBroker
	}
	return topicByName[RetentionMs].Default, FromDefault
}

// Int returns the value of a setting of type Int or Long.
func (b *Broker) Int(name string) int64 {
	v, _ := b.Value(name)
	return mustInt(name, v)
}

// Bool returns the value of a setting of type Boolean.
func (b *Broker) Bool(name string) bool {
	v, _ := b.Value(name)
	return v == "true"
}

// Duration returns the value of a setting in milliseconds or minutes, by its name's end. One that is too long for the type is cut
// to the longest.
func (b *Broker) Duration(name string) time.Duration {
	unit := time.Millisecond
	if name == OffsetsRetentionMinutes {
		unit = time.Minute
	}
	return Duration(b.Int(name), unit)
}

// Duration multiplies without overflow. Negative numbers, which stand for "for ever", stay -1 ns.
func Duration(n int64, unit time.Duration) time.Duration {
	switch {
	case n < 0:
		return -1
	case n > math.MaxInt64/int64(unit):
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

func mustInt(name, value string) int64 {
	n, err := parseInt(value)
	if err != nil {
		panic(fmt.Sprintf("topicconfig: %s was not checked: %v", name, err))
	}
	return n
}

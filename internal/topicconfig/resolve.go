package topicconfig

import (
	"slices"
	"time"
)

// Entry is one setting of a topic or of the broker as DescribeConfigs reports it.
type Entry struct {
	Key    Key
	Value  string
	Source Source
	// Synonyms are the values that would hold one after the other if those before were not set, the holding one first.
	Synonyms []Synonym
}

// Synonym is one place that a setting's value can come from.
type Synonym struct {
	Name   string
	Value  string
	Source Source
}

// DescribeTopic returns a topic's settings in name order: set is what is set on it. Settings that this version does
// not know, from a later one, are left out.
func DescribeTopic(set map[string]string, b *Broker) []Entry {
	entries := make([]Entry, 0, len(topicKeys))
	for _, k := range topicKeys {
		entries = append(entries, topicEntry(k, set, b))
	}
	return entries
}

func topicEntry(k Key, set map[string]string, b *Broker) Entry {
	var s []Synonym
	if v, ok := set[k.Name]; ok {
		s = append(s, Synonym{k.Name, v, FromTopic})
	}
	if k.Broker != "" {
		s = append(s, brokerSynonyms(k.Broker, b)...)
	} else {
		s = append(s, Synonym{k.Name, k.Default, FromDefault})
	}
	return Entry{Key: k, Value: s[0].Value, Source: s[0].Source, Synonyms: s}
}

func brokerSynonyms(name string, b *Broker) []Synonym {
	names := []string{name}
	if name == LogRetentionMs {
		names = []string{LogRetentionMs, LogRetentionMinutes, LogRetentionHours}
	}
	var s []Synonym
	if name == LogRetentionMs {
		// The value in the unit of the topic's setting leads, whichever of the three it was set by.
		v, source := b.Value(name)
		if _, ok := b.isSet(name); !ok {
			s = append(s, Synonym{name, v, source})
		}
	}
	for _, n := range names {
		if v, ok := b.isSet(n); ok {
			s = append(s, Synonym{n, v, FromBroker})
		}
	}
	last := names[len(names)-1]
	return append(s, Synonym{last, brokerByName[last].Default, FromDefault})
}

// DescribeBroker returns the broker's settings in name order.
func DescribeBroker(b *Broker) []Entry {
	entries := make([]Entry, 0, len(brokerKeys))
	for _, k := range brokerKeys {
		v, source := b.Value(k.Name)
		s := []Synonym{{k.Name, v, source}}
		if source == FromBroker {
			s = append(s, Synonym{k.Name, k.Default, FromDefault})
		}
		entries = append(entries, Entry{Key: k, Value: v, Source: source, Synonyms: s})
	}
	return entries
}

// Settings are what the broker acts on for one topic.
type Settings struct {
	MaxMessageBytes   int           // largest record batch, in bytes as sent
	LogAppendTime     bool          // records get the broker's time
	TimestampBefore   time.Duration // how far a timestamp may lie in the past
	TimestampAfter    time.Duration // how far a timestamp may lie in the future
	RetentionTime     time.Duration // negative: for ever
	RetentionBytes    int64         // per partition; negative: any number
	Compact           bool          // records need keys
	CompressionStored string        // what compression.type says; nothing acts on it
}

// Resolve returns what holds for a topic on which set is set. Values must have been checked; one that is not legal, as
// a later version may have stored, counts as not set.
func Resolve(set map[string]string, b *Broker) Settings {
	value := func(name string) string {
		k := topicByName[name]
		if v, ok := set[name]; ok && k.Check(v) == nil {
			return v
		}
		if k.Broker != "" {
			v, _ := b.Value(k.Broker)
			return v
		}
		return k.Default
	}
	integer := func(name string) int64 { return mustInt(name, value(name)) }
	policy := split(value(CleanupPolicy))
	s := Settings{
		MaxMessageBytes:   int(integer(MaxMessageBytes)),
		LogAppendTime:     value(TimestampType) == "LogAppendTime",
		TimestampBefore:   Duration(integer(TimestampBeforeMax), time.Millisecond),
		TimestampAfter:    Duration(integer(TimestampAfterMax), time.Millisecond),
		RetentionTime:     Duration(integer(RetentionMs), time.Millisecond),
		RetentionBytes:    integer(RetentionBytes),
		Compact:           slices.Contains(policy, "compact"),
		CompressionStored: value(CompressionType),
	}
	if !slices.Contains(policy, "delete") {
		s.RetentionTime, s.RetentionBytes = -1, -1
	}
	return s
}

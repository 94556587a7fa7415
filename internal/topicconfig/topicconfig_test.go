package topicconfig

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func broker(t *testing.T, set map[string]string) *Broker {
	t.Helper()
	b, err := NewBroker(set)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKeysAreInOrderAndTheirDefaultsAreLegal(t *testing.T) {
	for _, keys := range [][]Key{Topic(), BrokerKeys()} {
		if !slices.IsSortedFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) }) {
			t.Error("keys are not in name order")
		}
		for _, k := range keys {
			if k.Default != "" {
				if err := k.Check(k.Default); err != nil {
					t.Error(err)
				}
			}
			if k.Doc == "" {
				t.Errorf("%s has no description", k.Name)
			}
			if k.Broker == "" {
				continue
			}
			// A topic that sets nothing on a broker that sets nothing reports its own default.
			if v, source := broker(t, nil).Value(k.Broker); v != k.Default || source != FromDefault {
				t.Errorf("%s: default %q, but the broker's is %q from %d", k.Name, k.Default, v, source)
			}
		}
	}
}

func TestWrongValuesAreRefusedInPlainWords(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{RetentionMs, "7d", `wrong value for retention.ms: "7d" is not a whole number`},
		{RetentionMs, "", `wrong value for retention.ms: "" is not a whole number`},
		{RetentionMs, "-2", "wrong value for retention.ms: -2 is below -1"},
		{RetentionMs, "99999999999999999999", "wrong value for retention.ms: 99999999999999999999 does not fit in 64 bits"},
		{MaxMessageBytes, "2147483648", "wrong value for max.message.bytes: 2147483648 is above 2147483647"},
		{CleanupPolicy, "delete,shred", `wrong value for cleanup.policy: "shred" is none of delete, compact`},
		{CleanupPolicy, "delete,delete", `wrong value for cleanup.policy: "delete" is there twice`},
		{"preallocate", "yes", `wrong value for preallocate: "yes" is not true or false`},
		{"min.cleanable.dirty.ratio", "1.5", `wrong value for min.cleanable.dirty.ratio: "1.5" is not a number from 0 to 1`},
		{"min.cleanable.dirty.ratio", "0.5 ", `wrong value for min.cleanable.dirty.ratio: "0.5 " is not a number from 0 to 1`},
		{"min.cleanable.dirty.ratio", "NaN", `wrong value for min.cleanable.dirty.ratio: "NaN" is not a number from 0 to 1`},
		{"retention.sm", "1", `unknown setting: there is no topic setting "retention.sm"; did you mean retention.ms?`},
		{"colour", "red", `unknown setting: there is no topic setting "colour"`},
	} {
		err := CheckTopic(map[string]string{c.name: c.value})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s=%s:\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
		if !errors.Is(err, ErrValue) && !errors.Is(err, ErrUnknown) {
			t.Errorf("%v is neither of the package's errors", err)
		}
	}
	if err := CheckTopic(map[string]string{"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}); !errors.Is(err, ErrValue) {
		t.Errorf("contradiction accepted: %v", err)
	}
	if _, err := NewBroker(map[string]string{GroupMinSessionTimeoutMs: "10", GroupMaxSessionTimeoutMs: "9"}); !errors.Is(err, ErrValue) {
		t.Errorf("contradiction accepted: %v", err)
	}
	if _, err := NewBroker(map[string]string{LogRetentionHours: "0"}); !errors.Is(err, ErrValue) {
		t.Errorf("retention of nothing accepted: %v", err)
	}
}

func TestNumbersReachTheEndsOf64Bits(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "007": 7, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		if n, err := parseInt(text); err != nil || n != want {
			t.Errorf("%s is read as %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"9223372036854775808", "-9223372036854775809", "+1", "1.0", "0x10", "1_000", " 1", "-"} {
		if n, err := parseInt(text); err == nil {
			t.Errorf("%q is read as %d", text, n)
		}
	}
}

func TestTopicBeatsBrokerBeatsDefault(t *testing.T) {
	find := func(entries []Entry, name string) Entry {
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Key.Name == name })
		return entries[i]
	}
	b := broker(t, map[string]string{LogRetentionHours: "2"})
	e := find(DescribeTopic(nil, b), RetentionMs)
	if e.Value != "7200000" || e.Source != FromBroker {
		t.Errorf("retention.ms is %s from %d, want two hours from the broker", e.Value, e.Source)
	}
	e = find(DescribeTopic(map[string]string{RetentionMs: "5"}, b), RetentionMs)
	want := []Synonym{
		{RetentionMs, "5", FromTopic}, {LogRetentionMs, "7200000", FromBroker},
		{LogRetentionHours, "2", FromBroker}, {LogRetentionHours, "168", FromDefault},
	}
	if e.Source != FromTopic || !slices.Equal(e.Synonyms, want) {
		t.Errorf("synonyms are %v, want %v", e.Synonyms, want)
	}
	e = find(DescribeTopic(nil, nil), "segment.ms")
	if e.Source != FromDefault || e.Key.Effect {
		t.Errorf("segment.ms comes from %d, effect %v", e.Source, e.Key.Effect)
	}
	e = find(DescribeBroker(b), LogRetentionMs)
	if e.Value != "7200000" || e.Source != FromBroker {
		t.Errorf("log.retention.ms is %s from %d", e.Value, e.Source)
	}
}

func TestRetentionTimeIsTheFinestUnitThatIsSet(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want time.Duration
	}{
		{nil, 7 * 24 * time.Hour},
		{map[string]string{LogRetentionHours: "1", LogRetentionMinutes: "2", LogRetentionMs: "3"}, 3 * time.Millisecond},
		{map[string]string{LogRetentionHours: "1", LogRetentionMinutes: "2"}, 2 * time.Minute},
		{map[string]string{LogRetentionHours: "-1"}, -1},
	} {
		if got := Resolve(nil, broker(t, c.set)).RetentionTime; got != c.want {
			t.Errorf("%v: retention %v, want %v", c.set, got, c.want)
		}
	}
}

func TestResolveGivesWhatTheBrokerActsOn(t *testing.T) {
	got := Resolve(nil, nil)
	want := Settings{
		MaxMessageBytes: 1048588, TimestampBefore: math.MaxInt64, TimestampAfter: time.Hour,
		RetentionTime: 7 * 24 * time.Hour, RetentionBytes: -1, CompressionStored: "producer",
	}
	if got != want {
		t.Errorf("defaults are %+v, want %+v", got, want)
	}
	got = Resolve(map[string]string{CleanupPolicy: "compact", RetentionMs: "1", TimestampType: "LogAppendTime"}, nil)
	if !got.Compact || got.RetentionTime != -1 || !got.LogAppendTime {
		t.Errorf("a compacted topic resolves to %+v", got)
	}
	if got := Resolve(map[string]string{RetentionMs: "nonsense"}, nil); got.RetentionTime != 7*24*time.Hour {
		t.Errorf("an illegal stored value resolves to %v", got.RetentionTime)
	}
}

func TestWarningsNameWhatDoesNothing(t *testing.T) {
	if w := Warnings(map[string]string{CleanupPolicy: "delete", CompressionType: "producer"}); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	if w := Warnings(map[string]string{CleanupPolicy: "compact,delete", CompressionType: "zstd"}); len(w) != 2 {
		t.Errorf("warnings %q, want two", w)
	}
}

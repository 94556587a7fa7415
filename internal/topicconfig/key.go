// Package topicconfig knows Kafka's topic settings and the broker settings that stand behind them: names, types,
// defaults, what values are legal, which have an effect here, and where a value comes from, as DescribeConfigs
// reports it. It is pure: what is set is passed in as a map by name.
//
// A topic setting that is not set on the topic takes the value of its broker setting, where it has one, and else its
// own default. Names and defaults are Apache Kafka 4's (kafka.apache.org/documentation/#topicconfigs and
// #brokerconfigs); message.timestamp.after.max.ms is one hour since Kafka 4.0 (KIP-1030).
package topicconfig

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ErrUnknown: there is no such setting. ErrValue: the value is not one that the setting can have. Both come wrapped
// with a sentence that names the setting.
var (
	ErrUnknown = errors.New("unknown setting")
	ErrValue   = errors.New("wrong value")
)

// Type is a setting's type, in the numbers of DescribeConfigs.
type Type int8

// The types that occur.
const (
	Boolean Type = 1
	String  Type = 2
	Int     Type = 3
	Long    Type = 5
	Double  Type = 6
	List    Type = 7
)

// Source is where a value comes from, in the numbers of DescribeConfigs.
type Source int8

// The sources that occur.
const (
	FromTopic   Source = 1 // set on the topic
	FromBroker  Source = 4 // set in the broker's configuration
	FromDefault Source = 5 // nothing is set
)

// Key is one setting.
type Key struct {
	Name    string
	Type    Type
	Default string
	// Broker is the broker setting that a topic setting takes its value from when it is not set itself; empty when
	// there is none, and for broker settings.
	Broker string
	// Effect says whether the setting changes what the broker does. One without effect is checked, stored and
	// reported, for clients that set it as a matter of course.
	Effect bool
	Doc    string

	check func(value string) error // beyond the type
}

// Check says whether the value is legal: nil, or an error that wraps ErrValue and names the setting.
func (k Key) Check(value string) error {
	err := k.checkType(value)
	if err == nil && k.check != nil {
		err = k.check(value)
	}
	if err != nil {
		return fmt.Errorf("%w for %s: %w", ErrValue, k.Name, err)
	}
	return nil
}

func (k Key) checkType(value string) error {
	switch k.Type {
	case Boolean:
		if value != "true" && value != "false" {
			return fmt.Errorf("%q is not true or false", value)
		}
	case Int:
		return between(math.MinInt32, math.MaxInt32)(value)
	case Long:
		return between(math.MinInt64, math.MaxInt64)(value)
	}
	return nil
}

// between checks for a whole number from low to high.
func between(low, high int64) func(string) error {
	return func(value string) error {
		n, err := parseInt(value)
		switch {
		case err != nil:
			return err
		case n < low:
			return fmt.Errorf("%d is below %d", n, low)
		case n > high:
			return fmt.Errorf("%d is above %d", n, high)
		}
		return nil
	}
}

func oneOf(words ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("%q is none of %s", value, strings.Join(words, ", "))
		}
		return nil
	}
}

// eachOf checks a comma-separated list, at least one, each word once.
func eachOf(words ...string) func(string) error {
	return func(value string) error {
		var seen []string
		for _, w := range split(value) {
			if err := oneOf(words...)(w); err != nil {
				return err
			}
			if slices.Contains(seen, w) {
				return fmt.Errorf("%q is there twice", w)
			}
			seen = append(seen, w)
		}
		return nil
	}
}

func split(list string) []string {
	words := strings.Split(list, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

// Nearest returns the name among names that a person may have meant by the word, or "".
func Nearest(word string, names []string) string {
	best, bestDistance := "", len(word)/3+2 // farther ones only confuse
	for _, n := range names {
		if d := distance(word, n); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance counts the insertions, deletions and replacements that lead from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left, diagonal := i+1, row[0]
		row[0] = left
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			left = min(diagonal+cost, left+1, row[j+1]+1)
			diagonal, row[j+1] = row[j+1], left
		}
	}
	return row[len(b)]
}

func unknown(kind, name string, keys []Key) error {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Errorf("%w: there is no %s setting %q; did you mean %s?", ErrUnknown, kind, name, near)
	}
	return fmt.Errorf("%w: there is no %s setting %q", ErrUnknown, kind, name)
}

package clients

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// record is what every client can write and read.
type record struct {
	key, value []byte // nil is null
	headers    []header
	time       time.Time // zero: the client sets it
}

type header struct {
	name  string
	value []byte
}

// headerString is how kcat prints headers.
func (r record) headerString() string {
	var parts []string
	for _, h := range r.headers {
		value := string(h.value)
		if h.value == nil {
			value = "NULL"
		}
		parts = append(parts, h.name+"="+value)
	}
	return strings.Join(parts, ",")
}

func describe(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 20:
		return fmt.Sprintf("%d bytes %x…", len(b), b[:20])
	}
	return fmt.Sprintf("%q", b)
}

// corpus is one record of each shape: null, empty and present keys and values, headers, sizes up to the largest value
// that fits the default limit with room for its framing.
func corpus(rng *rand.Rand) []record {
	fill := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + rng.IntN(26))
		}
		return b
	}
	at := time.UnixMilli(1_700_000_000_123)
	return []record{
		{value: []byte{}},
		{value: nil, key: []byte("deleted")},
		{value: []byte("x"), key: nil},
		{value: []byte("x"), key: []byte{}},
		{value: fill(1), key: fill(200), time: at},
		{value: fill(1000), headers: []header{{"one", []byte("1")}}},
		{value: fill(1000), headers: []header{{"a", []byte("1")}, {"a", []byte("2")}, {"empty", []byte{}}, {"null", nil}}},
		{value: fill(65_536), time: at.Add(-time.Hour)},
		{value: fill(1_000_000), key: []byte("large")},
	}
}

// sameRecords compares what was written with what was read. A client that cannot read times leaves them zero.
func sameRecords(t *testing.T, want, got []record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records read, %d written", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
		if !same(w.key, g.key) {
			t.Errorf("record %d: key %s, wrote %s", i, describe(g.key), describe(w.key))
		}
		if !same(w.value, g.value) {
			t.Errorf("record %d: value %s, wrote %s", i, describe(g.value), describe(w.value))
		}
		if w.headerString() != g.headerString() {
			t.Errorf("record %d: headers %q, wrote %q", i, g.headerString(), w.headerString())
		}
		if !w.time.IsZero() && !g.time.Equal(w.time) {
			t.Errorf("record %d: time %v, wrote %v", i, g.time, w.time)
		}
	}
}

package engine_test

import (
	"testing"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

// Records without a timestamp are of unknown age: they stay until a later run is too old.
func TestRecordsWithoutTimestampAreNotTakenForOld(t *testing.T) {
	r, _ := flakyRig(t)
	more := r.options
	r.options = func(o *engine.Options) {
		more(o)
		o.RetentionInterval = time.Millisecond
		o.Retention = func(*engine.Topic) engine.Retention { return engine.Retention{Time: time.Hour, Bytes: -1} }
	}
	r.open()
	at := func(ms int64) recordbatch.Batch {
		return recordbatchtest.Build(recordbatchtest.Spec{Records: []recordbatchtest.Record{{Timestamp: ms, Value: []byte("x")}}})
	}
	a, b := r.partition(r.topic("a", 1), 0), r.partition(r.topic("b", 1), 0)
	starts := func(p *engine.Partition, want int64) func() bool {
		return func() bool {
			o, err := p.Offsets()
			return err == nil && o.LogStart == want
		}
	}
	r.must(a, at(recordbatch.NoTimestamp))
	r.flush()
	r.must(b, at(1))
	r.flush()
	r.until("what is old is gone", starts(b, 1))
	if !starts(a, 0)() {
		t.Fatal("a record without a timestamp is gone")
	}
	r.must(a, at(1))
	r.flush()
	r.until("it goes with what is old", starts(a, 2))
}

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/walbackends/memwal"
)

// history is what a partition must be like after all that was done to it. Record i has sequence number i and offset i.
type history struct {
	topic *engine.Topic
	next  int32 // records appended
	start int64
	epoch int32
}

// step does one thing to the partition, or to all that lies below it. It reports what.
func (h *history) step(r *rig, rnd *rand.Rand, copies *[]*vfs.MemFS) string {
	p := r.partition(h.topic, 0)
	switch rnd.IntN(12) {
	default:
		n := 1 + rnd.IntN(20)
		for range n {
			if got := r.must(p, idempotent(7, 0, h.next)); got != int64(h.next) {
				r.t.Fatalf("record %d is at offset %d", h.next, got)
			}
			h.next++
		}
		return fmt.Sprint("append ", n)
	case 0:
		r.flush()
		return "flush"
	case 1:
		h.start += rnd.Int64N(int64(h.next) - h.start + 1)
		if _, err := p.DeleteRecords(r.ctx(), h.start); err != nil {
			r.t.Fatal(err)
		}
		return fmt.Sprint("delete records below ", h.start)
	case 2:
		if err := r.e.DeleteTopic(r.ctx(), h.topic); err != nil {
			r.t.Fatal(err)
		}
		*h = history{topic: r.topic("a", 1)}
		return "topic again"
	case 3:
		r.close().open()
		return "restart"
	case 4:
		r.disk.Crash()
		r.close().open()
		return "crash"
	case 5:
		r.failLog()
		return "the log fails"
	case 6:
		r.close()
		*copies = append(*copies, copyFS(r.t, r.fs))
		r.open()
		return "copy the index"
	case 7:
		r.close()
		r.fs = vfs.NewMem()
		if i := rnd.IntN(len(*copies) + 1); i < len(*copies) {
			r.fs = (*copies)[i]
			*copies = append((*copies)[:i], (*copies)[i+1:]...)
		}
		r.open()
		return "an older index, or none"
	case 8:
		r.close()
		options := r.options
		old := r.disk
		r.disk = memwal.New(memwal.Options{Capacity: 256 << 10})
		url := fmt.Sprint("mem:", rnd.Uint64())
		r.options = func(o *engine.Options) {
			options(o)
			o.WALURL = url
			o.OpenRegisteredWAL = func(string) (engine.WALOpener, error) { return durable(old), nil }
		}
		r.open()
		return "another log"
	}
}

func (h *history) check(r *rig) {
	p := r.partition(h.topic, 0)
	o, err := p.Offsets()
	if err != nil {
		r.t.Fatal(err)
	}
	if o.HighWatermark != int64(h.next) || o.LogStart != h.start || o.LeaderEpoch < h.epoch {
		r.t.Fatalf("%+v, want offsets %d to %d and a leader epoch of at least %d", o, h.start, h.next, h.epoch)
	}
	h.epoch = o.LeaderEpoch
	values := r.read(p, h.start)
	if len(values) != int(int64(h.next)-h.start) {
		r.t.Fatalf("%d records from offset %d to %d", len(values), h.start, h.next)
	}
	for i, v := range values {
		if want := fmt.Sprint(h.start+int64(i), "/0"); v != want {
			r.t.Fatalf("record %d is %q, want %q", i, v, want)
		}
	}
	for seq := max(0, h.next-5); seq < h.next; seq++ {
		if a := <-r.append(p, idempotent(7, 0, seq)); a.Err != nil || !a.Duplicate || a.BaseOffset != int64(seq) {
			r.t.Fatalf("sequence %d again: %+v", seq, a)
		}
	}
}

// Whatever happens in whatever order, a partition is what was done to it.
func TestRandomHistoriesKeepThePromises(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			r, _ := flakyRig(t)
			r.disk = memwal.New(memwal.Options{Capacity: 256 << 10})
			r.open()
			h := &history{topic: r.topic("a", 1)}
			var copies []*vfs.MemFS
			var done []string
			defer func() {
				if t.Failed() {
					t.Logf("after %q", done)
				}
			}()
			for range 60 {
				done = append(done, h.step(r, rnd, &copies))
				h.check(r)
			}
		})
	}
}

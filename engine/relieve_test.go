package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/walbackends/filewal"
	"github.com/headpond/headpond/walbackends/memwal"
)

// A log that holds nothing but commits is trimmed before they fill it, and frees itself after a store that was long away.
func TestLogFullOfCommitsIsTrimmed(t *testing.T) {
	r, f := flakyRig(t)
	r.disk = memwal.New(memwal.Options{Capacity: 64 << 10})
	r.open()
	config := map[string]string{"x": string(make([]byte, 300))}
	update := func(n int) {
		for i := range n {
			config["y"] = fmt.Sprint(i)
			tp, err := r.e.Topic("a")
			if err == nil {
				_, err = r.e.UpdateTopic(r.ctx(), tp, engine.TopicChange{Partitions: 1, Config: config})
			}
			if err != nil {
				if errors.Is(err, engine.ErrUnavailable) && errors.Is(err, engine.ErrFull) {
					return
				}
				t.Fatal(err)
			}
		}
	}
	p := r.partition(r.topic("a", 1), 0)
	update(100)
	r.must(p, batch(0, 1, 10))
	f.setAway(true)
	update(200)
	f.setAway(false)
	r.until("there is room again", func() bool {
		tp, err := r.e.Topic("a")
		if err == nil {
			_, err = r.e.UpdateTopic(r.ctx(), tp, engine.TopicChange{Partitions: 1, Config: config})
		}
		return err == nil
	})
	r.must(p, batch(1, 1, 10))
	r.close()
	r.fs = vfs.NewMem()
	r.open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 2)
}

// Records that may use the log's reserve, as group offsets do, leave enough of it for the commits that make room.
func TestReserveIsNeverUsedUpByRecords(t *testing.T) {
	r, f := flakyRig(t)
	more := r.options
	r.options = func(o *engine.Options) { more(o); o.HoldFull = time.Millisecond }
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	f.setAway(true)
	n := 0
	for _, size := range []int{32 << 10, 1 << 10, 1} {
		for _, internal := range []bool{false, true} {
			for {
				b := batch(n, 1, size)
				buf := buffer.Get(len(b))
				copy(buf.Bytes(), b)
				done := make(chan engine.Appended, 1)
				err := p.Append(r.ctx(), engine.Batch{Data: buf.Bytes(), Buffer: buf, Internal: internal}, func(a engine.Appended) { done <- a })
				buf.Release()
				if errors.Is(err, engine.ErrFull) {
					break
				}
				if err == nil {
					err = (<-done).Err
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
	}
	f.setAway(false)
	r.flush()
	r.until("there is room again", func() bool { return (<-r.append(p, batch(n, 1, 10))).Err == nil })
	r.expect0(p, n+1)
}

// A disk that has no room for the log's full capacity is used as far as it goes, again and again.
func TestLogOnAFullDiskIsTrimmed(t *testing.T) {
	r := newRig(t)
	disk := crashfs.New()
	capacity := int64(1 << 20)
	r.options = func(o *engine.Options) {
		open, err := filewal.Opener("wal", filewal.Options{Capacity: capacity, SegmentBytes: 64 << 10, FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		o.OpenWAL, o.UploadBytes = open, 128<<10
	}
	r.open()
	r.topic("a", 1)
	r.close()
	disk.SetLimit(2 << 20)
	capacity = 1 << 30
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	r.fill(p, 0, 200, 32<<10) // three times what there is room for
	r.expect(p, 0, 200)
	r.close().open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 200)
}

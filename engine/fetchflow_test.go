package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
)

// moody is a store of which every seventh read fails at first.
type moody struct {
	engine.ObjectStore
	gets atomic.Int64
}

func (m *moody) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if m.gets.Add(1)%7 == 0 {
		return nil, fmt.Errorf("%w: not now", engine.ErrUnavailable)
	}
	return m.ObjectStore.Get(ctx, name, off, n)
}

// Readers follow the end and start over from the beginning while batches move from the tail to the log and on to objects, the log is
// trimmed behind them, and there is far less memory than data. Each reads every record once, in order, as it was written.
func TestReadersSeeEveryRecordWhileItMoves(t *testing.T) {
	const partitions, batches, size = 4, 60, 40 << 10
	r := newRig(t)
	var store *moody
	r.options = func(o *engine.Options) {
		o.UploadBytes = 256 << 10
		store = &moody{ObjectStore: o.Store}
		o.Store = store
	}
	r.open()
	topic := r.topic("t", partitions)
	var ps []*engine.Partition
	for n := range int32(partitions) {
		ps = append(ps, r.partition(topic, n))
	}
	var work sync.WaitGroup
	for n, p := range ps {
		work.Go(func() {
			for i := range batches {
				a := <-r.append(p, batch(n*1000+i, 1, size))
				if a.Err != nil || a.BaseOffset != int64(i) {
					t.Errorf("append %d to partition %d: %+v", i, n, a)
					return
				}
			}
		})
	}
	for range 3 {
		work.Go(func() {
			for pass := range 2 { // the first follows the writers, the second finds most of it cold
				if err := follow(r, ps, batches); err != nil {
					t.Errorf("pass %d: %v", pass, err)
				}
			}
		})
	}
	work.Wait()
	if store.gets.Load() == 0 {
		t.Error("nothing was read from objects")
	}
}

// follow reads all partitions together from their beginning to the given offset.
func follow(r *rig, ps []*engine.Partition, end int64) error {
	w := r.e.NewWatcher()
	defer w.Close()
	number := make(map[*engine.Partition]int)
	next := make(map[*engine.Partition]int64)
	for n, p := range ps {
		number[p] = n
	}
	left := len(ps)
	for ready := append([]*engine.Partition(nil), ps...); left > 0; {
		req := &engine.FetchRequest{MaxBytes: 300 << 10, Timeout: hang}
		for _, p := range ready {
			req.Partitions = append(req.Partitions, engine.FetchPartition{Partition: p, Offset: next[p], MaxBytes: 150 << 10})
		}
		resp := r.e.Fetch(r.t.Context(), req)
		var again []*engine.Partition
		for i := range resp.Results {
			res, p := &resp.Results[i], ready[i]
			if res.Err != nil {
				return res.Err
			}
			n, err := check(res, number[p], next[p])
			if err != nil {
				return err
			}
			next[p] += n
			switch {
			case next[p] == end:
				left--
			case next[p] < res.HighWatermark:
				again = append(again, p)
			default:
				w.Watch(p, next[p])
			}
		}
		if resp.Bytes == 0 && len(again) > 0 {
			return errors.New("a fetch without time-out brought nothing")
		}
		resp.Release()
		ready = w.Take(again)
		for len(ready) == 0 && left > 0 {
			select {
			case <-w.C():
				ready = w.Take(ready)
			case <-time.After(hang):
				return fmt.Errorf("nothing new; at %v of %d", next, end)
			}
		}
	}
	return nil
}

// check counts the batches of a result, which must be what batch makes from the partition's number and the offset.
func check(res *engine.FetchResult, number int, from int64) (n int64, err error) {
	for _, piece := range res.Batches {
		for len(piece) > 0 {
			b, rest, err := recordbatch.Next(piece)
			if err != nil {
				return n, err
			}
			piece = rest
			if err := b.Verify(); err != nil {
				return n, err
			}
			for rec, err := range b.Records(nil, 0) {
				want := fmt.Sprintf("%d/0", int64(number)*1000+from+n)
				if got := strings.TrimRight(string(rec.Value), "\x00"); err != nil || rec.Offset != from+n || got != want {
					return n, fmt.Errorf("partition %d: %q at offset %d, want %q at %d: %v", number, got, rec.Offset, want, from+n, err)
				}
				n++
			}
		}
	}
	return n, nil
}

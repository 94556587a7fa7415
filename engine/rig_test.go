package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/walbackends/memwal"
)

// hang is when a test gives up on something that should have happened; nothing else depends on it.
const hang = time.Minute

// rig is what outlives an engine: the log's disk, the bucket, the index's disk.
type rig struct {
	t       *testing.T
	disk    *memwal.Disk
	bucket  *memobj.Bucket
	fs      *vfs.MemFS
	options func(*engine.Options) // the test's own
	opened  chan struct{}         // a token for each opening of the log
	e       *engine.Engine
}

// durable opens a disk of package memwal as one that outlives its host, which a test's disk does.
func durable(d *memwal.Disk) engine.WALOpener {
	return func(ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		if !o.Create { // memwal makes what is absent, since nothing of its domain ever is there
			probe, err := d.Open(ctx, engine.WALOptions{ReadOnly: true})
			if err != nil {
				return nil, err
			}
			probe.Close()
		}
		w, err := d.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		return durableWAL{w}, nil
	}
}

type durableWAL struct{ engine.WAL }

func (w durableWAL) Info() engine.WALInfo {
	info := w.WAL.Info()
	info.Domain = engine.DomainHost
	return info
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, disk: memwal.New(memwal.Options{Capacity: 32 << 20}), bucket: new(memobj.Bucket), fs: vfs.NewMem(), opened: make(chan struct{}, 100)}
}

// try opens an engine on the rig.
func (r *rig) try() (*engine.Engine, error) {
	idx, err := index.Open("index", index.Options{FS: r.fs})
	if err != nil {
		return nil, err
	}
	o := engine.Options{
		OpenWAL: durable(r.disk), WALURL: "mem:wal", Store: r.bucket.Open(), Index: idx, Batches: noTimes{},
		ReopenIndex: func() (engine.Index, error) { return index.Open("index", index.Options{FS: r.fs}) },
		Logger:      slog.New(slog.DiscardHandler),
		Events:      &engine.Events{WALOpened: func(engine.WALInfo) { r.opened <- struct{}{} }},
		Memory:      16 << 20, UploadAge: -1, HoldFull: hang, RetentionInterval: time.Hour,
	}
	if r.options != nil {
		r.options(&o)
	}
	return engine.Open(r.ctx(), o)
}

func (r *rig) open() *rig {
	r.t.Helper()
	e, err := r.try()
	if err != nil {
		r.t.Fatal(err)
	}
	r.e = e
	<-r.opened
	r.t.Cleanup(func() { e.Close(context.Background()) })
	return r
}

func (r *rig) close() *rig {
	r.t.Helper()
	if err := r.e.Close(r.ctx()); err != nil {
		r.t.Fatal("close:", err)
	}
	return r
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	r.t.Cleanup(cancel)
	return ctx
}

// noTimes is a BatchReader for tests that ask nothing by time.
type noTimes struct{}

func (noTimes) FindTime([]byte, int64) (int64, int64, bool, error) { return 0, 0, false, nil }

// topic creates a topic, or finds it.
func (r *rig) topic(name string, partitions int32) *engine.Topic {
	r.t.Helper()
	t, err := r.e.CreateTopic(r.ctx(), name, engine.TopicChange{Partitions: partitions})
	if errors.Is(err, engine.ErrExists) {
		t, err = r.e.Topic(name)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func (r *rig) partition(t *engine.Topic, n int32) *engine.Partition {
	r.t.Helper()
	p, err := r.e.Partition(engine.PartitionID{Topic: t.ID, Partition: n})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// idempotent makes a batch of one record of an idempotent producer.
func idempotent(producer int64, epoch int16, seq int32) recordbatch.Batch {
	return recordbatchtest.Build(recordbatchtest.Spec{
		Idempotent: true, ProducerID: producer, ProducerEpoch: epoch, BaseSequence: seq,
		Records: []recordbatchtest.Record{{Value: fmt.Append(nil, seq, "/0")}},
	})
}

// batch makes a batch of some records; its content follows from seed.
func batch(seed, records, size int) recordbatch.Batch {
	var s recordbatchtest.Spec
	for i := range records {
		value := make([]byte, size)
		copy(value, fmt.Sprintf("%d/%d", seed, i))
		s.Records = append(s.Records, recordbatchtest.Record{Value: value})
	}
	return recordbatchtest.Build(s)
}

// append appends a batch and returns a channel of its outcome; a refusal comes there too.
func (r *rig) append(p *engine.Partition, b recordbatch.Batch) <-chan engine.Appended {
	out := make(chan engine.Appended, 1)
	buf := buffer.Get(len(b))
	copy(buf.Bytes(), b)
	err := p.Append(r.ctx(), engine.Batch{Data: buf.Bytes(), Buffer: buf}, func(a engine.Appended) { out <- a })
	buf.Release()
	if err != nil {
		out <- engine.Appended{BaseOffset: -1, Err: err}
	}
	return out
}

// must appends a batch and waits until it is done.
func (r *rig) must(p *engine.Partition, b recordbatch.Batch) int64 {
	r.t.Helper()
	select {
	case a := <-r.append(p, b):
		if a.Err != nil {
			r.t.Fatal("append:", a.Err)
		}
		return a.BaseOffset
	case <-time.After(hang):
		r.t.Fatal("an append did not end")
	}
	return -1
}

// fill appends n batches to a partition.
func (r *rig) fill(p *engine.Partition, from, n, size int) {
	r.t.Helper()
	for i := range n {
		r.must(p, batch(from+i, 1, size))
	}
}

// read reads a partition from the offset to its high watermark and returns the values as batch makes them, cut at their first NUL.
func (r *rig) read(p *engine.Partition, offset int64) (values []string) {
	r.t.Helper()
	values, err := r.tryRead(p, offset)
	if err != nil {
		r.t.Fatalf("fetch: %v", err)
	}
	return values
}

func (r *rig) tryRead(p *engine.Partition, offset int64) (values []string, err error) {
	for {
		resp := r.e.Fetch(r.ctx(), &engine.FetchRequest{MaxBytes: 1 << 20, Timeout: hang, Partitions: []engine.FetchPartition{{Partition: p, Offset: offset, MaxBytes: 1 << 20}}})
		res := resp.Results[0]
		if err := res.Err; err != nil {
			resp.Release()
			return values, err
		}
		if offset >= res.HighWatermark {
			resp.Release()
			return values, nil
		}
		before := offset
		for _, piece := range res.Batches {
			for len(piece) > 0 {
				b, rest, err := recordbatch.Next(piece)
				if err != nil {
					r.t.Fatal(err)
				}
				piece = rest
				if err := b.Verify(); err != nil {
					r.t.Fatalf("batch at %d: %v", b.BaseOffset(), err)
				}
				if b.LastOffset() < offset {
					continue
				}
				for rec, err := range b.Records(nil, 0) {
					if err != nil {
						r.t.Fatal(err)
					}
					if rec.Offset >= offset {
						values = append(values, strings.TrimRight(string(rec.Value), "\x00"))
					}
				}
				offset = b.NextOffset()
			}
		}
		resp.Release()
		if offset == before {
			r.t.Fatalf("no progress at offset %d of %d", offset, res.HighWatermark)
		}
	}
}

// expect checks that a partition reads as the batches that fill made.
func (r *rig) expect(p *engine.Partition, from, n int) {
	r.t.Helper()
	values := r.read(p, 0)
	if len(values) != n {
		r.t.Fatalf("%d records, want %d", len(values), n)
	}
	for i, v := range values {
		if want := fmt.Sprintf("%d/0", from+i); v != want {
			r.t.Fatalf("record %d is %q, want %q", i, v, want)
		}
	}
}

// until waits for a condition that no notification tells of.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(hang)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// copyFS returns a copy of a file system's index directory.
func copyFS(t *testing.T, from *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	if _, err := vfs.Clone(from, to, "index", "index"); err != nil {
		t.Fatal(err)
	}
	return to
}

// reopened waits until the engine has opened its log again.
func (r *rig) reopened() {
	r.t.Helper()
	select {
	case <-r.opened:
		r.until("the engine takes calls", func() bool { return r.e.Err() == nil })
	case <-time.After(hang):
		r.t.Fatal("the log was not opened again")
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/objectfile"
	"github.com/headpond/headpond/internal/recordbatch"
)

// upload is some chunks on their way into objects.
type upload struct {
	s         *session
	number    uint64
	from, to  Position
	bytes     int64
	objects   []*uploadObject
	producers []ProducerSnapshot
	epochs    []EpochStart
	holds     []*buffer.Buffer // of the batches
}

// uploadObject is one object of an upload.
type uploadObject struct {
	layout  *objectfile.Layout
	batches []recordbatch.Batch // in the layout's order
	index   objectfile.Index    // once it is put
}

// uploadRun is one partition's batches in an upload.
type uploadRun struct {
	p       *Partition
	covered []recordbatch.Batch // in objects or deleted: they tell of producers and epochs only
	batches []recordbatch.Batch
	bytes   int64
}

func (up *upload) release() {
	for _, b := range up.holds {
		b.Release()
	}
	up.holds = nil
}

// gather collects the batches of the chunks, from memory or from the log, and plans the objects. The records
// that a commit covers already are left out: after a recovery a chunk may hold both. So is all of partitions that are gone.
func (s *session) gather(ctx context.Context, number uint64, chunks []*chunk) (_ *upload, err error) {
	up := &upload{s: s, number: number, from: chunks[0].from, to: chunks[len(chunks)-1].to}
	defer func() {
		if err != nil {
			up.release()
		}
	}()
	runs := make(map[*Partition]*uploadRun)
	for _, c := range chunks {
		if !up.fromMemory(c, runs) {
			if err := up.fromLog(ctx, c, runs); err != nil {
				return nil, err
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(runs), func(a, b *uploadRun) int {
		return objectfile.ComparePartitions(filed(a.p.id), filed(b.p.id))
	})
	var shared []*uploadRun
	for _, r := range sorted {
		switch {
		case len(r.batches) == 0:
		case r.bytes >= s.e.o.SegmentBytes:
			if err := up.plan(objectfile.Segment, r); err != nil {
				return nil, err
			}
		default:
			shared = append(shared, r)
		}
	}
	if len(shared) > 0 {
		if err := up.plan(objectfile.Bundle, shared...); err != nil {
			return nil, err
		}
	}
	for _, r := range sorted {
		up.follow(r)
	}
	return up, nil
}

// fromMemory takes the batches of a chunk that is in memory.
func (up *upload) fromMemory(c *chunk, runs map[*Partition]*uploadRun) bool {
	up.s.mu.Lock() // keeps the chunk in memory
	defer up.s.mu.Unlock()
	if c.mem == 0 {
		return false
	}
	for _, r := range c.order {
		r.p.mu.Lock()
		batches, gone, committed := r.batches, r.p.err, r.p.committed
		r.p.mu.Unlock()
		if isNotFound(gone) {
			continue
		}
		for _, b := range batches {
			b.buf.Retain()
			up.holds = append(up.holds, b.buf)
			up.add(runs, r.p, b.data, committed)
		}
	}
	return true
}

// fromLog reads the batches of a chunk back from the log.
func (up *upload) fromLog(ctx context.Context, c *chunk, runs map[*Partition]*uploadRun) error {
	parts := make(map[PartitionID]*Partition, len(c.order))
	committed := make(map[*Partition]int64, len(c.order))
	for _, r := range c.order {
		r.p.mu.Lock()
		if !isNotFound(r.p.err) {
			parts[r.p.id], committed[r.p] = r.p, r.p.committed
		}
		r.p.mu.Unlock()
	}
	arena := buffer.Get(int(c.bytes))
	up.holds = append(up.holds, arena)
	room := arena.Bytes()[:0]
	var bad error
	err := up.s.wal.Read(ctx, c.from, c.to, func(pos Position, record []byte) bool {
		kind, id, body, err := splitRecord(record)
		if err != nil {
			bad = err
			return false
		}
		p := parts[id]
		if kind != walBatch || p == nil {
			return true
		}
		b := recordbatch.Batch(body)
		if len(room)+len(b) > cap(room) {
			bad = fmt.Errorf("%w: the log holds more at positions %d to %d than was written", ErrCorrupt, c.from, c.to)
			return false
		}
		room = append(room, b...)
		up.add(runs, p, room[len(room)-len(b):], committed[p])
		return true
	})
	return errors.Join(err, bad)
}

// add notes a batch of a partition whose offsets below committed are in objects or deleted.
func (up *upload) add(runs map[*Partition]*uploadRun, p *Partition, b recordbatch.Batch, committed int64) {
	r := runs[p]
	if r == nil {
		r = &uploadRun{p: p}
		runs[p] = r
	}
	if b.LastOffset() < committed {
		r.covered = append(r.covered, b)
		return
	}
	r.batches = append(r.batches, b)
	r.bytes += int64(len(b))
	up.bytes += int64(len(b))
}

// plan adds an object of the runs.
func (up *upload) plan(kind objectfile.Kind, runs ...*uploadRun) error {
	layout, err := objectfile.NewLayout(objectfile.Meta{
		Kind: kind, Ordinal: uint32(len(up.objects)), Cluster: up.s.e.cluster, WAL: up.s.info.ID, Epoch: up.s.info.Epoch, Upload: up.number,
		From: uint64(up.from), To: uint64(up.to),
	}, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	o := &uploadObject{layout: layout}
	for _, r := range runs {
		if err := layout.Begin(filed(r.p.id)); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		for _, b := range r.batches {
			if err := layout.Add(objectfile.Describe(b)); err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
		}
		o.batches = append(o.batches, r.batches...)
	}
	up.objects = append(up.objects, o)
	return nil
}

// follow notes what the batches of a run say besides their records: producers, and leader epochs that begin.
func (up *upload) follow(r *uploadRun) {
	p, now := r.p, up.s.e.o.Now()
	changed := false
	batches := slices.Concat(r.covered, r.batches)
	for _, b := range batches {
		if epoch := b.LeaderEpoch(); epoch > p.uploadedEpoch {
			p.uploadedEpoch = epoch
			up.epochs = append(up.epochs, EpochStart{PartitionID: p.id, Epoch: epoch, Offset: b.BaseOffset()})
		}
		if b.ProducerID() < 0 || b.BaseOffset() < p.uploadedTo {
			continue
		}
		if p.uploaded == nil {
			p.uploaded = newProducers()
		}
		noteProducer(p.uploaded, b, now)
		changed = true
	}
	if changed {
		p.uploaded.Expire(now.UnixMilli(), up.s.e.o.ProducerExpiry.Milliseconds())
		p.uploadedTo = batches[len(batches)-1].NextOffset()
		up.producers = append(up.producers, ProducerSnapshot{PartitionID: p.id, Offset: p.uploadedTo, State: p.uploaded.AppendTo(nil)})
	}
}

// put puts the objects.
func (s *session) put(ctx context.Context, up *upload) error {
	if err := s.registered(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, o := range up.objects {
		group.Go(func() error { return s.putObject(ctx, o) })
	}
	return group.Wait()
}

func (s *session) putObject(ctx context.Context, o *uploadObject) error {
	name := o.layout.Meta().Key()
	var reader *objectfile.Reader
	var bad error
	err := s.e.store.put(ctx, name, o.layout.Size(), func() io.Reader {
		next := 0
		reader, bad = objectfile.NewReader(o.layout, func() (recordbatch.Batch, error) {
			if next == len(o.batches) {
				return nil, io.EOF
			}
			next++
			return o.batches[next-1], nil
		})
		if bad != nil {
			return errReader{bad}
		}
		return reader
	})
	if err != nil {
		return fmt.Errorf("put %s of %d bytes: %w", name, o.layout.Size(), err)
	}
	index, ok := reader.Index()
	if !ok {
		return fmt.Errorf("put %s: %w: the store said it is done and had not read all of it", name, ErrInvalid)
	}
	o.index = index
	return nil
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// registered makes sure, once in a session, that the prefix is ours and knows this opening of the log.
func (s *session) registered(ctx context.Context) error {
	s.registering.Lock()
	defer s.registering.Unlock()
	if s.isRegistered {
		return nil
	}
	err := s.e.register(ctx, s.info)
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrFenced) {
		return fmt.Errorf("%w: %w", errMisplaced, err)
	}
	s.isRegistered = err == nil
	return err
}

// commit is the upload's commit. Partitions that are gone by now are left out; an object that has no other is an orphan.
func (up *upload) commit() (*Commit, error) {
	gone := func(id PartitionID) bool {
		_, err := up.s.e.Partition(id)
		return isNotFound(err)
	}
	c := &Commit{Through: up.to}
	for _, o := range up.objects {
		added := Object{Name: o.index.Key(), Size: o.index.Size}
		for _, r := range o.index.Runs {
			if id := (PartitionID{Topic: r.Topic, Partition: r.Partition.Partition}); !gone(id) {
				added.Runs = append(added.Runs, committedRun(added.Name, id, r))
			}
		}
		if len(added.Runs) > 0 {
			c.Added = append(c.Added, added)
		}
	}
	for _, p := range up.producers {
		if !gone(p.PartitionID) {
			c.Producers = append(c.Producers, p)
		}
	}
	for _, start := range up.epochs {
		if !gone(start.PartitionID) {
			c.Epochs = append(c.Epochs, start)
		}
	}
	return c, nil
}

func committedRun(object string, id PartitionID, r objectfile.Run) Run {
	run := Run{PartitionID: id, FirstOffset: r.First, LastOffset: r.Last, MaxTimestamp: r.MaxTimestamp, Object: object}
	for _, b := range r.Blocks {
		run.Blocks = append(run.Blocks, Block{Pos: b.Position, Len: b.Length, FirstOffset: b.First, LastOffset: b.Last, MaxTimestamp: b.MaxTimestamp, Sum: b.Sum})
	}
	return run
}

// filed is a partition's name as the object format has it.
func filed(id PartitionID) objectfile.Partition {
	return objectfile.Partition{Topic: id.Topic, Partition: id.Partition}
}

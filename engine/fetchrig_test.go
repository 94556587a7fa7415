package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/objectfile"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

// readRig is an engine's read path over an index, a store and a log that a test fills and breaks by hand.
type readRig struct {
	t     testing.TB
	e     *Engine
	index *fakeIndex
	store *fakeStore
	log   *fakeLog
	s     *session

	mu      sync.Mutex
	damaged []error
}

func newReadRig(t testing.TB, memory int64) *readRig {
	r := &readRig{t: t, index: &fakeIndex{runs: make(map[PartitionID][]Run)}, store: &fakeStore{objects: make(map[string][]byte)}, log: new(fakeLog)}
	o, err := Options{
		OpenWAL: func(context.Context, WALOptions) (WAL, error) { return r.log, nil },
		Store:   r.store, Index: r.index, Batches: plainBatches{}, Memory: memory,
		Logger: slog.New(slog.DiscardHandler),
		Events: &Events{Damaged: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.damaged = append(r.damaged, err)
		}},
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r.e = &Engine{o: o, cluster: ID{1}, closing: make(chan struct{}), chunkBytes: 1 << 20, partitions: make(map[PartitionID]*Partition)}
	var idx Index = r.index
	r.e.idx.Store(&idx)
	r.e.store = newStoreClient(o)
	r.e.cache = newBlockCache(r.e)
	r.s = newSession(r.e, r.log)
	return r
}

// close ends the loads that run and checks that no memory is left taken.
func (r *readRig) close() {
	r.t.Helper()
	c := r.e.cache
	close(r.e.closing)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.reads.Acquire(ctx, c.limits.reads); err != nil {
		r.t.Error("memory of loads is not given back:", err)
	}
	if err := c.responses.Acquire(ctx, c.limits.responses); err != nil {
		r.t.Error("memory of responses is not given back:", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.bytesLocked(); n > c.limits.cache {
		r.t.Errorf("the cache holds %d bytes, its limit is %d", n, c.limits.cache)
	}
	if c.loading != 0 || len(c.loads) != 0 {
		r.t.Errorf("%d bytes of %d loads are counted as loading", c.loading, len(c.loads))
	}
	for _, el := range c.entries {
		b := el.Value.(*cacheEntry).block
		if n := b.holds.Load(); n != 1 {
			r.t.Errorf("a block in the cache has %d holds", n)
		}
		b.release()
	}
	for _, chunk := range r.s.chunks {
		if chunk.mem > 0 {
			chunk.unload()
		}
	}
}

// partition makes an empty partition.
func (r *readRig) partition(n int32) *Partition {
	p := &Partition{id: PartitionID{Topic: ID{2}, Partition: n}, e: r.e, s: r.s}
	r.e.partitions[p.id] = p
	return p
}

// next makes a batch of one record of about size bytes that follows the partition's last; its timestamp is its offset.
func (r *readRig) next(p *Partition, size int) recordbatch.Batch {
	return r.nextWith(p, recordbatchtest.Record{Timestamp: p.next, Value: bytes.Repeat([]byte{byte(p.next)}, size)})
}

func (r *readRig) nextWith(p *Partition, records ...recordbatchtest.Record) recordbatch.Batch {
	b := recordbatchtest.Build(recordbatchtest.Spec{BaseOffset: p.next, LeaderEpoch: 3, Records: records})
	p.next = b.NextOffset()
	return b
}

// tail puts a batch into the tail, in memory and done, in a buffer of its own.
func (r *readRig) tail(p *Partition, b recordbatch.Batch) {
	r.keep(p, b, true)
	p.high = p.next
}

func (r *readRig) keep(p *Partition, b recordbatch.Batch, keep bool) {
	buf := buffer.Get(len(b))
	defer buf.Release()
	copy(buf.Bytes(), b)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	c := r.s.openChunkFor(keep)
	r.s.admitted++
	r.s.done = r.s.admitted
	r.log.add(r.s.admitted, p.id, b)
	r.s.addLocked(c, p, tailBatch{base: b.BaseOffset(), last: b.LastOffset(), maxTime: b.MaxTimestamp(), data: buf.Bytes(), buf: buf}, r.s.admitted, keep)
}

// openChunkFor returns the open chunk, or a new one where what is kept in memory and what is not would meet.
func (s *session) openChunkFor(keep bool) *chunk {
	if n := len(s.chunks); n > 0 && len(s.chunks[n-1].order) > 0 && (s.chunks[n-1].mem > 0) != keep {
		s.sealLocked(s.chunks[n-1])
	}
	return s.openChunkLocked()
}

// inLog puts batches into the log only, and seals the chunk.
func (r *readRig) inLog(p *Partition, batches ...recordbatch.Batch) *chunk {
	for _, b := range batches {
		r.keep(p, b, false)
	}
	p.high = p.next
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	c := r.s.chunks[len(r.s.chunks)-1]
	r.s.sealLocked(c)
	return c
}

// blocks is one partition's part of an object to make.
type blocks struct {
	p      *Partition
	blocks [][]recordbatch.Batch
}

// object puts blocks of partitions, one after another, into an object, and their runs into the index.
func (r *readRig) object(name string, parts ...blocks) {
	var data []byte
	for _, part := range parts {
		run := Run{PartitionID: part.p.id, Object: name, MaxTimestamp: -1}
		for _, batches := range part.blocks {
			b := Block{Pos: int64(len(data)), FirstOffset: batches[0].BaseOffset(), MaxTimestamp: -1}
			for _, v := range batches {
				data = append(data, v...)
				b.LastOffset = v.LastOffset()
				b.MaxTimestamp = max(b.MaxTimestamp, v.MaxTimestamp())
			}
			b.Len = int32(int64(len(data)) - b.Pos)
			b.Sum = objectfile.BlockSum(objectfile.ID(r.e.cluster), objectfile.Partition{Topic: objectfile.ID(part.p.id.Topic), Partition: part.p.id.Partition}, b.FirstOffset, data[b.Pos:])
			run.Blocks = append(run.Blocks, b)
			run.MaxTimestamp = max(run.MaxTimestamp, b.MaxTimestamp)
		}
		run.FirstOffset, run.LastOffset = run.Blocks[0].FirstOffset, run.Blocks[len(run.Blocks)-1].LastOffset
		r.index.add(run)
		part.p.mu.Lock()
		part.p.committed = max(part.p.committed, run.LastOffset+1)
		part.p.high = max(part.p.high, part.p.committed)
		part.p.mu.Unlock()
	}
	r.store.put(name, data)
}

// segment is object for one partition with one batch a block.
func (r *readRig) segment(name string, p *Partition, n, size int) {
	part := blocks{p: p}
	for range n {
		part.blocks = append(part.blocks, []recordbatch.Batch{r.next(p, size)})
	}
	r.object(name, part)
}

// fetch fetches one partition.
func (r *readRig) fetch(p *Partition, offset int64, maxBytes int) *FetchResponse {
	return r.fetchAll(maxBytes, FetchPartition{Partition: p, Offset: offset, MaxBytes: maxBytes})
}

func (r *readRig) fetchAll(maxBytes int, ps ...FetchPartition) *FetchResponse {
	return r.e.Fetch(r.t.Context(), &FetchRequest{Partitions: ps, MaxBytes: maxBytes, Timeout: time.Minute})
}

// offsets lists the base offsets of the batches of a result, each checked to be intact and to follow the one before.
func (r *readRig) offsets(res FetchResult) (bases []int64) {
	r.t.Helper()
	if res.Err != nil {
		r.t.Fatalf("fetch: %v", res.Err)
	}
	n := 0
	for _, piece := range res.Batches {
		n += len(piece)
		for len(piece) > 0 {
			b, rest, err := recordbatch.Next(piece)
			if err != nil {
				r.t.Fatal(err)
			}
			if err := b.Verify(); err != nil {
				r.t.Fatalf("batch at %d: %v", b.BaseOffset(), err)
			}
			if k := len(bases); k > 0 && bases[k-1] >= b.BaseOffset() {
				r.t.Fatalf("offset %d after %d", b.BaseOffset(), bases[k-1])
			}
			bases = append(bases, b.BaseOffset())
			piece = rest
		}
	}
	if n != res.Bytes {
		r.t.Fatalf("result of %d bytes says %d", n, res.Bytes)
	}
	return bases
}

// drain reads a partition to its high watermark, one record a batch, and returns how many fetches it took.
func (r *readRig) drain(p *Partition, offset int64, maxBytes int) (fetches int) {
	r.t.Helper()
	for {
		resp := r.fetch(p, offset, maxBytes)
		bases := r.offsets(resp.Results[0])
		if offset == resp.Results[0].HighWatermark {
			resp.Release()
			return fetches
		}
		fetches++
		for _, base := range bases {
			if base != offset {
				r.t.Fatalf("offset %d instead of %d", base, offset)
			}
			offset++
		}
		resp.Release()
		if len(bases) == 0 {
			r.t.Fatalf("nothing at offset %d", offset)
		}
	}
}

// fakeIndex is runs in memory.
type fakeIndex struct {
	Index // panics when something else is called

	mu   sync.Mutex
	runs map[PartitionID][]Run
	hook func(p PartitionID, offset int64) error

	logStart int64 // of all partitions
}

func (x *fakeIndex) add(r Run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs[r.PartitionID] = append(x.runs[r.PartitionID], r)
}

func (x *fakeIndex) Run(p PartitionID, offset int64) (run Run, err error) {
	err = ErrNotFound
	if hookErr := x.Runs(p, offset, func(r Run) bool { run, err = r, nil; return false }); hookErr != nil {
		err = hookErr
	}
	return run, err
}

func (x *fakeIndex) Runs(p PartitionID, offset int64, fn func(Run) bool) error {
	if x.hook != nil {
		if err := x.hook(p, offset); err != nil {
			return err
		}
	}
	x.mu.Lock()
	runs := slices.Clone(x.runs[p])
	x.mu.Unlock()
	for _, r := range runs {
		if r.LastOffset >= offset && !fn(r) {
			break
		}
	}
	return nil
}

func (x *fakeIndex) Partition(p PartitionID) (s PartitionState, err error) {
	err = x.Runs(p, 0, func(r Run) bool {
		s.End = r.LastOffset + 1
		s.Bytes += r.Bytes()
		return true
	})
	s.LogStart = x.logStart
	return s, err
}

// fakeStore is objects in memory. hook may fail a read or change its bytes.
type fakeStore struct {
	ObjectStore // panics when something else is called

	mu      sync.Mutex
	objects map[string][]byte
	gets    []string // object:offset+length
	hook    func(ctx context.Context, name string, off int64, data []byte) error
}

func (s *fakeStore) put(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = data
}

func (s *fakeStore) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	s.gets = append(s.gets, fmt.Sprintf("%s:%d+%d", name, off, n))
	object, ok := s.objects[name]
	hook := s.hook
	s.mu.Unlock()
	var data []byte
	if ok {
		size := int64(len(object))
		if off > size {
			return nil, fmt.Errorf("get %s from %d: %w: it has %d bytes", name, off, ErrInvalid, size)
		}
		data = bytes.Clone(object[off:min(off+n, size)])
	}
	if hook != nil {
		if err := hook(ctx, name, off, data); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, fmt.Errorf("get %s: %w", name, ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (s *fakeStore) Head(_ context.Context, name string) (ObjectAttrs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[name]; ok {
		return ObjectAttrs{Name: name, Size: int64(len(o))}, nil
	}
	return ObjectAttrs{}, fmt.Errorf("head %s: %w", name, ErrNotFound)
}

func (s *fakeStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.gets)
}

// fakeLog is records in memory.
type fakeLog struct {
	WAL // panics when something else is called

	mu      sync.Mutex
	records []fakeRecord
	reads   int
	hook    func(ctx context.Context) error
}

type fakeRecord struct {
	pos  Position
	data []byte
}

func (l *fakeLog) Info() WALInfo { return WALInfo{URL: "fake:log"} }

func (l *fakeLog) add(pos Position, p PartitionID, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, fakeRecord{pos, append(appendBatchHeader(nil, p), b...)})
}

func (l *fakeLog) Read(ctx context.Context, from, to Position, fn func(Position, []byte) bool) error {
	l.mu.Lock()
	l.reads++
	hook := l.hook
	records := l.records
	l.mu.Unlock()
	if hook != nil {
		if err := hook(ctx); err != nil {
			return err
		}
	}
	for _, r := range records {
		if r.pos > from && r.pos <= to {
			data := bytes.Clone(r.data)
			more := fn(r.pos, data)
			clear(data) // what is passed is valid during the call only
			if !more {
				break
			}
		}
	}
	return nil
}

// plainBatches is a BatchReader of batches that are not compressed.
type plainBatches struct{}

func (plainBatches) FindTime(batch []byte, ts int64) (offset, timestamp int64, found bool, err error) {
	for r, err := range recordbatch.Batch(batch).Records(nil, 0) {
		if err != nil {
			return 0, 0, false, err
		}
		if r.Timestamp >= ts {
			return r.Offset, r.Timestamp, true, nil
		}
	}
	return 0, 0, false, nil
}

// make3 makes three records with the timestamps of their offsets.
func make3(base int64) (records []recordbatchtest.Record) {
	for i := range int64(3) {
		records = append(records, recordbatchtest.Record{Timestamp: base + i, Value: []byte{byte(i)}})
	}
	return records
}

// untilFails calls fn until it returns an error.
func (r *readRig) untilFails(fn func() error) {
	r.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for fn() == nil {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatal("no error in a minute")
		}
	}
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/walbackends/memwal"
)

// flaky is an object store that fails on demand.
type flaky struct {
	engine.ObjectStore
	mu   sync.Mutex
	away bool
	puts int                                  // puts begun
	put  func(name string, nth int) error     // before the put
	done func(name string, nth int) error     // after it
	gone chan struct{}                        // receives when a call met the store away
	hook func(ctx context.Context, op string) // at each call
}

func (f *flaky) check(ctx context.Context, op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hook != nil {
		f.hook(ctx, op)
	}
	if f.away {
		select {
		case f.gone <- struct{}{}:
		default:
		}
		return fmt.Errorf("%w: the store is away", engine.ErrUnavailable)
	}
	return nil
}

func (f *flaky) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *flaky) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := f.check(ctx, "put"); err != nil {
		return err
	}
	f.mu.Lock()
	f.puts++
	nth, before, after := f.puts, f.put, f.done
	f.mu.Unlock()
	if before != nil {
		if err := before(name, nth); err != nil {
			return err
		}
	}
	err := f.ObjectStore.Put(ctx, name, r, size)
	if err == nil && after != nil {
		err = after(name, nth)
	}
	return err
}

func (f *flaky) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := f.check(ctx, "get"); err != nil {
		return nil, err
	}
	return f.ObjectStore.Get(ctx, name, off, n)
}

func (f *flaky) Create(ctx context.Context, name string, data []byte) error {
	if err := f.check(ctx, "create"); err != nil {
		return err
	}
	return f.ObjectStore.Create(ctx, name, data)
}

func (f *flaky) Head(ctx context.Context, name string) (engine.ObjectAttrs, error) {
	if err := f.check(ctx, "head"); err != nil {
		return engine.ObjectAttrs{}, err
	}
	return f.ObjectStore.Head(ctx, name)
}

func (f *flaky) List(ctx context.Context, prefix string, fn func(engine.ObjectAttrs) bool) error {
	if err := f.check(ctx, "list"); err != nil {
		return err
	}
	return f.ObjectStore.List(ctx, prefix, fn)
}

// flakyRig is a rig with a small log, small uploads and a store that fails on demand.
func flakyRig(t *testing.T) (*rig, *flaky) {
	r := newRig(t)
	r.disk = memwal.New(memwal.Options{Capacity: 4 << 20})
	f := &flaky{ObjectStore: r.bucket.Open(), gone: make(chan struct{}, 1)}
	r.options = func(o *engine.Options) { o.Store, o.UploadBytes = f, 256<<10 }
	return r, f
}

// With the store away the log fills, producers are held, reads come from the log, and all resumes by itself.
func TestStoreAwayHoldsProducersAndLosesNothing(t *testing.T) {
	r, f := flakyRig(t)
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	f.setAway(true)
	const size = 32 << 10
	n := 0
	var held <-chan engine.Appended
	for held == nil {
		out := make(chan (<-chan engine.Appended), 1)
		go func() { out <- r.append(p, batch(n, 1, size)) }()
		select {
		case c := <-out:
			if a := <-c; a.Err != nil {
				t.Fatalf("append %d: %v", n, a.Err)
			}
			n++
		case <-time.After(200 * time.Millisecond):
			if st := r.e.Stats(); st.WAL.Used < st.WAL.Capacity*3/4 {
				continueWaiting(t, out) // only slow
				n++
				continue
			}
			c := make(chan engine.Appended, 1)
			go func() { c <- <-<-out }()
			held = c
		}
	}
	r.expect(p, 0, n) // more than the tail keeps in memory
	if st := r.e.Stats(); st.TailMemory > 5<<20 {
		t.Errorf("%d bytes of tail in memory", st.TailMemory)
	}
	select {
	case a := <-held:
		t.Fatalf("an append to a full log ended: %+v", a)
	default:
	}
	f.setAway(false)
	select {
	case a := <-held:
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	case <-time.After(hang):
		t.Fatal("the held append did not resume")
	}
	r.expect(p, 0, n+1)
	r.flush()
	r.close().open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, n+1)
}

func continueWaiting(t *testing.T, out chan (<-chan engine.Appended)) {
	t.Helper()
	select {
	case c := <-out:
		if a := <-c; a.Err != nil {
			t.Fatal(a.Err)
		}
	case <-time.After(hang):
		t.Fatal("an append with room did not end")
	}
}

func TestAppendToAFullLogIsRefusedAfterItsHold(t *testing.T) {
	r, f := flakyRig(t)
	more := r.options
	r.options = func(o *engine.Options) { more(o); o.HoldFull = time.Millisecond }
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	f.setAway(true)
	n, plain := 0, 0
	for {
		a := <-r.append(p, idempotent(1, 0, int32(n)))
		if errors.Is(a.Err, engine.ErrFull) {
			break
		}
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		n++
		if a := <-r.append(p, batch(n, 1, 64<<10)); a.Err == nil {
			plain++
		}
	}
	if n == 0 {
		t.Fatal("full at once")
	}
	f.setAway(false)
	r.until("there is room again", func() bool {
		a := <-r.append(p, idempotent(1, 0, int32(n))) // the refusal left no gap in the sequence
		if a.Err != nil && !errors.Is(a.Err, engine.ErrFull) {
			t.Fatal(a.Err)
		}
		return a.Err == nil
	})
	r.expect0(p, n+plain+1)
}

// Topics are created and deleted while the log is full: commits use its reserve.
func TestCommitsGoThroughWhenTheLogIsFull(t *testing.T) {
	r, f := flakyRig(t)
	more := r.options
	r.options = func(o *engine.Options) { more(o); o.HoldFull = time.Millisecond }
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	f.setAway(true)
	for n := 0; ; n++ {
		if a := <-r.append(p, batch(n, 1, 32<<10)); a.Err != nil {
			break
		}
	}
	for n := range 50 {
		r.topic(fmt.Sprint("b", n), 1)
	}
	if err := r.e.DeleteTopic(r.ctx(), r.topic("b7", 1)); err != nil {
		t.Fatal(err)
	}
	f.setAway(false)
}

func TestPutsThatEndOutOfOrderAreCommittedInOrder(t *testing.T) {
	r, f := flakyRig(t)
	second := make(chan struct{})
	var once sync.Once
	f.put = func(name string, nth int) error {
		if !strings.HasSuffix(name, ".segment") && !strings.HasSuffix(name, ".bundle") {
			return nil
		}
		if nth == 1 { // waits until the second is in the store
			select {
			case <-second:
			case <-time.After(hang):
			}
		}
		return nil
	}
	f.done = func(name string, nth int) error {
		if nth == 2 {
			once.Do(func() { close(second) })
		}
		return nil
	}
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	r.fill(p, 0, 40, 32<<10)
	r.flush()
	r.expect(p, 0, 40)
	r.close().open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 40)
}

// The put is stored and the engine dies before the commit: the records are served from the log, once, and the orphan goes.
func TestObjectWithoutACommitIsAnOrphan(t *testing.T) {
	r, f := flakyRig(t)
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	r.fill(p, 0, 3, 1000)
	stored := make(chan string, 10)
	f.mu.Lock()
	f.done = func(name string, nth int) error {
		stored <- name
		return fmt.Errorf("%w: the answer was lost", engine.ErrUnavailable)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	flushed := make(chan error, 1)
	go func() { flushed <- r.e.Flush(ctx) }()
	orphan := <-stored
	r.disk.Crash()
	cancel()
	<-flushed
	f.mu.Lock()
	f.done = nil
	f.mu.Unlock()
	more := r.options
	r.options = func(o *engine.Options) { more(o); o.RetentionInterval = time.Millisecond }
	r.close().open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 3)
	r.until("the orphan is swept", func() bool {
		_, err := f.ObjectStore.Head(r.ctx(), orphan)
		return errors.Is(err, engine.ErrNotFound)
	})
	r.flush()
	r.expect(r.partition(r.topic("a", 1), 0), 0, 3)
}

func TestObjectsThatNothingRefersToAreDeleted(t *testing.T) {
	r, _ := flakyRig(t)
	more := r.options
	r.options = func(o *engine.Options) {
		more(o)
		o.RetentionInterval, o.DeleteGrace = time.Millisecond, time.Millisecond
	}
	r.open()
	tp := r.topic("a", 2)
	r.fill(r.partition(tp, 0), 0, 20, 32<<10)
	keep := r.partition(r.topic("b", 1), 0)
	r.fill(keep, 0, 3, 100)
	r.flush()
	data := func() (n int) {
		r.bucket.Open().List(r.ctx(), "", func(a engine.ObjectAttrs) bool {
			if strings.HasSuffix(a.Name, ".segment") || strings.HasSuffix(a.Name, ".bundle") {
				n++
			}
			return true
		})
		return n
	}
	before := data()
	if err := r.e.DeleteTopic(r.ctx(), tp); err != nil {
		t.Fatal(err)
	}
	r.until("the deleted topic's objects are gone", func() bool { return data() < before })
	r.expect(keep, 0, 3)
	r.close().open()
	r.expect(r.partition(r.topic("b", 1), 0), 0, 3)
}

func TestRetentionMovesTheLogStartOverWholeRuns(t *testing.T) {
	r, _ := flakyRig(t)
	more := r.options
	r.options = func(o *engine.Options) {
		more(o)
		o.RetentionInterval = time.Millisecond
		o.Retention = func(t *engine.Topic) engine.Retention {
			if t.Name == "a" {
				return engine.Retention{Time: -1, Bytes: 400 << 10}
			}
			return engine.Retention{Time: -1, Bytes: -1}
		}
	}
	r.open()
	p, b := r.partition(r.topic("a", 1), 0), r.partition(r.topic("b", 1), 0)
	for i := range 40 {
		r.fill(p, i, 1, 32<<10)
		r.fill(b, i, 1, 10)
	}
	r.flush()
	var start int64
	r.until("the log start has moved", func() bool {
		o, err := p.Offsets()
		start = o.LogStart
		return err == nil && start > 0
	})
	r.until("it rests", func() bool {
		o, _ := p.Offsets()
		rests := o.LogStart == start
		start = o.LogStart
		return rests
	})
	if kept := 40 - start; kept < 12 {
		t.Errorf("%d records kept, of 400 KiB in records of 32 KiB", kept)
	}
	if values, err := r.tryRead(p, 0); !errors.Is(err, engine.ErrOutOfRange) {
		o, _ := p.Offsets()
		t.Errorf("a fetch below the log start %+v: %v, %d records", o, err, len(values))
	}
	r.expect(b, 0, 40)
}

// The log fails while uploads run; the next session finishes them.
func TestLogThatFailsDuringUploadsLosesNothing(t *testing.T) {
	r, _ := flakyRig(t)
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	n := 0
	for round := range 5 {
		for range 20 {
			r.must(p, batch(n, 1, 16<<10))
			n++
		}
		r.disk.FailNext(fmt.Errorf("injected in round %d", round))
		r.append(p, batch(-1, 1, 10))
		r.reopened()
		p = r.partition(r.topic("a", 1), 0)
	}
	values := r.read(p, 0)
	if len(values) != n {
		t.Fatalf("%d records, want %d", len(values), n)
	}
	r.close().open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, n)
}

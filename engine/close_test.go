package engine_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/walbackends/memwal"
)

// stuck is an object store whose puts hang until their contexts end.
type stuck struct {
	engine.ObjectStore
	begun chan struct{}
}

func (s stuck) Put(ctx context.Context, _ string, _ io.Reader, _ int64) error {
	select {
	case s.begun <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestCloseEndsWhileAllElseHangs(t *testing.T) {
	r := newRig(t)
	r.disk = memwal.New(memwal.Options{Capacity: 1 << 20})
	store := stuck{ObjectStore: r.bucket.Open(), begun: make(chan struct{}, 1)}
	r.options = func(o *engine.Options) { o.Store, o.UploadBytes, o.StoreTimeout = store, 64<<10, hang*10 }
	r.open()
	p := r.partition(r.topic("a", 1), 0)
	n := 0
	ends := make(chan (<-chan engine.Appended), 1)
	for full := false; !full; {
		go func() { ends <- r.append(p, batch(n, 1, 64<<10)) }()
		r.until("the append ends or the log is full", func() bool {
			select {
			case c := <-ends:
				a := <-c
				if a.Err != nil {
					t.Fatal(a.Err)
				}
				n++
				return true
			default:
				stats := r.e.Stats().WAL
				full = stats.Capacity*15/16-stats.Used < 64<<10
				return full
			}
		})
	}
	<-store.begun
	flushed := make(chan error, 1)
	go func() { flushed <- r.e.Flush(r.ctx()) }()
	r.close()
	select {
	case c := <-ends:
		if a := <-c; a.Err == nil {
			n++ // was admitted before the log was full
		} else if !errors.Is(a.Err, engine.ErrUnavailable) && !errors.Is(a.Err, engine.ErrClosed) {
			t.Fatalf("a held append ended with %v", a.Err)
		}
	case <-r.ctx().Done():
		t.Fatal("a held append did not end")
	}
	if err := <-flushed; err == nil {
		t.Fatal("a flush whose puts hang ended well")
	}
	r.options = nil
	r.open()
	r.expect(r.partition(r.topic("a", 1), 0), 0, n)
}

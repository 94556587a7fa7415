package engine

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/internal/buffer"
)

func (r *readRig) cache(name string, size int) {
	b := newBlock(buffer.Get(size), nil)
	defer b.release()
	r.e.cache.mu.Lock()
	defer r.e.cache.mu.Unlock()
	r.e.cache.putLocked(blockKey{object: name}, b)
}

func (r *readRig) cached(name string) bool {
	b := r.e.cache.get(blockKey{object: name})
	if b == nil {
		return false
	}
	b.release()
	return true
}

func TestScanLeavesSharedBlocksInTheCache(t *testing.T) {
	r := newReadRig(t, 16<<20) // a cache of 2 MiB
	defer r.close()
	for i := range 3 {
		name := fmt.Sprint("shared-", i)
		r.cache(name, 128<<10)
		r.e.cache.finished(blockKey{object: name})
		r.e.cache.finished(blockKey{object: name})
	}
	for i := range 100 {
		name := fmt.Sprint("scanned-", i)
		r.cache(name, 128<<10)
		r.e.cache.finished(blockKey{object: name})
	}
	for i := range 3 {
		if !r.cached(fmt.Sprint("shared-", i)) {
			t.Errorf("shared block %d was displaced by a scan", i)
		}
	}
	if r.cached("scanned-0") || !r.cached("scanned-99") {
		t.Error("of what was scanned, not the latest is kept")
	}
}

func TestBlocksThatNobodyHasReadOutliveTheOthers(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	for i := range 4 {
		r.cache(fmt.Sprint("unread-", i), 256<<10)
	}
	for i := range 20 {
		name := fmt.Sprint("read-", i)
		r.cache(name, 256<<10)
		r.e.cache.finished(blockKey{object: name})
		if i%2 == 0 {
			r.e.cache.finished(blockKey{object: name})
		}
	}
	for i := range 4 {
		if !r.cached(fmt.Sprint("unread-", i)) {
			t.Errorf("block %d is gone before it was read", i)
		}
	}
}

func TestLoadsBehindLeaveUnreadBlocksAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		room := func() bool {
			r.e.cache.mu.Lock()
			defer r.e.cache.mu.Unlock()
			return r.e.cache.roomLocked(512 << 10)
		}
		for i := range 5 {
			r.cache(fmt.Sprint("unread-", i), 256<<10)
		}
		if room() {
			t.Error("there is room although what is there was not read yet")
		}
		time.Sleep(freshFor + time.Second)
		if !room() {
			t.Error("there is no room although nobody came for what is there")
		}
	})
}

func TestCacheLeavesOutWhatIsLargerThanItself(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	r.cache("small", 128<<10)
	r.cache("large", 3<<20)
	if r.cached("large") || !r.cached("small") {
		t.Error("a block larger than the cache went in, or pushed others out")
	}
}

func TestFailuresOfLoadsThatNobodyAwaitedFade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRig(t, 16<<20)
		defer r.close()
		c := r.e.cache
		key := blockKey{object: "gone"}
		c.mu.Lock()
		c.failLocked(key, ErrNotFound)
		c.failLocked(blockKey{object: "unreachable"}, ErrUnavailable)
		c.mu.Unlock()
		if err := c.failure(key); !errors.Is(err, ErrNotFound) {
			t.Errorf("at once: %v", err)
		}
		if err := c.failure(blockKey{object: "unreachable"}); err != nil {
			t.Errorf("that the store is away is no finding: %v", err)
		}
		time.Sleep(2 * failedFor)
		if err := c.failure(key); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

func TestCursorsKeepWithinTheirMemory(t *testing.T) {
	r := newReadRig(t, 16<<20)
	defer r.close()
	p := r.partition(0)
	r.segment("one", p, 50, 100)
	for offset := range int64(50) {
		for range 20 {
			resp := r.fetch(p, offset, 1)
			r.offsets(resp.Results[0])
			resp.Release()
		}
	}
	c := r.e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int64
	for el := c.cursors.order.Front(); el != nil; el = el.Next() {
		n += el.Value.(*cursor).cost()
	}
	if n != c.cursors.bytes || n > c.cursors.limit || len(c.cursors.at) != c.cursors.order.Len() {
		t.Errorf("%d bytes of cursors, counted as %d, limit %d", n, c.cursors.bytes, c.cursors.limit)
	}
}

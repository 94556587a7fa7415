package index_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
)

// evenCommit changes three partitions and two keys in the same way, so that a reader who sees part of it notices.
func evenCommit(st engine.IndexState) *engine.Commit {
	n := int64(st.Seq)
	c := &engine.Commit{Seq: st.Seq + 1, Prev: st.Sum, WAL: st.WAL}
	o := engine.Object{Name: fmt.Sprintf("object-%08d", n), Size: 1}
	for p := range int32(3) {
		id := engine.PartitionID{Topic: engine.ID{1}, Partition: p}
		o.Runs = append(o.Runs, engine.Run{
			PartitionID: id, FirstOffset: n, LastOffset: n, MaxTimestamp: n,
			Blocks: []engine.Block{{Len: 10, FirstOffset: n, LastOffset: n, MaxTimestamp: n}},
		})
		c.LogStarts = append(c.LogStarts, engine.LogStart{PartitionID: id, Offset: n - 5})
		c.Producers = append(c.Producers, engine.ProducerSnapshot{PartitionID: id, Offset: n + 1, State: make([]byte, 500)})
	}
	c.Added = []engine.Object{o}
	for _, key := range []string{"a", "b"} {
		c.Meta = append(c.Meta, engine.MetaChange{Key: key, Rev: c.Seq, Value: []byte{1}})
	}
	return c
}

// checkEven reads what must be the same everywhere.
func checkEven(ix *index.Index) error {
	ends, revs := map[int64]bool{}, map[uint64]bool{}
	err := ix.Partitions(func(_ engine.PartitionID, st engine.PartitionState) bool {
		ends[st.End], ends[st.Producers.Offset] = true, true
		return true
	})
	if err == nil {
		err = ix.Meta("", func(m engine.MetaChange) bool {
			revs[m.Rev] = true
			return true
		})
	}
	if err == nil && (len(ends) > 1 || len(revs) > 1) {
		err = fmt.Errorf("part of a commit is seen: ends %v, revisions %v", ends, revs)
	}
	return err
}

func TestReadersSeeWholeCommitsWhileOneWritesOnAFailingDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	fs := &hookFS{FS: vfs.NewMem()}
	o := index.Options{FS: fs, MemTableBytes: 64 << 10}
	ix := mustOpen(t, "index", o)
	if err := ix.Reset(ctx, cluster, wal); err != nil {
		t.Fatal(err)
	}
	changes, failed := 0, 0
	fs.setHook(func(op, name string) error {
		if changes++; changes%43 == 0 {
			failed++
			return syscall.ENOSPC
		}
		return nil
	})
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for !stop.Load() {
				if err := checkEven(ix); err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	persist := func(what string, call func() error) {
		for {
			err := call()
			if err == nil {
				return
			}
			if !errors.Is(err, engine.ErrFull) && !errors.Is(err, engine.ErrUnavailable) || ctx.Err() != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	defer readers.Wait()
	defer stop.Store(true)
	for n := range 90 {
		st, err := ix.State()
		if err != nil {
			t.Fatal(err)
		}
		if st.Seq != uint64(n) {
			t.Fatalf("%d commits were applied, the index has %d", n, st.Seq)
		}
		c := evenCommit(st)
		persist("apply", func() error { return ix.Apply(ctx, c, c.Sum()) })
		if n%3 == 0 {
			persist("sync", func() error { return ix.Sync(ctx) })
		}
	}
	stop.Store(true)
	readers.Wait()
	fs.setHook(nil)
	persist("sync", func() error { return ix.Sync(ctx) })
	if failed < 3 {
		t.Errorf("only %d of %d changes failed", failed, changes)
	}
	mustClose(t, ix)
	ix = mustOpen(t, "index", o)
	if err := checkEven(ix); err != nil {
		t.Error(err)
	}
	if st, err := ix.State(); err != nil || st.Seq != 90 {
		t.Errorf("opened again: commit %d, %v", st.Seq, err)
	}
	mustClose(t, ix)
}

func TestCloseWaitsForReaders(t *testing.T) {
	ix := mustOpen(t, "index", index.Options{FS: vfs.NewMem()})
	c := &engine.Commit{Seq: 1, Meta: []engine.MetaChange{{Key: "a", Value: []byte{1}}, {Key: "b", Value: []byte{1}}}}
	mustApply(t, ix, c)
	reading, closed := make(chan struct{}), make(chan error, 1)
	go func() {
		<-reading
		closed <- ix.Close()
	}()
	var seen int
	err := ix.Meta("", func(engine.MetaChange) bool {
		if st, err := ix.State(); seen == 0 && (err != nil || st.Seq != 1) {
			t.Errorf("a callback reads commit %d, %v", st.Seq, err)
		}
		if seen++; seen == 1 {
			close(reading)
		}
		return true
	})
	if err != nil || seen != 2 {
		t.Errorf("%d keys seen, %v", seen, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A commit larger than the table in memory is written at once, and may leave Sync nothing to write.
func TestSyncAfterALargeCommitIsNoFailure(t *testing.T) {
	fs := &hookFS{FS: vfs.NewMem()}
	ix := mustOpen(t, "index", index.Options{FS: fs, MemTableBytes: 64 << 10})
	written := make(chan struct{}, 1000)
	fs.setHook(func(op, name string) error {
		if op == "sync" && strings.Contains(name, "MANIFEST") {
			written <- struct{}{}
		}
		return nil
	})
	var prev uint32
	for seq := range uint64(30) {
		for len(written) > 0 {
			<-written
		}
		c := &engine.Commit{Seq: seq + 1, Prev: prev, Producers: []engine.ProducerSnapshot{{State: make([]byte, 40<<10)}}}
		prev = c.Sum()
		mustApply(t, ix, c)
		select {
		case <-written:
		case <-time.After(time.Minute):
			t.Fatal("a large commit is not written by itself")
		}
		for range 100 {
			runtime.Gosched() // the flush is about to end
		}
		if err := ix.Sync(t.Context()); err != nil {
			t.Fatalf("after commit %d: %v", c.Seq, err)
		}
	}
	mustClose(t, ix)
}

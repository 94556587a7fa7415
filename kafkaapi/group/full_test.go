package group_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
	"github.com/headpond/headpond/kafkaapi/group"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/walbackends/memwal"
)

// awayStore is a store that can be out of reach for writers.
type awayStore struct {
	engine.ObjectStore
	away *atomic.Bool
}

func (s awayStore) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if s.away.Load() {
		return engine.ErrUnavailable
	}
	return s.ObjectStore.Put(ctx, name, r, size)
}

func (s awayStore) Create(ctx context.Context, name string, data []byte) error {
	if s.away.Load() {
		return engine.ErrUnavailable
	}
	return s.ObjectStore.Create(ctx, name, data)
}

// While the log is full and the store is away, some commits go through, and never so many that the engine's own commits, which
// alone can make room, find none left.
func TestCommitsToAFullLogLeaveRoomForTheEngine(t *testing.T) {
	c := &cluster{t: t}
	var away atomic.Bool
	e, err := engine.Open(c.ctx(), engine.Options{
		OpenWAL: memwal.New(memwal.Options{Capacity: 8 << 20}).Open, WALURL: "mem:", Store: awayStore{new(memobj.Bucket).Open(), &away},
		Index: index.NewMem(), Batches: batchReader{}, Logger: slog.New(slog.DiscardHandler), Memory: 32 << 20, HoldFull: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(c.ctx()); err != nil {
			t.Error("close:", err)
		}
	}()
	g, err := group.New(e, group.Options{Partitions: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(c.ctx())
	topic, err := e.CreateTopic(c.ctx(), "lines", engine.TopicChange{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Partition(engine.PartitionID{Topic: topic.ID})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(at int64) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 9, "g", -1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "lines", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: at}}}}
		return g.OffsetCommit(c.ctx(), req, group.Client{}).Topics[0].Partitions[0].ErrorCode
	}
	produce := func() error {
		b := recordbatchtest.Values(1, string(make([]byte, 16<<10)))
		buf := buffer.Get(len(b))
		defer buf.Release()
		copy(buf.Bytes(), b)
		return p.Append(c.ctx(), engine.Batch{Data: buf.Bytes(), Buffer: buf}, func(engine.Appended) {})
	}
	if code := commit(0); code != 0 {
		t.Fatalf("commit: code %d", code)
	}
	away.Store(true)
	for err = nil; err == nil; {
		err = produce()
	}
	if !errors.Is(err, engine.ErrFull) {
		t.Fatal("the log is not full:", err)
	}
	accepted := int64(0)
	for at := int64(1); ; at++ {
		if code := commit(at); code != 0 {
			if code != 15 { // COORDINATOR_NOT_AVAILABLE
				t.Errorf("commit to a full log: code %d", code)
			}
			break
		}
		if accepted = at; at > 10_000 {
			t.Fatal("commits take all that is left of the log")
		}
	}
	if accepted == 0 {
		t.Error("no commit went through")
	}
	away.Store(false)
	c.eventually("room", func() bool { return produce() == nil })
	c.eventually("a commit", func() bool { return commit(1_000_000) == 0 })
}

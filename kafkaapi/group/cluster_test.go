package group_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/codec"
	"github.com/headpond/headpond/internal/topicconfig"
	"github.com/headpond/headpond/kafkaapi"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/walbackends/memwal"
)

// hang is when a test gives up on something that should have happened; nothing else depends on it.
const hang = time.Minute

// cluster is what outlives a broker, and the broker on it.
type cluster struct {
	t       *testing.T
	disk    *memwal.Disk
	bucket  *memobj.Bucket
	index   *index.Mem
	engine  *engine.Engine
	address string // another one after a restart
	stop    func()
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, disk: memwal.New(memwal.Options{Capacity: 64 << 20}), bucket: new(memobj.Bucket), index: index.NewMem()}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

// hostWAL is a log in memory that outlives its host, which a test's disk does.
type hostWAL struct{ engine.WAL }

func (w hostWAL) Info() engine.WALInfo {
	info := w.WAL.Info()
	info.Domain = engine.DomainHost
	return info
}

func (c *cluster) openWAL(ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
	if !o.Create { // package memwal makes what is absent
		probe, err := c.disk.Open(ctx, engine.WALOptions{ReadOnly: true})
		if err != nil {
			return nil, err
		}
		probe.Close()
	}
	w, err := c.disk.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return hostWAL{w}, nil
}

type batchReader struct{}

func (batchReader) FindTime(b []byte, ts int64) (int64, int64, bool, error) {
	return recordbatch.Batch(b).FirstAtOrAfter(ts, codec.Decompressor{}, 64<<20)
}

func (c *cluster) start() {
	c.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	e, err := engine.Open(c.ctx(), engine.Options{
		OpenWAL: c.openWAL, WALURL: "mem:", Store: c.bucket.Open(), Index: c.index.Clone(), Batches: batchReader{},
		Logger: quiet, Memory: 32 << 20, UploadAge: -1,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	broker, err := topicconfig.NewBroker(map[string]string{
		topicconfig.GroupInitialRebalanceMs: "100", topicconfig.OffsetsTopicNumPartitions: "5",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := kafkaapi.NewServer(e, kafkaapi.Options{Broker: broker, Logger: quiet})
	if err != nil {
		c.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.engine, c.address = e, l.Addr().String()
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(l); err != nil {
			c.t.Error("serve:", err)
		}
	})
	c.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			c.t.Error("shutdown:", err)
		}
		served.Wait()
		if err := e.Close(ctx); err != nil {
			c.t.Error("close:", err)
		}
	})
}

// restart stops the broker and starts another one, without an index.
func (c *cluster) restart() {
	c.t.Helper()
	c.stop()
	c.index = index.NewMem()
	c.start()
}

func (c *cluster) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	c.t.Cleanup(cancel)
	return ctx
}

func (c *cluster) client(o ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.address), kgo.RetryTimeout(hang), kgo.MetadataMinAge(100 * time.Millisecond)}, o...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

func (c *cluster) topic(name string, partitions int32) {
	c.t.Helper()
	if _, err := c.engine.CreateTopic(c.ctx(), name, engine.TopicChange{Partitions: partitions}); err != nil {
		c.t.Fatal(err)
	}
}

// produce appends records "from" to "to"-1, spread over the partitions.
func (c *cluster) produce(topic string, partitions, from, to int) {
	c.t.Helper()
	cl := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(fmt.Sprint(i))})
	}
	if err := cl.ProduceSync(c.ctx(), rs...).FirstErr(); err != nil {
		c.t.Fatal("produce:", err)
	}
}

// tally counts what consumers read, by value.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

// add counts a value and returns how many there are.
func (y *tally) add(v string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.seen == nil {
		y.seen = map[string]int{}
	}
	y.seen[v]++
	return len(y.seen)
}

func (y *tally) count() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.seen)
}

// consume polls until ctx ends, committing all that it reads; then the client leaves.
func (c *cluster) consume(ctx context.Context, cl *kgo.Client, y *tally) {
	defer cl.Close()
	for ctx.Err() == nil {
		fs := cl.PollRecords(ctx, 10)
		fs.EachRecord(func(r *kgo.Record) { y.add(string(r.Value)) })
		if fs.NumRecords() > 0 {
			// A rebalance may refuse it; the next commit, or the one of who reads it again, makes up for it.
			_ = cl.CommitUncommittedOffsets(ctx)
		}
	}
}

// eventually waits for something that comes by itself.
func (c *cluster) eventually(what string, is func() bool) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx := c.ctx(); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("waited for %s in vain", what)
		}
	}
}

func (c *cluster) admin() *kadm.Client { return kadm.NewClient(c.client()) }

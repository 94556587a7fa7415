package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
	"github.com/headpond/headpond/objbackends/fileobj"
	"github.com/headpond/headpond/walbackends/filewal"
)

// content is incompressible.
func content(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(b)
	return b
}

// batchOf makes a batch of so many records of size bytes.
func batchOf(records, size int) recordbatch.Batch {
	values := make([]string, records)
	for i := range values {
		values[i] = string(content(size))
	}
	return recordbatchtest.Values(1_700_000_000_000, values...)
}

// walAlone appends records of size bytes, as many in flight as the clients have, and trims behind.
func walAlone(t *testing.T, size int) func(time.Duration) result {
	t.Helper()
	open, err := filewal.Opener(filepath.Join(t.TempDir(), "wal"), filewal.Options{Capacity: 512 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w, err := open(t.Context(), engine.WALOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	parts := [][]byte{content(size)}
	return flying(t, size, func(n int64, done func(error)) error {
		if n%64 == 63 {
			if err := w.Trim(t.Context(), w.Stats().Done); err != nil {
				return err
			}
		}
		_, err := w.Append(engine.Record{Parts: parts}, done)
		return err
	})
}

// flying keeps operations in flight whose ends are told by a function.
func flying(t *testing.T, size int, start func(n int64, done func(error)) error) func(time.Duration) result {
	return func(d time.Duration) result {
		slots := make(chan struct{}, connections*inFlight)
		var failed sync.Once
		done := func(err error) {
			if err != nil {
				failed.Do(func() { t.Error(err) })
			}
			<-slots
		}
		n := int64(0)
		r := during(d, false, size, func() {
			slots <- struct{}{}
			if err := start(n, done); err != nil {
				done(err)
			}
			n++
		})
		begin := time.Now()
		for range cap(slots) {
			slots <- struct{}{}
		}
		r.elapsed += time.Since(begin)
		return r
	}
}

type noTimes struct{}

func (noTimes) FindTime([]byte, int64) (int64, int64, bool, error) { return 0, 0, false, nil }

// engineAlone appends batches to partitions of an engine over files, which uploads as it does in a broker.
func engineAlone(t *testing.T, batch recordbatch.Batch) func(time.Duration) result {
	t.Helper()
	dir := t.TempDir()
	open, err := filewal.Opener(filepath.Join(dir, "wal"), filewal.Options{Capacity: 2 << 30})
	if err != nil {
		t.Fatal(err)
	}
	store, err := fileobj.Open(filepath.Join(dir, "objects"), fileobj.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	ix, err := index.Open(filepath.Join(dir, "index"), index.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Options{OpenWAL: open, WALURL: "file:wal", Store: store, Index: ix, Batches: noTimes{},
		Logger: slog.New(slog.DiscardHandler), Memory: 512 << 20,
		Retention: func(*engine.Topic) engine.Retention { return engine.Retention{Time: -1, Bytes: 64 << 20} }, RetentionInterval: time.Second, DeleteGrace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	topic, err := e.CreateTopic(t.Context(), "t", engine.TopicChange{Partitions: connections})
	if err != nil {
		t.Fatal(err)
	}
	var partitions [connections]*engine.Partition
	for i := range partitions {
		if partitions[i], err = e.Partition(engine.PartitionID{Topic: topic.ID, Partition: int32(i)}); err != nil {
			t.Fatal(err)
		}
	}
	return flying(t, len(batch), func(n int64, done func(error)) error {
		buf := buffer.Get(len(batch))
		copy(buf.Bytes(), batch)
		defer buf.Release()
		return partitions[n%connections].Append(t.Context(), engine.Batch{Data: buf.Bytes(), Buffer: buf}, func(a engine.Appended) { done(a.Err) })
	})
}

// readFrame reads one response, without its length.
func readFrame(c net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c, body)
	return body, err
}

const produceVersion, fetchVersion = 9, 11

func produceFrame(topic string, partition int32, batch recordbatch.Batch) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = produceVersion, -1, 30_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

// readProduced reads the answer to a produce request.
func readProduced(c net.Conn) error {
	body, err := readFrame(c)
	if err != nil {
		return err
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = produceVersion
	if err := resp.ReadFrom(body[5:]); err != nil { // after correlation id and tags
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// produce sends a batch in each request through the socket.
func produce(t *testing.T, addr, topic string, batch recordbatch.Batch) func(time.Duration) result {
	var mu sync.Mutex
	next := int32(0)
	return pipelined(t, addr, len(batch), func() []byte { // asked for once by each connection
		mu.Lock()
		defer mu.Unlock()
		next++
		return produceFrame(topic, next%connections, batch)
	}, readProduced)
}

// produceOne has one request in flight.
func produceOne(t *testing.T, addr, topic string, batch recordbatch.Batch) func(time.Duration) result {
	frame := produceFrame(topic, 0, batch)
	return func(d time.Duration) result {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return result{}
		}
		defer c.Close()
		return during(d, true, len(batch), func() {
			if _, err := c.Write(frame); err != nil {
				t.Error(err)
			}
			if err := readProduced(c); err != nil {
				t.Error(err)
			}
		})
	}
}

// fetch reads the partitions through the socket from their beginnings, one connection each, and begins again at the end.
func fetch(t *testing.T, addr, topic string) func(time.Duration) result {
	return func(d time.Duration) result {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var sum result
		begin := time.Now()
		for p := range int32(connections) {
			wg.Go(func() {
				n, ops, err := fetchPartition(addr, topic, p, func() bool { return time.Since(begin) < d })
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				sum.bytes, sum.ops = sum.bytes+n, sum.ops+ops
			})
		}
		wg.Wait()
		sum.elapsed = time.Since(begin)
		return sum
	}
}

func fetchPartition(addr, topic string, p int32, more func() bool) (n, ops int64, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	formatter := kmsg.NewRequestFormatter()
	for offset := int64(0); more(); ops++ {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = fetchVersion, 0, 1, 1<<20, -1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, 1<<20
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		if _, err := c.Write(formatter.AppendRequest(nil, req, 1)); err != nil {
			return n, ops, err
		}
		body, err := readFrame(c)
		if err != nil {
			return n, ops, err
		}
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = fetchVersion
		if err := resp.ReadFrom(body[4:]); err != nil {
			return n, ops, err
		}
		got := resp.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return n, ops, fmt.Errorf("fetch %s-%d at %d: %w", topic, p, offset, err)
		}
		n += int64(len(got.RecordBatches))
		if next := after(got.RecordBatches); next > offset {
			offset = next
		} else {
			offset = 0
		}
	}
	return n, ops, nil
}

// after returns the offset that follows the last whole batch, or -1 without one.
func after(b []byte) int64 {
	next := int64(-1)
	for {
		batch, rest, err := recordbatch.Next(b)
		if err != nil || len(bytes.TrimSpace(b)) == 0 {
			return next
		}
		next, b = batch.NextOffset(), rest
	}
}

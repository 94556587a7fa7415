package kafkaapi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/codec"
	"github.com/headpond/headpond/internal/topicconfig"
	"github.com/headpond/headpond/kafkaapi"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/walbackends/memwal"
)

// hang is when a test gives up on something that should have happened; nothing else depends on it.
const hang = time.Minute

// broker is a server on an engine in memory.
type broker struct {
	t       testing.TB
	disk    *memwal.Disk
	store   *moodyStore
	engine  *engine.Engine
	server  *kafkaapi.Server
	address string
}

// settings are broker settings in Kafka's names, set for the test.
type settings map[string]string

func start(t testing.TB, set settings, change func(*kafkaapi.Options)) *broker {
	t.Helper()
	return startOn(t, memwal.Options{Capacity: 64 << 20}, set, change)
}

// startOn starts a broker with a log of its own making.
func startOn(t testing.TB, log memwal.Options, set settings, change func(*kafkaapi.Options)) *broker {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	disk, store := memwal.New(log), &moodyStore{ObjectStore: new(memobj.Bucket).Open()}
	e, err := engine.Open(context.Background(), engine.Options{
		OpenWAL: disk.Open, WALURL: "mem:", Store: store, HoldFull: 50 * time.Millisecond,
		Index: index.NewMem(), Batches: batchReader{}, Logger: quiet, Memory: 32 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	all := settings{topicconfig.GroupInitialRebalanceMs: "0"}
	for k, v := range set {
		all[k] = v
	}
	settings, err := topicconfig.NewBroker(all)
	if err != nil {
		t.Fatal(err)
	}
	o := kafkaapi.Options{Broker: settings, Logger: quiet}
	if change != nil {
		change(&o)
	}
	s, err := kafkaapi.NewServer(e, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-served; err != nil {
			t.Error("serve:", err)
		}
		if err := e.Close(ctx); err != nil {
			t.Error("close:", err)
		}
		if !s.Whole() {
			t.Error("memory for requests or responses was not given back")
		}
	})
	return &broker{t, disk, store, e, s, l.Addr().String()}
}

// moodyStore is a store that can be away.
type moodyStore struct {
	engine.ObjectStore
	away atomic.Bool
}

func (m *moodyStore) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if m.away.Load() {
		return engine.ErrUnavailable
	}
	return m.ObjectStore.Put(ctx, name, r, size)
}

func (m *moodyStore) Create(ctx context.Context, name string, data []byte) error {
	if m.away.Load() {
		return engine.ErrUnavailable
	}
	return m.ObjectStore.Create(ctx, name, data)
}

// batchReader looks into batches for the engine.
type batchReader struct{}

func (batchReader) FindTime(b []byte, ts int64) (int64, int64, bool, error) {
	return recordbatch.Batch(b).FirstAtOrAfter(ts, codec.Decompressor{}, 64<<20)
}

func (b *broker) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *broker) client(o ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.address), kgo.RetryTimeout(hang)}, o...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

func (b *broker) topic(name string, partitions int32, config map[string]string) *engine.Topic {
	b.t.Helper()
	t, err := b.engine.CreateTopic(b.ctx(), name, engine.TopicChange{Partitions: partitions, Config: config})
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// append writes a batch past the server.
func (b *broker) append(topic *engine.Topic, partition int32, batch recordbatch.Batch) {
	b.t.Helper()
	p, err := b.engine.Partition(engine.PartitionID{Topic: topic.ID, Partition: partition})
	if err != nil {
		b.t.Fatal(err)
	}
	buf := buffer.Get(len(batch))
	defer buf.Release()
	copy(buf.Bytes(), batch)
	done := make(chan error, 1)
	if err := p.Append(b.ctx(), engine.Batch{Data: buf.Bytes(), Buffer: buf}, func(a engine.Appended) { done <- a.Err }); err != nil {
		b.t.Fatal(err)
	}
	if err := <-done; err != nil {
		b.t.Fatal(err)
	}
}

// wire is a connection on which a test speaks the protocol itself.
type wire struct {
	t testing.TB
	*net.TCPConn
	correlation int32
}

func (b *broker) dial() *wire {
	b.t.Helper()
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(hang))
	b.t.Cleanup(func() { c.Close() })
	return &wire{t: b.t, TCPConn: c.(*net.TCPConn)}
}

// send sends a request and returns its correlation id.
func (w *wire) send(req kmsg.Request) int32 {
	w.t.Helper()
	w.correlation++
	if _, err := w.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, w.correlation)); err != nil {
		w.t.Fatal(err)
	}
	return w.correlation
}

// receive reads the next response, which must be to this request.
func (w *wire) receive(req kmsg.Request, correlation int32) kmsg.Response {
	w.t.Helper()
	b, err := w.frame()
	if err != nil {
		w.t.Fatalf("key %d version %d: no response: %v", req.Key(), req.GetVersion(), err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		w.t.Fatalf("key %d version %d: response %d, want %d", req.Key(), req.GetVersion(), got, correlation)
	}
	b = b[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		if b[0] != 0 {
			w.t.Fatalf("key %d version %d: the response header has tagged fields", req.Key(), req.GetVersion())
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		w.t.Fatalf("key %d version %d: %v", req.Key(), req.GetVersion(), err)
	}
	if !bytes.Equal(resp.AppendTo(nil), b) {
		w.t.Errorf("key %d version %d: the response is %x, its content %x", req.Key(), req.GetVersion(), b, resp.AppendTo(nil))
	}
	return resp
}

func (w *wire) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(w, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(w, b)
	return b, err
}

// ask sends a request and returns its response.
func ask[R kmsg.Response](w *wire, version int16, req kmsg.Request) R {
	w.t.Helper()
	req.SetVersion(version)
	return w.receive(req, w.send(req)).(R)
}

// closed checks that the broker closes the connection without another word.
func (w *wire) closed() {
	w.t.Helper()
	b, err := io.ReadAll(w)
	if len(b) > 0 || errors.Is(err, context.DeadlineExceeded) || err != nil && isTimeout(err) {
		w.t.Errorf("the connection is not closed: %d bytes, %v", len(b), err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

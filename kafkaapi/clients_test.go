package kafkaapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRecordsComeBackAsTheyWereSent(t *testing.T) {
	b := start(t, nil, nil)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			records := []*kgo.Record{
				{Key: nil, Value: nil},
				{Key: []byte{}, Value: []byte{}},
				{Key: []byte("key"), Value: bytes.Repeat([]byte("value "), 1000), Headers: []kgo.RecordHeader{
					{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}},
				}},
				{Value: make([]byte, 1_000_000)},
			}
			rand.NewChaCha8([32]byte{}).Read(records[3].Value)
			for i := range 500 {
				records = append(records, &kgo.Record{Value: fmt.Append(nil, "record ", i)})
			}
			topic := "records-" + name
			p := b.client(kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(1<<20))
			sent := make([]kgo.Record, len(records))
			if err := p.ProduceSync(b.ctx(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			for i, r := range records {
				sent[i] = *r
			}
			c := b.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			var got []*kgo.Record
			for len(got) < len(sent) {
				f := c.PollFetches(b.ctx())
				if err := f.Err(); err != nil {
					t.Fatal(err)
				}
				got = append(got, f.Records()...)
			}
			for i, want := range sent {
				r := got[i]
				if r.Offset != int64(i) || !bytes.Equal(r.Key, want.Key) || (r.Key == nil) != (want.Key == nil) ||
					!bytes.Equal(r.Value, want.Value) || (r.Value == nil) != (want.Value == nil) ||
					r.Timestamp.UnixMilli() != want.Timestamp.UnixMilli() || len(r.Headers) != len(want.Headers) {
					t.Fatalf("record %d at offset %d differs", i, r.Offset)
				}
				for j := range want.Headers {
					if r.Headers[j].Key != want.Headers[j].Key || !bytes.Equal(r.Headers[j].Value, want.Headers[j].Value) {
						t.Errorf("header %d of record %d: %v, want %v", j, i, r.Headers[j], want.Headers[j])
					}
				}
			}
		})
	}
}

func TestManyPartitionsThroughManyClients(t *testing.T) {
	b := start(t, nil, nil)
	const partitions, producers, each = 20, 4, 500
	b.topic("many", partitions, nil)
	done := make(chan error, producers)
	for n := range producers {
		c := b.client(kgo.DefaultProduceTopic("many"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		go func() {
			for i := range each {
				c.Produce(b.ctx(), &kgo.Record{Partition: int32(i % partitions), Key: fmt.Append(nil, n), Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
					if err != nil {
						select {
						case done <- err:
						default:
						}
					}
				})
			}
			done <- c.Flush(b.ctx())
		}()
	}
	for range producers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	c := b.client(kgo.ConsumeTopics("many"), kgo.ConsumerGroup("group"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	last := make(map[string]int)
	for n := 0; n < producers*each; {
		f := c.PollFetches(b.ctx())
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			n++
			from := fmt.Sprint(string(r.Key), "/", r.Partition)
			var i int
			fmt.Sscan(string(r.Value), &i)
			if before, ok := last[from]; ok && i <= before {
				t.Errorf("%s: %d after %d", from, i, before)
			}
			last[from] = i
		})
	}
	if err := c.CommitUncommittedOffsets(b.ctx()); err != nil {
		t.Error("commit:", err)
	}
}

func TestTransactionalClientGetsAClearFinalError(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 1, nil)
	c := b.client(kgo.TransactionalID("id"), kgo.DefaultProduceTopic("t"))
	err := c.BeginTransaction()
	if err == nil {
		err = c.ProduceSync(b.ctx(), kgo.StringRecord("x")).FirstErr()
	}
	if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) && !strings.Contains(fmt.Sprint(err), "not support") {
		t.Errorf("error is %v", err)
	}
}

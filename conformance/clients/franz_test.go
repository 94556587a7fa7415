package clients

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/load"
)

type franz struct{}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (franz) produce(t *testing.T, addr, topic, codec string, maxBytes int, records []record) {
	t.Helper()
	cl, err := load.Client(addr, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(franzCodecs[codec]), kgo.ProducerBatchMaxBytes(int32(maxBytes)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i, r := range records {
		kr := &kgo.Record{Topic: topic, Key: r.key, Value: r.value, Timestamp: r.time}
		for _, h := range r.headers {
			kr.Headers = append(kr.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
		if err := cl.ProduceSync(deadline(t), kr).FirstErr(); err != nil {
			t.Fatalf("produce record %d: %v", i, err)
		}
	}
}

func (franz) consume(t *testing.T, addr, topic string, n int) []record {
	t.Helper()
	cl, err := load.Client(addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var out []record
	for ctx := deadline(t); len(out) < n; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", len(out), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			rec := record{key: r.Key, value: r.Value, time: r.Timestamp}
			for _, h := range r.Headers {
				rec.headers = append(rec.headers, header{h.Key, h.Value})
			}
			out = append(out, rec)
		})
	}
	return out
}

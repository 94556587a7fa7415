package clients

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct{}

func saramaConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	c.Metadata.Retry.Max, c.Metadata.Retry.Backoff = 100, 100*time.Millisecond
	c.Producer.Retry.Max, c.Producer.Retry.Backoff = 1000, 100*time.Millisecond
	c.Producer.Return.Successes, c.Consumer.Return.Errors = true, true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	c.Producer.Partitioner = sarama.NewManualPartitioner
	return c
}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func encoder(b []byte) sarama.Encoder {
	if b == nil {
		return nil
	}
	return sarama.ByteEncoder(b)
}

func (saramaClient) produce(t *testing.T, addr, topic, codec string, maxBytes int, records []record) {
	t.Helper()
	c := saramaConfig()
	c.Producer.Compression, c.Producer.MaxMessageBytes = saramaCodecs[codec], maxBytes
	p, err := sarama.NewSyncProducer([]string{addr}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, r := range records {
		m := &sarama.ProducerMessage{Topic: topic, Key: encoder(r.key), Value: encoder(r.value), Timestamp: r.time}
		for _, h := range r.headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.name), Value: h.value})
		}
		if _, _, err := p.SendMessage(m); err != nil {
			t.Fatalf("produce record %d: %v", i, err)
		}
	}
}

func (saramaClient) consume(t *testing.T, addr, topic string, n int) []record {
	t.Helper()
	c, err := sarama.NewConsumer([]string{addr}, saramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pc, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	var out []record
	for ctx := deadline(t); len(out) < n; {
		select {
		case m := <-pc.Messages():
			rec := record{key: m.Key, value: m.Value, time: m.Timestamp}
			for _, h := range m.Headers {
				rec.headers = append(rec.headers, header{string(h.Key), h.Value})
			}
			out = append(out, rec)
		case err := <-pc.Errors():
			t.Fatalf("after %d records: %v", len(out), err)
		case <-ctx.Done():
			t.Fatalf("after %d of %d records: %v", len(out), n, ctx.Err())
		}
	}
	return out
}

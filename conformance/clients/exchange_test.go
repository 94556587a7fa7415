package clients

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/load"
)

// defaultLimit is Kafka's default of max.message.bytes.
const defaultLimit = 1_048_588

// What each family writes in each codec, every family reads: null and empty keys and values, headers, times, and values
// of up to 1,000,000 bytes.
func TestEveryClientReadsWhatEveryClientWrites(t *testing.T) {
	addr := anyBroker(t)
	records := corpus(rand.New(rand.NewPCG(1, 2)))
	for _, writer := range families {
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			t.Run(writer.name+"/"+codec, func(t *testing.T) {
				topic := newTopic(t, addr, 1)
				want := records
				if writer.name == "kcat" {
					want = withoutWhatKcatCannotWrite(records)
				}
				writer.make(t).produce(t, addr, topic, codec, defaultLimit, want)
				for _, reader := range families {
					t.Run("to "+reader.name, func(t *testing.T) {
						sameRecords(t, want, reader.make(t).consume(t, addr, topic, len(want)))
					})
				}
			})
		}
	}
}

// withoutWhatKcatCannotWrite leaves out times, and empty keys and values, which kcat makes null.
func withoutWhatKcatCannotWrite(records []record) []record {
	var out []record
	for _, r := range records {
		r.time = time.Time{}
		if (r.key == nil || len(r.key) > 0) && (r.value == nil || len(r.value) > 0) {
			out = append(out, r)
		}
	}
	return out
}

// With the topic's limit raised, records of 8 MiB go through every client; without, they are refused as too large.
func TestRecordsOfEightMiBNeedARaisedLimit(t *testing.T) {
	addr := anyBroker(t)
	const limit = 8<<20 + 64<<10
	value := make([]byte, 8<<20)
	for i, rng := 0, rand.New(rand.NewPCG(1, 3)); i < len(value); i++ {
		value[i] = byte(rng.Uint32())
	}
	want := []record{{key: []byte("k"), value: value}, {value: []byte("after it")}}
	for _, writer := range families {
		t.Run(writer.name, func(t *testing.T) {
			topic := newTopic(t, addr, 1, "max.message.bytes=8454144")
			writer.make(t).produce(t, addr, topic, "none", limit, want)
			for _, reader := range families {
				t.Run("to "+reader.name, func(t *testing.T) {
					sameRecords(t, want, reader.make(t).consume(t, addr, topic, len(want)))
				})
			}
		})
	}
	t.Run("refused by default", func(t *testing.T) {
		topic := newTopic(t, addr, 1)
		cl, err := load.Client(addr, kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(limit))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		err = cl.ProduceSync(deadline(t), &kgo.Record{Topic: topic, Value: value}).FirstErr()
		if !errors.Is(err, kerr.MessageTooLarge) {
			t.Fatalf("want MESSAGE_TOO_LARGE, got %v", err)
		}
		// The connection and the partition live on.
		franz{}.produce(t, addr, topic, "none", defaultLimit, want[1:])
		sameRecords(t, want[1:], franz{}.consume(t, addr, topic, 1))
	})
}

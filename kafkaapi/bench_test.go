package kafkaapi_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

// BenchmarkProduce sends batches through the socket, as many in flight as clients usually have.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			broker := start(b, settings{"log.retention.bytes": "1048576"}, nil)
			broker.topic("t", 1, nil)
			w := broker.dial()
			req := produceRequest("t", 0, recordbatchtest.Values(1_700_000_000_000, string(make([]byte, size))))
			req.SetVersion(9)
			frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			room := make(chan struct{}, 5)
			go func() {
				for range b.N {
					room <- struct{}{}
					w.Write(frame)
				}
			}()
			for range b.N {
				if _, err := w.frame(); err != nil {
					b.Fatal(err)
				}
				<-room
			}
		})
	}
}

// BenchmarkFetch reads recent batches through the socket.
func BenchmarkFetch(b *testing.B) {
	broker := start(b, nil, nil)
	topic := broker.topic("t", 1, nil)
	const n, size = 16, 64 << 10
	var batch recordbatch.Batch
	for range n {
		batch = recordbatchtest.Values(1_700_000_000_000, string(make([]byte, size)))
		broker.append(topic, 0, batch)
	}
	w := broker.dial()
	req := fetch(topic, forever, at(0, 0))
	req.SetVersion(11)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
	b.SetBytes(int64(n * len(batch)))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		w.Write(frame)
		if _, err := w.frame(); err != nil {
			b.Fatal(err)
		}
	}
}

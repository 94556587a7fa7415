package kafkaapi_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/kafkaapi"
)

// FuzzRequests sends bytes as a client might: whatever they are, nothing panics, the connection ends, and the broker
// serves the next client.
func FuzzRequests(f *testing.F) {
	var panics atomic.Int32
	b := start(f, settings{"auto.create.topics.enable": "false", "socket.request.max.bytes": "100000", "num.partitions": "1"}, func(o *kafkaapi.Options) {
		o.FetchWait = time.Millisecond
		o.Events = &kafkaapi.Events{Refused: func(reason string) {
			if reason == "panic" {
				panics.Add(1)
			}
		}}
	})
	topic := b.topic("t", 1, nil)
	requests := usual(topic)
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	kafkaapi.Served(func(key kmsg.Key, version int16) {
		req := requests[key]
		if req == nil {
			req = key.Request()
		}
		req.SetVersion(version)
		one := format.AppendRequest(nil, req, 1)
		f.Add(one)
		f.Add(one[:len(one)-1])
		f.Add(append(one, one...))
	})
	f.Add(size(0xffffffff))
	f.Add(frame(18, 99))

	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Skip("no connection:", err) // the fuzzer is out of ports
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(hang))
		c.Write(in)
		c.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Error("the connection does not end")
		}
		if panics.Load() > 0 {
			t.Error("a request panicked")
		}
		for _, made := range b.engine.Topics() {
			if made.Name != topic.Name {
				b.engine.DeleteTopic(b.ctx(), made)
			}
		}
	})
}

package kafkaapi_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
	"github.com/headpond/headpond/kafkaapi"
)

// frame is a request as bytes: the length, a header without a client id, and a body.
func frame(key, version uint16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(10+len(body)))
	b = binary.BigEndian.AppendUint16(b, key)
	b = binary.BigEndian.AppendUint16(b, version)
	b = append(b, 0, 0, 0, 1, 0xff, 0xff)
	return append(b, body...)
}

func size(n uint32, more ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, n), more...)
}

func TestMalformedRequestsCloseTheConnection(t *testing.T) {
	b := start(t, settings{"socket.request.max.bytes": "1000000"}, nil)
	b.topic("t", 1, nil)
	other := b.dial()
	manyTags := append([]byte{0xc0, 0x84, 0x3d}, make([]byte, 200)...) // a million tagged fields
	for what, bytes := range map[string][]byte{
		"no length":                     size(0),
		"shorter than a header":         size(9, make([]byte, 9)...),
		"negative length":               size(math.MaxUint32),
		"2 GiB":                         size(math.MaxInt32),
		"above the limit":               size(1_000_001),
		"client id cut short":           append(size(10, 0, 3, 0, 5, 0, 0, 0, 1), 0, 100),
		"client id of negative length":  append(size(10, 0, 3, 0, 5, 0, 0, 0, 1), 0xff, 0xfe),
		"body missing":                  frame(3, 5),
		"array of 2^31-1":               frame(3, 5, 0x7f, 0xff, 0xff, 0xff),
		"array of 2^31-1, compact":      frame(3, 9, 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"a million tags in the header":  frame(3, 9, manyTags...),
		"a million tags in the body":    frame(18, 3, append([]byte{0, 2, 'a', 2, 'a'}, manyTags...)...),
		"overlong varint":               frame(3, 9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"many partitions that are none": frame(0, 7, append([]byte{0xff, 0xff, 0, 1, 0, 0, 0, 1, 0x00, 0x0f, 0xff, 0xff}, make([]byte, 500_000)...)...),
	} {
		w := b.dial()
		w.Write(bytes)
		w.CloseWrite()
		t.Run(what, func(t *testing.T) {
			w.t = t
			w.closed()
		})
	}
	if got := ask[*kmsg.MetadataResponse](other, 5, &kmsg.MetadataRequest{}); len(got.Topics) != 1 {
		t.Errorf("another client: %+v", got)
	}
}

func TestPanicEndsItsConnectionOnly(t *testing.T) {
	kafkaapi.ServePanic(true)
	defer kafkaapi.ServePanic(false)
	b := start(t, nil, nil)
	other, w := b.dial(), b.dial()
	w.Write(frame(kafkaapi.PanicKey, 0))
	w.closed()
	ask[*kmsg.MetadataResponse](other, 5, &kmsg.MetadataRequest{})
}

func TestSilentClientsAreClosed(t *testing.T) {
	b := start(t, settings{"connections.max.idle.ms": "1000"}, func(o *kafkaapi.Options) {
		o.FirstRequest, o.StallTimeout = 50*time.Millisecond, 50*time.Millisecond
	})
	b.topic("t", 1, nil)
	for what, bytes := range map[string][]byte{
		"nothing":           nil,
		"half a length":     {0, 0},
		"part of a request": size(1000, 0, 3, 0, 5),
	} {
		t.Run(what+" as the first request", func(t *testing.T) {
			w := b.dial()
			w.Write(bytes)
			w.t = t
			w.closed()
		})
	}
	for what, bytes := range map[string][]byte{
		"nothing":                 nil,
		"part of a request":       size(1000, 0, 3, 0, 5),
		"part of a large request": append(size(10_000, 0, 0, 0, 5), make([]byte, 5000)...),
	} {
		t.Run(what+" as the second request", func(t *testing.T) {
			w := b.dial()
			w.t = t
			if _, err := w.Write(frame(18, 0)); err != nil {
				t.Fatal(err)
			}
			if _, err := w.frame(); err != nil {
				return // the machine is so busy that the first request came late
			}
			w.Write(bytes)
			w.closed()
		})
	}
}

func TestClientThatTakesNoResponsesIsClosed(t *testing.T) {
	b := start(t, nil, func(o *kafkaapi.Options) { o.StallTimeout = 50 * time.Millisecond })
	topic := b.topic("t", 1, nil)
	b.append(topic, 0, recordbatchtest.Values(0, string(make([]byte, 60_000))))
	w := b.dial()
	req := fetch(topic, forever, at(0, 0))
	req.SetVersion(11)
	request := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
	for {
		if _, err := w.Write(request); err != nil {
			break // closed
		}
	}
	// Another client is served. It tries again, since a busy machine may stall it, too.
	for {
		w := b.dial()
		w.Write(request)
		if _, err := w.frame(); err == nil {
			break
		}
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	for _, set := range []settings{{"max.connections": "2"}, {"max.connections.per.ip": "2"}} {
		b := start(t, set, nil)
		first, second := b.dial(), b.dial()
		ask[*kmsg.MetadataResponse](first, 5, &kmsg.MetadataRequest{})
		ask[*kmsg.MetadataResponse](second, 5, &kmsg.MetadataRequest{})
		b.dial().closed()
		first.Close()
		for { // until the server has seen the end of the first
			w := b.dial()
			w.Write(frame(18, 0))
			if _, err := w.frame(); err == nil {
				break
			}
			w.Close()
		}
		ask[*kmsg.MetadataResponse](second, 5, &kmsg.MetadataRequest{})
	}
}

// Requests that together are larger than the memory for them pass one after the other.
func TestLargeRequestsPassASmallBudget(t *testing.T) {
	b := start(t, settings{"message.max.bytes": "8388608"}, func(o *kafkaapi.Options) { o.RequestMemory = 1 << 20 })
	b.topic("t", 1, nil)
	batch := recordbatchtest.Values(0, string(make([]byte, 3<<20)))
	done := make(chan *kmsg.ProduceResponse, 4)
	for range cap(done) {
		w := b.dial()
		go func() { done <- ask[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, batch)) }()
	}
	for range cap(done) {
		if p := (<-done).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("%+v", p)
		}
	}
}

func TestShutdownAnswersWhatWaits(t *testing.T) {
	b := start(t, settings{"group.initial.rebalance.delay.ms": "3600000"}, nil)
	topic := b.topic("t", 1, nil)
	poll, join, idle := b.dial(), b.dial(), b.dial()
	fetched := fetch(topic, forever, at(0, 0))
	fetched.SetVersion(11)
	joined := kmsg.NewPtrJoinGroupRequest()
	joined.Group, joined.SessionTimeoutMillis, joined.RebalanceTimeoutMillis, joined.ProtocolType = "g", 60_000, 60_000, "consumer"
	joined.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	joined.SetVersion(3)
	// The response before shows that the connection is served.
	ask[*kmsg.MetadataResponse](poll, 5, &kmsg.MetadataRequest{})
	polled, joining := poll.send(fetched), join.send(joined)
	for {
		groups := ask[*kmsg.ListGroupsResponse](idle, 4, &kmsg.ListGroupsRequest{})
		if len(groups.Groups) == 1 && groups.Groups[0].GroupState == "PreparingRebalance" {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := b.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if resp := join.receive(joined, joining).(*kmsg.JoinGroupResponse); resp.ErrorCode == 0 {
		t.Errorf("member that joined: %+v", resp)
	}
	// The fetch came before the end, or did not: both are proper, what is not is silence while the connection stays.
	if b, err := poll.frame(); err == nil && int32(binary.BigEndian.Uint32(b)) != polled {
		t.Error("another response than that to the fetch")
	}
	poll.closed()
	join.closed()
	idle.closed()
}

func TestShutdownEndsInTimeWhateverIsInFlight(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 1, nil)
	release := b.disk.Stall()
	defer release()
	w := b.dial()
	req := produceRequest("t", 0, recordbatchtest.Values(0, "a"))
	req.TimeoutMillis = forever
	req.SetVersion(9)
	for range 300 { // more than are in flight at once
		w.send(req)
	}
	for !b.server.Producing() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := b.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("shutdown:", err)
	}
	w.closed()
}

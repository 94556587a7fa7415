package kafkaapi

import (
	"bytes"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

// encodeFetch returns the bytes that a fetch response has on the wire.
func encodeFetch(t *testing.T, version int16, isolation int8, s *fetchSession) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	c := newConn(&Server{ev: (*Events)(nil).withDefaults(), o: Options{StallTimeout: 1 << 40}, ctx: t.Context()}, ours, "test")
	c.poll.req.IsolationLevel = isolation
	r := &request{c: c, api: apis.find(1), version: version, correlation: 77}
	done := make(chan error, 1)
	go func() {
		done <- c.poll.encoder.write(r, s)
		ours.Close()
	}()
	var got bytes.Buffer
	got.ReadFrom(theirs)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return got.Bytes()
}

func decodeFetch(t *testing.T, version int16, b []byte) *kmsg.FetchResponse {
	t.Helper()
	if len(b) < 8 || int(b[0])<<24|int(b[1])<<16|int(b[2])<<8|int(b[3]) != len(b)-4 || b[7] != 77 {
		t.Fatalf("version %d: bad header in %x", version, b[:min(len(b), 16)])
	}
	b = b[8:]
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(version)
	if resp.IsFlexible() {
		if b[0] != 0 {
			t.Fatalf("version %d: header tags %d", version, b[0])
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("version %d: %v", version, err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		t.Errorf("version %d: the decoded response is encoded differently:\n got %x\nwant %x", version, b, again)
	}
	return resp
}

func TestFetchResponsesAreTheProtocols(t *testing.T) {
	for version := apis.find(1).served; version <= apis.find(1).max; version++ {
		s := newFetchSession(&request{version: version})
		s.id = 42
		none := engine.EpochEnd{Epoch: -1, End: -1}
		for i, name := range []string{"a", "a-longer-name"} {
			topic := &fetchTopic{topicKey: s.key(name, engine.ID{byte(i + 1)})}
			for j := range 2 {
				s.all = append(s.all, &fetchPart{topic: topic, index: int32(j), out: fetchOutcome{diverging: none}})
			}
		}
		s.all[1], s.all[2] = s.all[2], s.all[1] // topics interleave, and must not in the response
		s.all[0].out.batches, s.all[0].out.bytes = [][]byte{[]byte("first"), []byte("second")}, 11
		s.all[0].out.offsets = engine.Offsets{LogStart: 3, HighWatermark: 9, LeaderEpoch: 5}
		s.all[1].out.offsets = engine.Offsets{LogStart: 4, HighWatermark: 4}
		s.all[2].out.code, s.all[2].out.offsets = 1, engine.Offsets{LogStart: -1, HighWatermark: -1}
		s.all[3].out.batches, s.all[3].out.bytes = [][]byte{[]byte("third")}, 5
		if version >= 12 {
			s.all[1].out.diverging = engine.EpochEnd{Epoch: 2, End: 7}
		}
		for isolation := range int8(2) {
			resp := decodeFetch(t, version, encodeFetch(t, version, isolation, s))
			if version >= 7 && resp.SessionID != 42 {
				t.Errorf("version %d: session %d", version, resp.SessionID)
			}
			if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 2 || len(resp.Topics[1].Partitions) != 2 {
				t.Fatalf("version %d: %+v", version, resp)
			}
			first, second := resp.Topics[0], resp.Topics[1]
			if version < 13 && (first.Topic != "a" || second.Topic != "a-longer-name") ||
				version >= 13 && (first.TopicID != [16]byte{1} || second.TopicID != [16]byte{2}) {
				t.Errorf("version %d: topics %q %q", version, first.Topic, second.Topic)
			}
			p := first.Partitions[0]
			if string(p.RecordBatches) != "firstsecond" || p.HighWatermark != 9 || p.LastStableOffset != 9 || version >= 5 && p.LogStartOffset != 3 {
				t.Errorf("version %d: %+v", version, p)
			}
			if (p.AbortedTransactions == nil) != (isolation == 0) {
				t.Errorf("version %d: aborted transactions %v at isolation %d", version, p.AbortedTransactions, isolation)
			}
			p = first.Partitions[1]
			if p.ErrorCode != 1 || p.HighWatermark != -1 || p.RecordBatches == nil || len(p.RecordBatches) > 0 {
				t.Errorf("version %d: %+v", version, p)
			}
			p = second.Partitions[0]
			if version >= 12 && (p.DivergingEpoch.Epoch != 2 || p.DivergingEpoch.EndOffset != 7) {
				t.Errorf("version %d: diverging %+v", version, p.DivergingEpoch)
			}
			if string(second.Partitions[1].RecordBatches) != "third" {
				t.Errorf("version %d: %+v", version, second.Partitions[1])
			}
		}
	}
}

func TestFetchResponseOfAnIdleSessionIsEmpty(t *testing.T) {
	for version := int16(7); version <= apis.find(1).max; version++ {
		s := newFetchSession(&request{version: version})
		s.id, s.fresh = 42, false
		s.all = []*fetchPart{{topic: &fetchTopic{}}}
		resp := decodeFetch(t, version, encodeFetch(t, version, 0, s))
		if resp.SessionID != 42 || resp.ErrorCode != 0 || len(resp.Topics) != 0 {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
}

package kafkaapi_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
	"github.com/headpond/headpond/kafkaapi"
)

const forever = 1_000_000 // ms, for waits that the test ends

// at is a partition of a topic from an offset on.
func at(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	return p
}

// fetch is a request for partitions of one topic.
func fetch(topic *engine.Topic, wait int32, parts ...kmsg.FetchRequestTopicPartition) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = wait, 1, 10<<20
	if len(parts) > 0 {
		req.Topics = []kmsg.FetchRequestTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: parts}}
	}
	return req
}

// inSession makes the request one of a fetch session.
func inSession(req *kmsg.FetchRequest, id, epoch int32) *kmsg.FetchRequest {
	req.SessionID, req.SessionEpoch = id, epoch
	return req
}

// produce writes one batch of one record a value and returns its first offset.
func (b *broker) produce(topic *engine.Topic, partition int32, values ...string) int64 {
	b.t.Helper()
	return b.produceBatch(topic, partition, recordbatchtest.Values(1_700_000_000_000, values...))
}

func (b *broker) produceBatch(topic *engine.Topic, partition int32, batch recordbatch.Batch) int64 {
	b.t.Helper()
	resp := ask[*kmsg.ProduceResponse](b.dial(), 9, produceRequest(topic.Name, partition, batch))
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		b.t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].BaseOffset
}

func produceRequest(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}}}}
	return req
}

// contents are the partitions of a response with their record counts, as "partition:records", or "partition!error".
func contents(t testing.TB, resp *kmsg.FetchResponse) (out []string) {
	t.Helper()
	if resp.ErrorCode != 0 {
		return []string{"!" + kerr.TypedErrorForCode(resp.ErrorCode).Message}
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				out = append(out, fmt.Sprint(p.Partition, "!", kerr.TypedErrorForCode(p.ErrorCode).Message))
				continue
			}
			n := int32(0)
			for rest := p.RecordBatches; len(rest) > 0; {
				batch, more, err := recordbatch.Next(rest)
				if err != nil || batch.Verify() != nil {
					t.Fatalf("partition %d: %v, %v", p.Partition, err, batch.Verify())
				}
				n += batch.Count()
				rest = more
			}
			out = append(out, fmt.Sprint(p.Partition, ":", n))
		}
	}
	return out
}

func wantContents(t testing.TB, what string, resp *kmsg.FetchResponse, want ...string) {
	t.Helper()
	if got := contents(t, resp); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestSessionNamesOnlyWhatIsNew(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 17} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			b := start(t, nil, nil)
			topic := b.topic("t", 3, nil)
			w := b.dial()
			b.produce(topic, 1, "a", "b")
			get := func(req *kmsg.FetchRequest) *kmsg.FetchResponse {
				return ask[*kmsg.FetchResponse](w, version, req)
			}
			full := get(inSession(fetch(topic, forever, at(0, 0), at(1, 0), at(2, 0)), 0, 0))
			wantContents(t, "full fetch", full, "0:0", "1:2", "2:0")
			id := full.SessionID
			if id == 0 {
				t.Fatal("no session")
			}
			wantContents(t, "unchanged: the same again", get(inSession(fetch(topic, forever), id, 1)), "1:2")
			wantContents(t, "nothing new", get(inSession(fetch(topic, 1, at(1, 2)), id, 2)))
			wantContents(t, "still nothing", get(inSession(fetch(topic, 1), id, 3)))
			b.produce(topic, 2, "c")
			wantContents(t, "new records elsewhere", get(inSession(fetch(topic, forever), id, 4)), "2:1")
			forget := inSession(fetch(topic, 1), id, 5)
			forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: []int32{2}}}
			wantContents(t, "forgotten", get(forget))
			b.produce(topic, 2, "d")
			b.produce(topic, 0, "e")
			wantContents(t, "after forgetting", get(inSession(fetch(topic, forever), id, 6)), "0:1")
			wantContents(t, "named again", get(inSession(fetch(topic, forever, at(2, 0), at(0, 1)), id, 7)), "2:2")

			wantContents(t, "epoch used twice", get(inSession(fetch(topic, 1), id, 7)), "!INVALID_FETCH_SESSION_EPOCH")
			wantContents(t, "unknown session", get(inSession(fetch(topic, 1), id+1, 1)), "!FETCH_SESSION_ID_NOT_FOUND")
			if version >= 13 {
				resp := ask[*kmsg.FetchResponse](w, 12, inSession(fetch(topic, 1), id, 8))
				wantContents(t, "topics by name now", resp, "!FETCH_SESSION_TOPIC_ID_ERROR")
			}
			// Another connection goes on with the session.
			resp := ask[*kmsg.FetchResponse](b.dial(), version, inSession(fetch(topic, forever, at(2, 1)), id, 8))
			wantContents(t, "other connection", resp, "2:1")
			resp = get(inSession(fetch(topic, 1, at(1, 0)), id, -1))
			if wantContents(t, "last fetch", resp, "1:2"); resp.SessionID != 0 {
				t.Errorf("session %d after its end", resp.SessionID)
			}
			wantContents(t, "after the end", get(inSession(fetch(topic, 1), id, 9)), "!FETCH_SESSION_ID_NOT_FOUND")
		})
	}
}

func TestParkedFetchIsWokenByWhatConcernsIt(t *testing.T) {
	for _, version := range []int16{4, 11, 17} {
		for _, session := range []bool{false, true} {
			if session && version < 7 {
				continue
			}
			t.Run(fmt.Sprint(version, session), func(t *testing.T) {
				b := start(t, nil, nil)
				topic := b.topic("t", 2, nil)
				w := b.dial()
				req := fetch(topic, forever, at(0, 0), at(1, 0))
				if session {
					first := ask[*kmsg.FetchResponse](w, version, inSession(fetch(topic, 1, at(0, 0), at(1, 0)), 0, 0))
					req = inSession(fetch(topic, forever), first.SessionID, 1)
				}
				req.SetVersion(version)
				id := w.send(req)
				b.produce(topic, 1, "a")
				if session {
					wantContents(t, "records", w.receive(req, id).(*kmsg.FetchResponse), "1:1")
					req = inSession(fetch(topic, forever, at(1, 1)), req.SessionID, 2)
				} else {
					wantContents(t, "records", w.receive(req, id).(*kmsg.FetchResponse), "0:0", "1:1")
					req = fetch(topic, forever, at(0, 0), at(1, 1))
				}
				req.SetVersion(version)
				id = w.send(req)
				if err := b.engine.DeleteTopic(b.ctx(), topic); err != nil {
					t.Fatal(err)
				}
				got := contents(t, w.receive(req, id).(*kmsg.FetchResponse))
				gone := "UNKNOWN_TOPIC_OR_PARTITION"
				if version >= 13 {
					gone = "UNKNOWN_TOPIC_ID"
				}
				if len(got) == 0 || got[0] != "0!"+gone && got[0] != "1!"+gone && got[len(got)-1] != "1!"+gone {
					t.Errorf("after the topic's deletion: %v", got)
				}
			})
		}
	}
}

func TestFetchWaitsForMinBytes(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 2, nil)
	w := b.dial()
	first := ask[*kmsg.FetchResponse](w, 11, inSession(fetch(topic, 1, at(0, 0), at(1, 0)), 0, 0))
	req := inSession(fetch(topic, forever), first.SessionID, 1)
	req.MinBytes = 4 * int32(len(recordbatchtest.Values(0, "a")))
	req.SetVersion(11)
	id := w.send(req)
	for i := range 4 {
		b.produce(topic, int32(i%2), "a")
	}
	resp := w.receive(req, id).(*kmsg.FetchResponse)
	wantContents(t, "enough", resp, "0:2", "1:2")

	// Less than the minimum comes when the time is over.
	req = inSession(fetch(topic, 1, at(0, 2), at(1, 1)), first.SessionID, 2)
	req.MinBytes = 1 << 20
	wantContents(t, "time is over", ask[*kmsg.FetchResponse](w, 11, req), "1:1")
}

func TestFirstBatchIsSentWhateverItsSize(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, nil)
	b.produce(topic, 0, string(make([]byte, 200_000)))
	b.produce(topic, 0, "small")
	req := fetch(topic, forever, at(0, 0))
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 100, 10
	wantContents(t, "first batch", ask[*kmsg.FetchResponse](b.dial(), 11, req), "0:1")
}

func TestPartitionErrorsOfFetch(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, nil)
	b.produce(topic, 0, "a")
	w := b.dial()
	epoch := func(leader, last int32, offset int64) kmsg.FetchRequestTopicPartition {
		p := at(0, offset)
		p.CurrentLeaderEpoch, p.LastFetchedEpoch = leader, last
		return p
	}
	offsets, _ := mustPartition(b, topic, 0).Offsets()
	for _, c := range []struct {
		what string
		req  *kmsg.FetchRequest
		want string
	}{
		{"beyond the end", fetch(topic, forever, at(0, 2)), "0!OFFSET_OUT_OF_RANGE"},
		{"negative offset", fetch(topic, forever, at(0, -1)), "0!OFFSET_OUT_OF_RANGE"},
		{"no such partition", fetch(topic, forever, at(1, 0)), "1!UNKNOWN_TOPIC_OR_PARTITION"},
		{"negative partition", fetch(topic, forever, at(-1, 0)), "-1!UNKNOWN_TOPIC_OR_PARTITION"},
		{"no such topic", fetch(&engine.Topic{Name: "other"}, forever, at(0, 0)), "0!UNKNOWN_TOPIC_OR_PARTITION"},
		{"leader epoch too new", fetch(topic, forever, epoch(offsets.LeaderEpoch+1, -1, 0)), "0!UNKNOWN_LEADER_EPOCH"},
		{"leader epoch is current", fetch(topic, forever, epoch(offsets.LeaderEpoch, offsets.LeaderEpoch, 0)), "0:1"},
	} {
		wantContents(t, c.what, ask[*kmsg.FetchResponse](w, 12, c.req), c.want)
	}
	wantContents(t, "no such id", ask[*kmsg.FetchResponse](w, 13, fetch(&engine.Topic{ID: engine.ID{1}}, forever, at(0, 0))), "0!UNKNOWN_TOPIC_ID")
	replica := fetch(topic, 1, at(0, 0))
	replica.ReplicaID = 2
	wantContents(t, "a replica", ask[*kmsg.FetchResponse](w, 12, replica), "!INVALID_REQUEST")
	replica = fetch(topic, 1, at(0, 0))
	replica.ReplicaState.ID = 2
	wantContents(t, "a replica by its tag", ask[*kmsg.FetchResponse](w, 15, replica), "!INVALID_REQUEST")
}

func mustPartition(b *broker, t *engine.Topic, n int32) *engine.Partition {
	b.t.Helper()
	p, err := b.engine.Partition(engine.PartitionID{Topic: t.ID, Partition: n})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// A response that cannot hold everything must not serve the same partitions for ever.
func TestEachPartitionGetsItsTurn(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 4, nil)
	big := string(make([]byte, 50_000))
	for i := range int32(4) {
		for range 3 {
			b.produce(topic, i, big)
		}
	}
	w := b.dial()
	first := fetch(topic, forever, at(0, 0), at(1, 0), at(2, 0), at(3, 0))
	first.MaxBytes = 10_000
	resp := ask[*kmsg.FetchResponse](w, 11, inSession(first, 0, 0))
	got := map[int32]int{}
	for epoch := int32(1); ; epoch++ {
		var next []kmsg.FetchRequestTopicPartition
		for _, p := range resp.Topics[0].Partitions {
			if len(p.RecordBatches) > 0 {
				got[p.Partition]++
				next = append(next, at(p.Partition, int64(got[p.Partition])))
			}
		}
		if epoch == 5 {
			break
		}
		req := fetch(topic, forever, next...)
		req.MaxBytes = 10_000
		resp = ask[*kmsg.FetchResponse](w, 11, inSession(req, resp.SessionID, epoch))
	}
	if len(got) != 4 {
		t.Errorf("batches by partition after five responses: %v", got)
	}
}

func TestNoSessionBeyondTheLimit(t *testing.T) {
	b := start(t, settings{"max.incremental.fetch.session.cache.slots": "1"}, nil)
	topic := b.topic("t", 1, nil)
	for i, want := range []bool{true, false} {
		resp := ask[*kmsg.FetchResponse](b.dial(), 11, inSession(fetch(topic, 1, at(0, 0)), 0, 0))
		if (resp.SessionID != 0) != want {
			t.Errorf("session %d of 1: id %d", i+1, resp.SessionID)
		}
	}
}

// An idle consumer costs a read, a wait and a write: no memory in proportion to its partitions.
func TestIdlePollTakesLittleMemory(t *testing.T) {
	b := start(t, nil, nil)
	const partitions = 500
	topic := b.topic("t", partitions, nil)
	w := b.dial()
	parts := make([]kmsg.FetchRequestTopicPartition, partitions)
	for i := range parts {
		parts[i] = at(int32(i), 0)
	}
	resp := ask[*kmsg.FetchResponse](w, 12, inSession(fetch(topic, 1, parts...), 0, 0))
	polls := idlePolls(w, topic, resp.SessionID, 12, 300)
	if n := testing.AllocsPerRun(200, polls); n > 20 {
		t.Errorf("an idle poll allocates %v times", n)
	}
}

// idlePolls returns a function that does one poll of a session in which nothing happens, at most n times. It allocates
// nothing itself.
func idlePolls(w *wire, topic *engine.Topic, session int32, version int16, n int) func() {
	var frames [][]byte
	for i := range n {
		req := inSession(fetch(topic, 1), session, int32(i+1))
		req.SetVersion(version)
		frames = append(frames, kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 1))
	}
	answer := make([]byte, 256)
	return func() {
		if _, err := w.Write(frames[0]); err != nil {
			w.t.Fatal(err)
		}
		frames = frames[1:]
		if _, err := w.Read(answer); err != nil {
			w.t.Fatal(err)
		}
	}
}

func BenchmarkIdlePoll(b *testing.B) {
	broker := start(b, nil, func(o *kafkaapi.Options) {})
	topic := broker.topic("t", 1000, nil)
	w := broker.dial()
	parts := make([]kmsg.FetchRequestTopicPartition, topic.Partitions)
	for i := range parts {
		parts[i] = at(int32(i), 0)
	}
	resp := ask[*kmsg.FetchResponse](w, 12, inSession(fetch(topic, 1, parts...), 0, 0))
	poll := idlePolls(w, topic, resp.SessionID, 12, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		poll()
	}
}

package kafkaapi_test

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

func TestBadBatchesAreRefusedAlone(t *testing.T) {
	b := start(t, settings{"message.max.bytes": "100000"}, nil)
	b.topic("t", 1, nil)
	b.topic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	b.topic("early", 1, map[string]string{"message.timestamp.before.max.ms": "1000"})
	good := func() recordbatch.Batch { return recordbatchtest.Values(1_700_000_000_000, "a", "b") }
	edit := func(f func(recordbatch.Batch)) []byte {
		batch := good()
		f(batch)
		return recordbatchtest.Seal(batch)
	}
	flipped := good()
	flipped[len(flipped)-1] ^= 1
	const farFuture = 4_000_000_000_000
	for _, c := range []struct {
		what    string
		topic   string
		version int16
		records []byte
		want    *kerr.Error
	}{
		{"good", "t", 9, good(), nil},
		{"good, oldest version", "t", 3, good(), nil},
		{"no such topic", "other", 9, good(), kerr.UnknownTopicOrPartition},
		{"flipped bit", "t", 9, flipped, kerr.CorruptMessage},
		{"nothing", "t", 9, nil, kerr.CorruptMessage},
		{"cut short", "t", 9, good()[:len(good())-1], kerr.CorruptMessage},
		{"two batches", "t", 9, append(good(), good()...), kerr.InvalidRecord},
		{"format 1", "t", 9, edit(func(b recordbatch.Batch) { b[16] = 1 }), kerr.InvalidRecord},
		{"count is a lie", "t", 9, edit(func(b recordbatch.Batch) { binary.BigEndian.PutUint32(b[57:], 3) }), kerr.InvalidRecord},
		{"count is negative", "t", 9, edit(func(b recordbatch.Batch) { binary.BigEndian.PutUint32(b[57:], 0xffffffff) }), kerr.InvalidRecord},
		{"control batch", "t", 9, edit(func(b recordbatch.Batch) { b[22] |= 1 << 5 }), kerr.InvalidRecord},
		{"transactional", "t", 9, recordbatchtest.Build(recordbatchtest.Spec{Idempotent: true, ProducerID: 1, Transactional: true}), kerr.InvalidTxnState},
		{"too large", "t", 9, recordbatchtest.Values(0, string(make([]byte, 100_000))), kerr.MessageTooLarge},
		{"zstd in an old version", "t", 6, recordbatchtest.Build(recordbatchtest.Spec{Codec: recordbatch.Zstd}), kerr.UnsupportedCompressionType},
		{"zstd", "t", 7, recordbatchtest.Build(recordbatchtest.Spec{Codec: recordbatch.Zstd}), nil},
		{"from the future", "t", 9, recordbatchtest.Values(farFuture, "a"), kerr.InvalidTimestamp},
		{"from the past", "early", 9, good(), kerr.InvalidTimestamp},
		{"no timestamp", "early", 9, recordbatchtest.Values(-1, "a"), nil},
		{"no key", "compacted", 9, good(), kerr.InvalidRecord},
		{"no key, compressed", "compacted", 9, recordbatchtest.Build(recordbatchtest.Spec{Codec: recordbatch.LZ4}), kerr.InvalidRecord},
		{"no key, a bomb", "compacted", 9, recordbatchtest.Build(recordbatchtest.Spec{Codec: recordbatch.Gzip, Records: []recordbatchtest.Record{{Value: make([]byte, 40<<20)}}}), kerr.MessageTooLarge},
		{"a bomb that nobody looks into", "t", 9, recordbatchtest.Build(recordbatchtest.Spec{Codec: recordbatch.Gzip, Records: []recordbatchtest.Record{{Value: make([]byte, 40<<20)}}}), nil},
		{"key", "compacted", 9, recordbatchtest.Build(recordbatchtest.Spec{Codec: recordbatch.Gzip, Records: []recordbatchtest.Record{{Key: []byte("k")}}}), nil},
	} {
		// A good batch for another partition of the same request must go through.
		req := produceRequest(c.topic, 0, c.records)
		req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: good()}, {Partition: 7, Records: good()}}})
		resp := ask[*kmsg.ProduceResponse](b.dial(), c.version, req)
		p := resp.Topics[0].Partitions[0]
		if err := kerr.TypedErrorForCode(p.ErrorCode); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if c.want != nil && (p.BaseOffset != -1 || c.version >= 8 && (p.ErrorMessage == nil || *p.ErrorMessage == "")) {
			t.Errorf("%s: %+v", c.what, p)
		}
		others := resp.Topics[1].Partitions
		if others[0].ErrorCode != 0 || others[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("%s: beside it %v and %v", c.what, kerr.ErrorForCode(others[0].ErrorCode), kerr.ErrorForCode(others[1].ErrorCode))
		}
	}
}

func TestWholeProduceRequestsThatAreRefused(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 1, nil)
	batch := recordbatchtest.Values(0, "a")
	w := b.dial()
	req := produceRequest("t", 0, batch)
	req.Acks = 2
	if resp := ask[*kmsg.ProduceResponse](w, 9, req); resp.Topics[0].Partitions[0].ErrorCode != kerr.InvalidRequiredAcks.Code {
		t.Errorf("acks=2: %+v", resp.Topics[0].Partitions[0])
	}
	req = produceRequest("t", 0, batch)
	req.TransactionID = kmsg.StringPtr("id")
	if resp := ask[*kmsg.ProduceResponse](w, 9, req); resp.Topics[0].Partitions[0].ErrorCode != kerr.InvalidTxnState.Code {
		t.Errorf("transactional: %+v", resp.Topics[0].Partitions[0])
	}
}

func TestProduceWithoutAcksHasNoResponse(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, nil)
	w := b.dial()
	req := produceRequest("t", 0, recordbatchtest.Values(0, "a"))
	req.Acks = 0
	req.SetVersion(9)
	w.send(req)
	// The next response on the connection is the next request's.
	wantContents(t, "what was sent without acks", ask[*kmsg.FetchResponse](w, 11, fetch(topic, forever, at(0, 0))), "0:1")
	req = produceRequest("t", 0, []byte("no batch"))
	req.Acks = 0
	req.SetVersion(9)
	w.send(req)
	w.closed()
}

func TestPipelinedResponsesComeInOrder(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 1, nil)
	w := b.dial()
	const n = 600 // more than are in flight at once
	var requests []kmsg.Request
	go func() {
		for i := range n {
			switch i % 50 {
			case 17:
				w.send(&kmsg.MetadataRequest{Version: 5})
			default:
				req := produceRequest("t", 0, recordbatchtest.Values(0, "a"))
				req.SetVersion(9)
				w.send(req)
			}
		}
	}()
	for i := range n {
		if i%50 == 17 {
			requests = append(requests, &kmsg.MetadataRequest{Version: 5})
		} else {
			requests = append(requests, &kmsg.ProduceRequest{Version: 9})
		}
	}
	next := int64(0)
	for i, req := range requests {
		resp, ok := w.receive(req, int32(i+1)).(*kmsg.ProduceResponse)
		if !ok {
			continue
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != next {
			t.Fatalf("response %d: %v, offset %d, want %d", i, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset, next)
		}
		next++
	}
}

func TestIdempotentProducer(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 1, nil)
	w := b.dial()
	id := ask[*kmsg.InitProducerIDResponse](w, 4, &kmsg.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1})
	if id.ErrorCode != 0 || id.ProducerID < 0 || id.ProducerEpoch != 0 {
		t.Fatalf("%+v", id)
	}
	send := func(epoch int16, sequence int32) (int64, *kerr.Error) {
		batch := recordbatchtest.Build(recordbatchtest.Spec{Idempotent: true, ProducerID: id.ProducerID, ProducerEpoch: epoch, BaseSequence: sequence})
		p := ask[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, batch)).Topics[0].Partitions[0]
		return p.BaseOffset, kerr.TypedErrorForCode(p.ErrorCode)
	}
	for _, c := range []struct {
		what     string
		epoch    int16
		sequence int32
		offset   int64
		err      *kerr.Error
	}{
		{"first", 0, 0, 0, nil}, {"second", 0, 1, 1, nil}, {"first again", 0, 0, 0, nil}, {"second again", 0, 1, 1, nil},
		{"gap", 0, 3, -1, kerr.OutOfOrderSequenceNumber}, {"third", 0, 2, 2, nil},
		{"next epoch", 1, 0, 3, nil}, {"old epoch", 0, 3, -1, kerr.InvalidProducerEpoch},
	} {
		if offset, err := send(c.epoch, c.sequence); offset != c.offset || err != c.err {
			t.Errorf("%s: offset %d, %v; want %d, %v", c.what, offset, err, c.offset, c.err)
		}
	}
	other := ask[*kmsg.InitProducerIDResponse](w, 4, &kmsg.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1})
	if other.ProducerID == id.ProducerID {
		t.Error("the same producer id twice")
	}
	txn := ask[*kmsg.InitProducerIDResponse](w, 4, &kmsg.InitProducerIDRequest{TransactionalID: kmsg.StringPtr("x"), ProducerID: -1, ProducerEpoch: -1})
	if txn.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("transactional id: %+v", txn)
	}
}

func TestTimeOfTheAppend(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	w := b.dial()
	p := ask[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, recordbatchtest.Values(5, "a"))).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LogAppendTime < 1_700_000_000_000 {
		t.Fatalf("%+v", p)
	}
	resp := ask[*kmsg.FetchResponse](w, 11, fetch(topic, forever, at(0, 0)))
	wantContents(t, "batch", resp, "0:1")
	batch := recordbatch.Batch(resp.Topics[0].Partitions[0].RecordBatches)
	if !batch.LogAppendTime() || batch.MaxTimestamp() != p.LogAppendTime {
		t.Errorf("timestamp %d, the producer was told %d", batch.MaxTimestamp(), p.LogAppendTime)
	}
}

func TestOffsetsByTime(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, nil)
	w := b.dial()
	list := func(version int16, timestamp int64) (offset, ts int64, err *kerr.Error) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = timestamp
		req := kmsg.NewPtrListOffsetsRequest()
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		out := ask[*kmsg.ListOffsetsResponse](w, version, req).Topics[0].Partitions[0]
		return out.Offset, out.Timestamp, kerr.TypedErrorForCode(out.ErrorCode)
	}
	if offset, _, err := list(10, -1); offset != 0 || err != nil {
		t.Errorf("empty partition: latest %d, %v", offset, err)
	}
	if offset, ts, err := list(10, -3); offset != -1 || ts != -1 || err != nil {
		t.Errorf("empty partition: largest timestamp at %d, %d, %v", offset, ts, err)
	}
	for _, ts := range []int64{100, 300, 200, 400, 400} {
		b.produceBatch(topic, 0, recordbatchtest.Build(recordbatchtest.Spec{Records: []recordbatchtest.Record{{Timestamp: ts}, {Timestamp: ts + 10}}}))
	}
	if _, err := mustPartition(b, topic, 0).DeleteRecords(b.ctx(), 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version   int16
		timestamp int64
		offset    int64
		ts        int64
		err       *kerr.Error
	}{
		{1, -1, 10, -1, nil}, {10, -1, 10, -1, nil}, {1, -2, 2, -1, nil}, {8, -4, 2, -1, nil}, {9, -5, -1, -1, nil},
		{7, -3, 7, 410, nil}, {6, -3, -1, -1, kerr.UnsupportedVersion}, {7, -4, -1, -1, kerr.UnsupportedVersion},
		{8, -5, -1, -1, kerr.UnsupportedVersion}, {10, -7, -1, -1, kerr.UnsupportedVersion},
		{10, 0, 2, 300, nil}, {10, 301, 3, 310, nil}, {1, 311, 6, 400, nil}, {10, 411, -1, -1, nil},
	} {
		if offset, ts, err := list(c.version, c.timestamp); offset != c.offset || ts != c.ts || err != c.err {
			t.Errorf("version %d, timestamp %d: offset %d at %d, %v; want %d at %d, %v", c.version, c.timestamp, offset, ts, err, c.offset, c.ts, c.err)
		}
	}
}

package kafkaapi_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
	"github.com/headpond/headpond/kafkaapi"
	"github.com/headpond/headpond/walbackends/memwal"
)

// tryProduce writes one record and returns the error that the client is told.
func tryProduce(w *wire, size int) *kerr.Error {
	w.t.Helper()
	p := ask[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, recordbatchtest.Values(0, string(make([]byte, size))))).Topics[0].Partitions[0]
	return kerr.TypedErrorForCode(p.ErrorCode)
}

func TestUnconfirmedBatchIsAnsweredInTime(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 1, nil)
	w := b.dial()
	release := b.disk.Stall()
	defer release()
	var sent []kmsg.Request
	for _, timeout := range []int32{60_000, 1000, 1} { // an earlier request with more time keeps its place
		req := produceRequest("t", 0, recordbatchtest.Values(0, "a"))
		req.TimeoutMillis = timeout
		req.SetVersion(9)
		if timeout == 60_000 {
			req.TimeoutMillis = 2000
		}
		w.send(req)
		sent = append(sent, req)
	}
	for i, req := range sent {
		p := w.receive(req, int32(i+1)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(p.ErrorCode); err != kerr.RequestTimedOut || p.BaseOffset != -1 {
			t.Errorf("request %d: %v, offset %d", i, err, p.BaseOffset)
		}
	}
	release()
	if err := tryProduce(w, 1); err != nil {
		t.Error("afterwards:", err)
	}
}

func TestFailedLogIsRetriedUntilItIsOpenAgain(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, nil)
	w, reader := b.dial(), b.dial()
	first := ask[*kmsg.FetchResponse](reader, 11, inSession(fetch(topic, 1, at(0, 0)), 0, 0))
	poll := inSession(fetch(topic, forever), first.SessionID, 1)
	poll.SetVersion(11)
	parked := reader.send(poll)
	b.disk.FailNext(errors.New("device error"))
	var told []*kerr.Error
	for {
		err := tryProduce(w, 1)
		if err == nil {
			break
		}
		if len(told) == 0 || told[len(told)-1] != err {
			told = append(told, err)
		}
		if !err.Retriable {
			t.Fatalf("told %v", told)
		}
	}
	if len(told) == 0 || told[0] != kerr.KafkaStorageError {
		t.Errorf("told %v", told)
	}
	// The reader gets the record, or an error that it retries, never one that makes it lose its place.
	resp := reader.receive(poll, parked).(*kmsg.FetchResponse)
	for epoch := int32(2); ; epoch++ {
		got := contents(t, resp)
		if fmt.Sprint(got) == "[0:1]" {
			break
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.TypedErrorForCode(p.ErrorCode); err != nil && err != kerr.NotLeaderForPartition && err != kerr.KafkaStorageError {
					t.Fatalf("reader is told %v", err)
				}
			}
		}
		resp = ask[*kmsg.FetchResponse](reader, 11, inSession(fetch(topic, 100, at(0, 0)), first.SessionID, epoch))
	}
}

func TestProducersAreHeldWhileTheLogIsFullAndGoOn(t *testing.T) {
	b := startOn(t, memwal.Options{Capacity: 4 << 20}, nil, nil)
	b.topic("t", 1, nil)
	b.store.away.Store(true)
	w := b.dial()
	n := 0
	for ; ; n++ {
		if err := tryProduce(w, 100_000); err == kerr.NotEnoughReplicas {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 10 {
		t.Errorf("%d batches of 100 kB in a log of 4 MiB", n)
	}
	b.store.away.Store(false)
	for tryProduce(w, 100_000) != nil {
	}
}

func TestIdempotentClientRidesOutFailuresOfTheLog(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 1, nil)
	p := b.client(kgo.DefaultProduceTopic("t"), kgo.RecordRetries(1000), kgo.MetadataMinAge(10*time.Millisecond))
	const n = 300
	failed := make(chan error, n)
	for i := range n {
		if i%100 == 50 {
			if err := p.Flush(b.ctx()); err != nil {
				t.Fatal(err)
			}
			b.disk.FailNext(errors.New("device error"))
		}
		p.Produce(b.ctx(), kgo.StringRecord(fmt.Sprint(i)), func(_ *kgo.Record, err error) { failed <- err })
	}
	for range n {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	c := b.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for i := 0; i < n; {
		f := c.PollFetches(b.ctx())
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(i) || r.Offset != int64(i) {
				t.Fatalf("record %q at offset %d, want %d", r.Value, r.Offset, i)
			}
			i++
		})
	}
}

// Producers that are held must not hold up anybody else, however much memory they take.
func TestHeldProducersLeaveMemoryToOthers(t *testing.T) {
	b := start(t, nil, func(o *kafkaapi.Options) { o.RequestMemory = 1 << 20 })
	topic := b.topic("t", 1, nil)
	b.append(topic, 0, recordbatchtest.Values(0, "a"))
	release := b.disk.Stall()
	defer release()
	req := produceRequest("t", 0, recordbatchtest.Values(0, string(make([]byte, 200_000))))
	req.SetVersion(9)
	var held []*wire
	for range 20 {
		w := b.dial()
		go w.send(req) // what the broker does not read may not fit the connection
		held = append(held, w)
	}
	w := b.dial()
	for range 50 {
		wantContents(t, "a consumer", ask[*kmsg.FetchResponse](w, 11, fetch(topic, forever, at(0, 0))), "0:1")
	}
	release()
	for _, w := range held {
		if p := w.receive(req, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("a held producer: %v", kerr.ErrorForCode(p.ErrorCode))
		}
	}
}

package kafkaapi

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

// ListOffsets (key 2), versions 1 to 10: offsets by time, and the special ones.
//
// Timestamps: -1 latest, which is the high watermark for every isolation level since there are no transactions; -2
// earliest; -3 the first record with the largest timestamp (from version 7, KIP-734); -4 earliest local (from 8, KIP-405),
// the same as earliest; -5 last tiered (from 9, KIP-1005), which is none, -1. Others below zero: UNSUPPORTED_VERSION. From
// 4 the leader epoch is checked. From 10 the request has a timeout for looking up in remote storage.
//
// A partition asked for twice is answered twice, where Kafka refuses it with INVALID_REQUEST.

const (
	latest        = -1
	earliest      = -2
	maxTimestamp  = -3
	earliestLocal = -4
	lastTiered    = -5
)

// lookUpTimeout bounds the looking up of one request, below the usual request timeout of clients, 30 s.
const lookUpTimeout = 25 * time.Second

func listOffsets(r *request, req *kmsg.ListOffsetsRequest) kmsg.Response {
	timeout := lookUpTimeout
	if r.version >= 10 && req.TimeoutMillis > 0 {
		timeout = min(timeout, time.Duration(req.TimeoutMillis)*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(r.c.ctx, timeout)
	defer cancel()
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	type one struct {
		topic string
		req   *kmsg.ListOffsetsRequestTopicPartition
		resp  *kmsg.ListOffsetsResponseTopicPartition
	}
	var reads []one // those that are looked up in batches: several at once
	answer := func(o one) {
		found, err := r.listOffset(ctx, o.topic, o.req)
		if err != nil {
			o.resp.ErrorCode = r.code(err, reading)
			return
		}
		o.resp.Offset, o.resp.Timestamp, o.resp.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
	}
	for i := range req.Topics {
		rt, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			rp, p := &rt.Partitions[j], &out.Partitions[j]
			p.Default()
			p.Partition, p.Timestamp, p.Offset, p.LeaderEpoch = rp.Partition, -1, -1, -1
			if o := (one{rt.Topic, rp, p}); rp.Timestamp >= 0 || rp.Timestamp == maxTimestamp {
				reads = append(reads, o)
			} else {
				answer(o)
			}
		}
	}
	concurrently(len(reads), func(i int) { answer(reads[i]) })
	return resp
}

func (r *request) listOffset(ctx context.Context, topic string, rp *kmsg.ListOffsetsRequestTopicPartition) (engine.TimedOffset, error) {
	none := engine.TimedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	_, h, err := r.c.s.find(topic, rp.Partition)
	if err != nil {
		return none, err
	}
	o, err := h.Offsets()
	if err != nil {
		return none, err
	}
	if r.version >= 4 {
		if err := checkLeaderEpoch(rp.CurrentLeaderEpoch, o); err != nil {
			return none, err
		}
	}
	at := func(offset int64) (engine.TimedOffset, error) {
		return engine.TimedOffset{Offset: offset, Timestamp: -1, LeaderEpoch: o.LeaderEpoch}, nil
	}
	switch ts := rp.Timestamp; {
	case ts >= 0:
		return h.FindTime(ctx, ts)
	case ts == latest:
		return at(o.HighWatermark)
	case ts == earliest, ts == earliestLocal && r.version >= 8:
		return at(o.LogStart)
	case ts == maxTimestamp && r.version >= 7:
		return h.MaxTimestamp(ctx)
	case ts == lastTiered && r.version >= 9:
		return none, nil
	}
	return none, refuse(kerr.UnsupportedVersion, fmt.Sprintf("ListOffsets version %d knows no timestamp %d", r.version, rp.Timestamp))
}

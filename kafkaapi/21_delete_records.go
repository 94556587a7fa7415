package kafkaapi

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/topicconfig"
)

// DeleteRecords (key 21), versions 0 to 2: moves log starts up; -1 stands for the high watermark.
//
// As in Kafka, a topic whose cleanup.policy does not say delete is refused with POLICY_VIOLATION, and an offset beyond
// the high watermark is OFFSET_OUT_OF_RANGE.

func deleteRecords(r *request, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	ctx, cancel := r.changeDeadline(req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
	type one struct{ topic, partition int }
	var all []one
	for i, rt := range req.Topics {
		resp.Topics[i].Topic = rt.Topic
		resp.Topics[i].Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			all = append(all, one{i, j})
		}
	}
	concurrently(len(all), func(i int) {
		rt := &req.Topics[all[i].topic]
		rp, out := rt.Partitions[all[i].partition], &resp.Topics[all[i].topic].Partitions[all[i].partition]
		out.Partition, out.LowWatermark = rp.Partition, -1
		t, h, err := r.c.s.find(rt.Topic, rp.Partition)
		switch {
		case err != nil:
		case t.Internal:
			err = refuse(kerr.InvalidTopicException, fmt.Sprintf("topic %s is the broker's own", rt.Topic))
		case t.Compact && t.Config[topicconfig.CleanupPolicy] == "compact":
			err = refuse(kerr.PolicyViolation, fmt.Sprintf("topic %s is compacted, its records are not deleted", rt.Topic))
		case rp.Offset < -1:
			err = refuse(kerr.OffsetOutOfRange, fmt.Sprintf("offset %d is negative", rp.Offset))
		default:
			out.LowWatermark, err = h.DeleteRecords(ctx, rp.Offset)
		}
		if err != nil {
			out.LowWatermark, out.ErrorCode = -1, r.code(err, unsure)
		}
	})
	return resp
}

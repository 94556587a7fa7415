package kafkaapi

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

// OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ended (KIP-320).
//
// Consumers find out by it whether what they have read was cut off. An epoch that is not known gives -1 and -1, for
// the current one the end is the high watermark.

func offsetForLeaderEpoch(r *request, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, rt := range req.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = rp.Partition, -1, -1
			end, err := r.epochEnd(rt.Topic, &rp)
			if err != nil {
				p.ErrorCode = r.code(err, reading)
			} else {
				p.LeaderEpoch, p.EndOffset = end.Epoch, end.End
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (r *request) epochEnd(topic string, rp *kmsg.OffsetForLeaderEpochRequestTopicPartition) (end engine.EpochEnd, err error) {
	_, h, err := r.c.s.find(topic, rp.Partition)
	if err != nil {
		return end, err
	}
	o, err := h.Offsets()
	if err != nil {
		return end, err
	}
	if err := checkLeaderEpoch(rp.CurrentLeaderEpoch, o); err != nil {
		return end, err
	}
	return h.EpochEnd(rp.LeaderEpoch)
}

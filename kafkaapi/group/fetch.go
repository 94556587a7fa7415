package group

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/headpond/headpond/engine"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetFetch serves versions 1 to 9. What was never committed, and what was committed for an earlier topic of the name, is
// offset -1 without an error, as it is for every partition of a group that does not exist. Null topics ask for all that
// were committed. There are no pending transactions, so that every answer is stable.
func (c *Coordinator) OffsetFetch(ctx context.Context, req *kmsg.OffsetFetchRequest, _ Client) *kmsg.OffsetFetchResponse {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= 8 {
		for i := range req.Groups {
			rg := &req.Groups[i]
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group = rg.Group
			g.Topics, g.ErrorCode = c.fetchOffsets(ctx, rg.Group, rg.Topics)
			resp.Groups = append(resp.Groups, g)
		}
		return resp
	}
	var topics []kmsg.OffsetFetchRequestGroupTopic
	if req.Topics != nil {
		topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
		for i, t := range req.Topics {
			topics[i].Topic, topics[i].Partitions = t.Topic, t.Partitions
		}
	}
	found, code := c.fetchOffsets(ctx, req.Group, topics)
	if req.Version >= 2 {
		resp.ErrorCode = code
	} else if code != codeNone {
		found = failed(topics, code) // there is no other place for it
	}
	for _, t := range found {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			rp.Metadata, rp.ErrorCode = p.Metadata, p.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// fetchOffsets returns the committed offsets of the topics' partitions; nil topics stand for all.
func (c *Coordinator) fetchOffsets(
	ctx context.Context, group string, topics []kmsg.OffsetFetchRequestGroupTopic,
) ([]kmsg.OffsetFetchResponseGroupTopic, int16) {
	s, code := c.lock(ctx, group)
	if code != codeNone {
		return nil, code
	}
	var offsets map[topicPartition]offset
	if g := s.groups[group]; g != nil && topics == nil {
		offsets = maps.Clone(g.offsets)
	} else if g != nil {
		offsets = map[topicPartition]offset{}
		for _, t := range topics {
			for _, p := range t.Partitions {
				if o, ok := g.offsets[topicPartition{t.Topic, p}]; ok {
					offsets[topicPartition{t.Topic, p}] = o
				}
			}
		}
	}
	s.mu.Unlock()

	dead, err := c.dropDead(offsets)
	if err != nil {
		return nil, codeLoading
	}
	if dead {
		s.sweepSoon()
	}
	if topics == nil {
		topics = byTopic(offsets)
	}
	return found(topics, offsets), codeNone
}

// dropDead removes the offsets whose topic is gone, and says whether there were any.
func (c *Coordinator) dropDead(offsets map[topicPartition]offset) (dead bool, err error) {
	type incarnation struct {
		topic string
		id    engine.ID
	}
	alive := map[incarnation]bool{}
	for tp, o := range offsets {
		i := incarnation{tp.topic, o.topicID}
		ok, known := alive[i]
		if !known {
			if ok, err = c.topicAlive(i.topic, i.id); err != nil {
				return false, err
			}
			alive[i] = ok
		}
		if !ok {
			delete(offsets, tp)
			dead = true
		}
	}
	return dead, nil
}

// byTopic lists the partitions that have an offset, in order.
func byTopic(offsets map[topicPartition]offset) []kmsg.OffsetFetchRequestGroupTopic {
	order := slices.SortedFunc(maps.Keys(offsets), func(a, b topicPartition) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	var topics []kmsg.OffsetFetchRequestGroupTopic
	for _, tp := range order {
		if n := len(topics); n == 0 || topics[n-1].Topic != tp.topic {
			topics = append(topics, kmsg.OffsetFetchRequestGroupTopic{Topic: tp.topic})
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, tp.partition)
	}
	return topics
}

func found(topics []kmsg.OffsetFetchRequestGroupTopic, offsets map[topicPartition]offset) []kmsg.OffsetFetchResponseGroupTopic {
	var resp []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p, -1, -1
			metadata := ""
			if o, ok := offsets[topicPartition{t.Topic, p}]; ok {
				rp.Offset, rp.LeaderEpoch, metadata = o.at, o.leaderEpoch, o.metadata
			}
			rp.Metadata = &metadata
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp = append(resp, rt)
	}
	return resp
}

// failed answers for every partition with a code.
func failed(topics []kmsg.OffsetFetchRequestGroupTopic, code int16) []kmsg.OffsetFetchResponseGroupTopic {
	resp := found(topics, nil)
	for i := range resp {
		for j := range resp[i].Partitions {
			resp[i].Partitions[j].ErrorCode = code
		}
	}
	return resp
}

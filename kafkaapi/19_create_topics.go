package kafkaapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/topicconfig"
)

// CreateTopics (key 19), versions 2 to 7.
//
// -1 partitions means the broker's num.partitions, in every version (Kafka: from 4). Any replication factor from 1, and
// -1, is accepted: what makes records durable is the log. The response says the truth, one replica. An assignment of
// replicas counts for its number of partitions only. From 5 the response has the topic's settings, from 7 its id.

func createTopics(r *request, req *kmsg.CreateTopicsRequest) kmsg.Response {
	ctx, cancel := r.changeDeadline(req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(req.Topics))
	times := make(map[string]int, len(req.Topics))
	for _, rt := range req.Topics {
		times[rt.Topic]++
	}
	concurrently(len(req.Topics), func(i int) {
		rt, out := &req.Topics[i], &resp.Topics[i]
		out.Default()
		out.Topic = rt.Topic
		change, err := r.topicChange(rt)
		if err == nil && times[rt.Topic] > 1 {
			err = refuse(kerr.InvalidRequest, fmt.Sprintf("topic %s is in the request %d times", rt.Topic, times[rt.Topic]))
		}
		if err == nil {
			err = r.c.s.newTopic(rt.Topic, change)
		}
		if err == nil && !req.ValidateOnly {
			var t *engine.Topic
			if t, err = r.c.s.makeTopic(ctx, rt.Topic, change); err == nil {
				out.TopicID = t.ID
			}
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = r.code(err, unsure), message(err)
			out.NumPartitions, out.ReplicationFactor = -1, -1
			return
		}
		out.NumPartitions, out.ReplicationFactor = change.Partitions, 1
		out.Configs = createdConfigs(topicconfig.DescribeTopic(change.Config, r.c.s.o.Broker))
	})
	return resp
}

// topicChange reads what a topic is to be.
func (r *request) topicChange(rt *kmsg.CreateTopicsRequestTopic) (engine.TopicChange, error) {
	c := engine.TopicChange{Partitions: rt.NumPartitions, Config: make(map[string]string, len(rt.Configs))}
	switch {
	case len(rt.ReplicaAssignment) > 0:
		if rt.NumPartitions != -1 || rt.ReplicationFactor != -1 {
			return c, refuse(kerr.InvalidRequest, "an assignment of replicas goes with -1 partitions and replication factor -1")
		}
		assigned := make(map[int32]bool)
		for _, a := range rt.ReplicaAssignment {
			if len(a.Replicas) == 0 {
				return c, refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("partition %d is assigned no replica", a.Partition))
			}
			assigned[a.Partition] = true
		}
		n := int32(len(rt.ReplicaAssignment))
		if int(n) != len(assigned) || slices.Max(slices.Collect(maps.Keys(assigned))) != n-1 || assigned[-1] || slices.Min(slices.Collect(maps.Keys(assigned))) != 0 {
			return c, refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("the %d partitions assigned are not 0 to %d, once each", n, n-1))
		}
		c.Partitions = n
	case rt.NumPartitions == -1:
		c.Partitions = r.c.s.partitions
	}
	if rt.ReplicationFactor < 1 && rt.ReplicationFactor != -1 {
		return c, refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("replication factor %d is neither -1 nor at least 1", rt.ReplicationFactor))
	}
	for _, cfg := range rt.Configs {
		if cfg.Value == nil {
			return c, refuse(kerr.InvalidConfig, fmt.Sprintf("setting %s has no value", cfg.Name))
		}
		if _, twice := c.Config[cfg.Name]; twice {
			return c, refuse(kerr.InvalidConfig, fmt.Sprintf("setting %s is there twice", cfg.Name))
		}
		c.Config[cfg.Name] = *cfg.Value
	}
	return c, nil
}

func createdConfigs(entries []topicconfig.Entry) []kmsg.CreateTopicsResponseTopicConfig {
	out := make([]kmsg.CreateTopicsResponseTopicConfig, len(entries))
	for i, e := range entries {
		out[i] = kmsg.CreateTopicsResponseTopicConfig{Name: e.Key.Name, Value: &e.Value, Source: int8(e.Source)}
	}
	return out
}

package kafkaapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

// CreatePartitions (key 37), versions 0 to 3: more partitions for topics. Assignments of replicas count for their number
// only.

func createPartitions(r *request, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	ctx, cancel := r.changeDeadline(req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrCreatePartitionsResponse()
	resp.Topics = make([]kmsg.CreatePartitionsResponseTopic, len(req.Topics))
	concurrently(len(req.Topics), func(i int) {
		rt, out := &req.Topics[i], &resp.Topics[i]
		out.Default()
		out.Topic = rt.Topic
		if err := r.addPartitions(ctx, rt, req.ValidateOnly); err != nil {
			out.ErrorCode, out.ErrorMessage = r.code(err, unsure), message(err)
		}
	})
	return resp
}

func (r *request) addPartitions(ctx context.Context, rt *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	return r.c.s.changeTopic(ctx, rt.Topic, validateOnly, func(t *engine.Topic, c *engine.TopicChange) error {
		switch {
		case t.Internal:
			return refuse(kerr.InvalidRequest, fmt.Sprintf("topic %s is the broker's own", t.Name))
		case rt.Count <= t.Partitions:
			return refuse(kerr.InvalidPartitions, fmt.Sprintf("topic %s has %d partitions, their number can only grow, not become %d", t.Name, t.Partitions, rt.Count))
		case rt.Count > maxPartitions:
			return refuse(kerr.InvalidPartitions, fmt.Sprintf("a topic has at most %d partitions, not %d", maxPartitions, rt.Count))
		case rt.Assignment != nil && len(rt.Assignment) != int(rt.Count-t.Partitions):
			return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("%d partitions are assigned replicas, %d are added", len(rt.Assignment), rt.Count-t.Partitions))
		}
		for i, a := range rt.Assignment {
			if len(a.Replicas) == 0 {
				return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("partition %d is assigned no replica", int(t.Partitions)+i))
			}
		}
		c.Partitions = rt.Count
		return nil
	})
}

// changeTopic changes a topic: fn gets it and what it is to become, which starts as what it is, and may refuse. When
// somebody else changed the topic in between, it does it all again.
func (s *Server) changeTopic(ctx context.Context, name string, validateOnly bool, fn func(*engine.Topic, *engine.TopicChange) error) error {
	for {
		t, err := s.svc.Topic(name)
		if errors.Is(err, engine.ErrNotFound) {
			return refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("topic %s is not there", name))
		}
		if err != nil {
			return err
		}
		c := engine.TopicChange{Partitions: t.Partitions, Config: make(map[string]string, len(t.Config))}
		for k, v := range t.Config {
			c.Config[k] = v
		}
		if err := fn(t, &c); err != nil || validateOnly {
			return err
		}
		if _, err = s.svc.UpdateTopic(ctx, t, c); !errors.Is(err, engine.ErrExists) {
			if err == nil {
				s.log.Info("topic changed", "topic", name, "partitions", c.Partitions, "config", c.Config)
				s.warn(name, c.Config)
			}
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

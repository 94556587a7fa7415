package kafkaapi

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

// DeleteTopics (key 20), versions 1 to 6. From 5 errors have a message, from 6 topics can be named by id.
//
// The broker's own topics are not deleted: INVALID_REQUEST.

func deleteTopics(r *request, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	ctx, cancel := r.changeDeadline(req.TimeoutMillis)
	defer cancel()
	asked := req.Topics
	for i := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &req.TopicNames[i]
		asked = append(asked, t)
	}
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, len(asked))
	concurrently(len(asked), func(i int) {
		rt, out := &asked[i], &resp.Topics[i]
		out.Default()
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		t, err := r.topicToDelete(rt)
		if err == nil {
			out.Topic, out.TopicID = &t.Name, t.ID
			if err = r.c.s.svc.DeleteTopic(ctx, t); err == nil {
				r.c.s.topics.drop(t.Name)
				r.c.s.log.Info("topic deleted", "topic", t.Name)
			}
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = r.code(err, unsure), message(err)
			if r.version < 6 && out.Topic == nil {
				out.Topic = new(string)
			}
		}
	})
	return resp
}

func (r *request) topicToDelete(rt *kmsg.DeleteTopicsRequestTopic) (*engine.Topic, error) {
	s := r.c.s
	if !s.deleteTopic {
		return nil, refuse(kerr.TopicDeletionDisabled, "the broker's configuration does not allow the deletion of topics")
	}
	var t *engine.Topic
	var err error
	switch {
	case rt.Topic != nil && rt.TopicID != engine.ID{}:
		return nil, refuse(kerr.InvalidRequest, "a topic is named twice, by name and by id")
	case rt.Topic != nil:
		if t, err = s.svc.Topic(*rt.Topic); errors.Is(err, engine.ErrNotFound) {
			return nil, refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("topic %s is not there", *rt.Topic))
		}
	default:
		var known *topic
		if known, err = s.topicByID(rt.TopicID); err == nil {
			t = known.Topic
		}
	}
	if err == nil && t.Internal {
		return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("topic %s is the broker's own", t.Name))
	}
	return t, err
}

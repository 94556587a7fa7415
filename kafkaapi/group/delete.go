package group

import (
	"context"

	"github.com/headpond/headpond/engine"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups serves versions 0 to 3. A group goes with its offsets, if it has no members.
func (c *Coordinator) DeleteGroups(ctx context.Context, req *kmsg.DeleteGroupsRequest, _ Client) *kmsg.DeleteGroupsResponse {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for _, id := range req.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = id
		g.ErrorCode = c.deleteGroup(ctx, id)
		switch g.ErrorCode {
		case codeNonEmptyGroup:
			g.ErrorMessage = kmsg.StringPtr("the group has members: stop its consumers first")
		case codeGroupIDNotFound:
			g.ErrorMessage = kmsg.StringPtr("there is no such group")
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}

func (c *Coordinator) deleteGroup(ctx context.Context, id string) int16 {
	s, code := c.lock(ctx, id)
	if code != codeNone {
		return code
	}
	g := s.groups[id]
	if code := g.deletable(); code != codeNone {
		s.mu.Unlock()
		return code
	}
	answer := make(chan int16, 1)
	g.delete(func(code int16) { answer <- code })
	s.mu.Unlock()
	// The write ends by its own deadline.
	select {
	case code := <-answer:
		return code
	case <-ctx.Done():
		return codeRequestTimedOut
	}
}

func (g *group) deletable() int16 {
	switch {
	case g == nil || g.dead:
		return codeGroupIDNotFound
	case g.state != empty || len(g.members)+len(g.pending) > 0:
		return codeNonEmptyGroup
	}
	return codeNone
}

// delete removes the group and all its records, if it is still empty when its turn comes.
func (g *group) delete(done func(code int16)) {
	refused, marked := codeNone, false
	g.s.enqueue(&write{
		prepare: func() []record {
			if refused = g.deletable(); refused != codeNone {
				return nil
			}
			if g.metaQueued > 0 {
				// A record of the group is still to be written, which must not come after its deletion.
				refused = codeNotAvailable
				return nil
			}
			g.dead, marked = true, true
			return g.tombstones()
		},
		done: func(err error) {
			switch {
			case refused == codeNotAvailable:
				g.delete(done)
			case refused != codeNone:
				done(refused)
			case err != nil:
				g.dead = g.dead && !marked
				done(codeFor(err, codeNotAvailable))
			default:
				g.drop()
				if g.s.groups[g.id] == g {
					delete(g.s.groups, g.id)
				}
				done(codeNone)
			}
		},
	})
}

// tombstones are records that delete all there is of the group: the offsets first, so that what a crash leaves is a group.
func (g *group) tombstones() []record {
	records := make([]record, 0, len(g.offsets)+1)
	for tp := range g.offsets {
		records = append(records, record{offsetKey(g.id, tp), nil})
	}
	if g.meta != nil {
		records = append(records, record{groupKey(g.id), nil})
	}
	return records
}

// OffsetDelete serves version 0. Offsets of topics that members subscribe to stay.
func (c *Coordinator) OffsetDelete(ctx context.Context, req *kmsg.OffsetDeleteRequest, _ Client) *kmsg.OffsetDeleteResponse {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	known := map[string]*engine.Topic{}
	for _, t := range req.Topics {
		topic, err := c.svc.Topic(t.Topic)
		ok, err := exists(err)
		if err != nil {
			resp.ErrorCode = codeNotAvailable
			return resp
		}
		if ok {
			known[t.Topic] = topic
		}
	}
	s, code := c.lock(ctx, req.Group)
	if code != codeNone {
		resp.ErrorCode = code
		return resp
	}
	g := s.groups[req.Group]
	subscribed, code := g.subscription()
	if code != codeNone {
		s.mu.Unlock()
		resp.ErrorCode = code
		return resp
	}
	var keys []topicPartition
	for _, rt := range req.Topics {
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = rp.Partition
			topic := known[rt.Topic]
			switch _, in := subscribed[rt.Topic]; {
			case in:
				p.ErrorCode = codeGroupSubscribedToTopic
			case topic == nil || rp.Partition < 0 || rp.Partition >= topic.Partitions:
				p.ErrorCode = codeUnknownTopic
			default:
				keys = append(keys, topicPartition{topic.Name, rp.Partition})
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	done := make(chan error, 1)
	g.deleteOffsets(func() []topicPartition { return keys }, func(err error) { done <- err })
	s.mu.Unlock()
	resp.ErrorCode = c.await(ctx, done, codeNotAvailable)
	return resp
}

// deleteOffsets deletes, when its turn comes, those of the offsets that are there then.
func (g *group) deleteOffsets(choose func() []topicPartition, done func(error)) {
	var keys []topicPartition
	g.s.enqueue(&write{
		prepare: func() []record {
			var records []record
			for _, tp := range choose() {
				if _, ok := g.offsets[tp]; ok {
					keys = append(keys, tp)
					records = append(records, record{offsetKey(g.id, tp), nil})
				}
			}
			return records
		},
		done: func(err error) {
			if err == nil {
				for _, tp := range keys {
					delete(g.offsets, tp)
				}
				g.forgetIfBare()
			}
			done(err)
		},
	})
}

// subscription returns the topics that the group's members subscribe to. Whose members cannot be understood, because they are
// not consumers, has NON_EMPTY_GROUP. The group may be nil.
func (g *group) subscription() (map[string]struct{}, int16) {
	switch {
	case g == nil || g.dead:
		return nil, codeGroupIDNotFound
	case len(g.members) == 0:
		return nil, codeNone
	case g.protocolType != "consumer":
		return nil, codeNonEmptyGroup
	}
	topics := map[string]struct{}{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			var s kmsg.ConsumerMemberMetadata
			if s.ReadFrom(p.metadata) != nil {
				return nil, codeNonEmptyGroup
			}
			for _, t := range s.Topics {
				topics[t] = struct{}{}
			}
		}
	}
	return topics, codeNone
}

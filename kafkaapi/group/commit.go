package group

import (
	"context"
	"errors"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// exists reads the error of a look-up: only a positive answer says that something is not there.
func exists(err error) (bool, error) {
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// OffsetCommit serves versions 1 to 9. A commit without a generation and a member is one of an administrator, or of a consumer
// that assigns its partitions itself; it is taken while the group is empty. Commits to partitions that do not exist are
// refused, one by one. The retention time of versions 2 to 4 is ignored. Committing again is harmless.
func (c *Coordinator) OffsetCommit(ctx context.Context, req *kmsg.OffsetCommitRequest, _ Client) *kmsg.OffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	offsets := c.checkCommit(req, resp)
	code := c.commit(ctx, req, offsets)
	if code == codeNone {
		return resp
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == codeNone {
				p.ErrorCode = code
			}
		}
	}
	return resp
}

type committed struct {
	topicPartition
	offset
}

// checkCommit fills the response with what is wrong with single partitions, and returns the rest.
func (c *Coordinator) checkCommit(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) []committed {
	var offsets []committed
	now := c.o.Now().UnixMilli()
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic = rt.Topic
		topic, err := c.svc.Topic(rt.Topic)
		known, err := exists(err)
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition = rp.Partition
			switch {
			case err != nil:
				p.ErrorCode = codeNotAvailable
			case !known, rp.Partition < 0, rp.Partition >= topic.Partitions:
				p.ErrorCode = codeUnknownTopic
			case rp.Metadata != nil && len(*rp.Metadata) > c.o.MaxMetadataBytes:
				p.ErrorCode = codeMetadataTooLarge
			default:
				o := committed{topicPartition{topic.Name, rp.Partition}, offset{
					at: rp.Offset, leaderEpoch: -1, committed: now, topicID: topic.ID,
				}}
				if req.Version >= 6 {
					o.leaderEpoch = rp.LeaderEpoch
				}
				if m := cloneString(rp.Metadata); m != nil {
					o.metadata = *m
				}
				offsets = append(offsets, o)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return offsets
}

// commit makes the offsets durable and returns the code for all of them.
func (c *Coordinator) commit(ctx context.Context, req *kmsg.OffsetCommitRequest, offsets []committed) int16 {
	s, code := c.lock(ctx, req.Group)
	if code != codeNone {
		return code
	}
	g := s.groups[req.Group]
	if code := g.validateCommit(req); code != codeNone || len(offsets) == 0 {
		s.mu.Unlock()
		return code
	}
	if g == nil {
		g = s.group(req.Group)
	}
	id := g.id
	w := &write{records: make([]record, len(offsets))}
	for i, o := range offsets {
		w.records[i] = offsetRecord(id, o.topicPartition, o.offset)
	}
	done := make(chan error, 1)
	w.done = func(err error) {
		// The group may have been deleted, and even made again, meanwhile: the log's order decides.
		if err == nil {
			g := s.group(id)
			for _, o := range offsets {
				g.offsets[o.topicPartition] = o.offset
			}
		} else if g := s.groups[id]; g != nil {
			g.forgetIfBare()
		}
		done <- err
	}
	s.enqueue(w)
	s.mu.Unlock()
	return c.await(ctx, done, codeInvalidCommitSize)
}

// await waits for a write and returns the code to answer with. The write goes on when the wait ends before it.
func (c *Coordinator) await(ctx context.Context, done <-chan error, tooLarge int16) int16 {
	timer := time.NewTimer(c.o.CommitTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return codeFor(err, tooLarge)
	case <-timer.C:
		return codeRequestTimedOut
	case <-ctx.Done():
		return codeRequestTimedOut
	}
}

// validateCommit checks a commit's member and generation. The group may be nil. Where it is well, the member's session begins anew.
func (g *group) validateCommit(req *kmsg.OffsetCommitRequest) int16 {
	simple := req.Generation < 0
	switch {
	case g == nil && simple:
		return codeNone
	case g == nil:
		return codeIllegalGeneration
	case g.dead:
		return codeNotAvailable
	case simple && g.state == empty:
		return codeNone
	case simple && req.MemberID == "" && req.InstanceID == nil:
		return codeUnknownMember
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != codeNone {
		return code
	}
	if req.Generation != g.generation {
		return codeIllegalGeneration
	}
	g.touch(g.members[req.MemberID])
	if g.state == completing {
		// It knows the generation, so it will send SyncGroup next, and may have to give up what it commits for.
		return codeRebalanceInProgress
	}
	return codeNone
}

package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat serves versions 0 to 4. It never waits.
func (c *Coordinator) Heartbeat(_ context.Context, req *kmsg.HeartbeatRequest, _ Client) *kmsg.HeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = c.heartbeat(req)
	return resp
}

func (c *Coordinator) heartbeat(req *kmsg.HeartbeatRequest) int16 {
	// A load leaves a whole session to every member, so that there is nothing to record while one is under way, and
	// nothing to tell (as Kafka answers).
	s, code := c.lock(ended, req.Group)
	if code == codeLoading {
		return codeNone
	}
	if code != codeNone {
		return code
	}
	defer s.mu.Unlock()
	g := s.groups[req.Group]
	switch {
	case g == nil:
		return codeUnknownMember
	case g.dead:
		return codeNotAvailable
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != codeNone {
		return code
	}
	if req.Generation != g.generation {
		return codeIllegalGeneration
	}
	g.touch(g.members[req.MemberID])
	if g.state == preparing {
		return codeRebalanceInProgress
	}
	return codeNone
}

package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup serves versions 0 to 5. From version 3 members leave by the batch, static ones by instance id alone too.
func (c *Coordinator) LeaveGroup(ctx context.Context, req *kmsg.LeaveGroupRequest, _ Client) *kmsg.LeaveGroupResponse {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	s, code := c.lock(ctx, req.Group)
	if code != codeNone {
		resp.ErrorCode = code
		return resp
	}
	defer s.mu.Unlock()
	g := s.groups[req.Group]
	if g != nil && g.dead {
		resp.ErrorCode = codeNotAvailable
		return resp
	}
	if req.Version < 3 {
		resp.ErrorCode = g.leave(req.MemberID, nil)
		return resp
	}
	for _, rm := range req.Members {
		lm := kmsg.NewLeaveGroupResponseMember()
		lm.MemberID, lm.InstanceID = rm.MemberID, rm.InstanceID
		lm.ErrorCode = g.leave(rm.MemberID, rm.InstanceID)
		resp.Members = append(resp.Members, lm)
	}
	return resp
}

// leave removes a member. The group may be nil, which has none.
func (g *group) leave(memberID string, instance *string) int16 {
	if g == nil {
		return codeUnknownMember
	}
	if g.pending[memberID] != nil {
		if instance != nil {
			return codeUnknownMember
		}
		g.removePending(memberID)
		g.pendingChanged()
		return codeNone
	}
	if memberID == "" && instance != nil {
		memberID = g.instances[*instance]
	}
	if code := g.validate(memberID, instance); code != codeNone {
		return code
	}
	g.removeAndRebalance(g.members[memberID])
	return codeNone
}

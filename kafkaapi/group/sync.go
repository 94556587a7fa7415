package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// syncCall is a SyncGroup request; it is parked in its member until the leader's assignment is durable.
type syncCall struct {
	reply chan syncResult // room for the one answer
}

type syncResult struct {
	code         int16
	protocolType string
	protocol     string
	assignment   []byte
}

func (y *syncCall) answer(r syncResult) {
	select {
	case y.reply <- r:
	default: // answered before
	}
}

// SyncGroup serves versions 0 to 5. It parks until the leader's assignment is there, or ctx ends.
func (c *Coordinator) SyncGroup(ctx context.Context, req *kmsg.SyncGroupRequest, _ Client) *kmsg.SyncGroupResponse {
	y := &syncCall{reply: make(chan syncResult, 1)}
	if s, code := c.lock(ctx, req.Group); code != codeNone {
		if code == codeLoading {
			// Clients take this as "join again", which is what they will have to do (as Kafka answers).
			code = codeRebalanceInProgress
		}
		y.answer(syncResult{code: code})
	} else {
		s.sync(req, y)
		s.mu.Unlock()
	}
	var r syncResult
	select {
	case r = <-y.reply:
	case <-ctx.Done():
		y.answer(syncResult{code: codeNotCoordinator})
		r = <-y.reply
	}
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode = r.code
	if r.code == codeNone {
		resp.ProtocolType, resp.Protocol = &r.protocolType, &r.protocol
		resp.MemberAssignment = r.assignment
	}
	return resp
}

// sync handles a SyncGroup request. s.mu is held.
func (s *shard) sync(req *kmsg.SyncGroupRequest, y *syncCall) {
	g := s.groups[req.Group]
	if g == nil {
		y.answer(syncResult{code: codeUnknownMember})
		return
	}
	if code := g.validateSync(req); code != codeNone {
		y.answer(syncResult{code: code})
		return
	}
	m := g.members[req.MemberID]
	g.touch(m)
	switch g.state {
	case preparing:
		y.answer(syncResult{code: codeRebalanceInProgress})
	case completing:
		m.answerSync(syncResult{code: codeRebalanceInProgress}) // of a connection that is most likely gone
		m.syncing = y
		delete(g.unsynced, m.id)
		if m.id == g.leader && g.assignedIn != g.generation {
			g.assign(req.GroupAssignment)
		}
	case stable:
		delete(g.unsynced, m.id)
		y.answer(g.syncResultFor(m))
	default:
		y.answer(syncResult{code: codeUnknownMember})
	}
}

func (g *group) validateSync(req *kmsg.SyncGroupRequest) int16 {
	if g.dead {
		return codeNotAvailable
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != codeNone {
		return code
	}
	switch {
	case req.Generation != g.generation:
		return codeIllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && *req.Protocol != g.protocol:
		return codeInconsistentProtocol
	}
	return codeNone
}

// assign takes the leader's assignment. The group is stable, and its members are answered, when that is durable.
func (g *group) assign(assignments []kmsg.SyncGroupRequestGroupAssignment) {
	for _, m := range g.members {
		m.assignment = []byte{}
	}
	for _, a := range assignments {
		if m := g.members[a.MemberID]; m != nil {
			m.assignment = append([]byte{}, a.MemberAssignment...)
		}
	}
	generation := g.generation
	g.assignedIn = generation
	g.writeMeta(func(err error) {
		if g.dead || g.state != completing || g.generation != generation {
			return // a rebalance has answered everybody
		}
		if code := codeFor(err, codeGroupMaxSize); code != codeNone {
			for _, m := range g.members {
				m.assignment = nil
				m.answerSync(syncResult{code: code})
			}
			g.rebalance()
			return
		}
		g.setState(stable)
		for _, m := range g.members {
			if m.syncing != nil {
				m.answerSync(g.syncResultFor(m))
				g.touch(m)
			}
		}
	})
}

func (g *group) syncResultFor(m *member) syncResult {
	return syncResult{protocolType: g.protocolType, protocol: g.protocol, assignment: m.assignment}
}

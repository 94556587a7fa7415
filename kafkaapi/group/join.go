package group

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinCall is a JoinGroup request; it is parked in its member until the generation begins.
type joinCall struct {
	memberID     string
	instance     *string
	client       Client
	session      time.Duration
	rebalance    time.Duration
	protocolType string
	protocols    []protocol
	// needsID: the member must come again with the id that we give it (version 4, KIP-394).
	needsID bool
	// skipsAssignment: a leader can be told to leave the assignment as it is (version 9, KIP-814).
	skipsAssignment bool

	reply chan joinResult // room for the one answer
}

type joinResult struct {
	code           int16
	memberID       string
	generation     int32
	protocolType   string
	protocol       string
	leader         string
	skipAssignment bool
	members        []kmsg.JoinGroupResponseMember
}

func (j *joinCall) answer(r joinResult) {
	if r.memberID == "" {
		r.memberID = j.memberID
	}
	select {
	case j.reply <- r:
	default: // answered before
	}
}

// JoinGroup serves versions 0 to 9. It parks until the group's next generation begins, or ctx ends: then the client is gone, and
// its group does not wait for it.
func (c *Coordinator) JoinGroup(ctx context.Context, req *kmsg.JoinGroupRequest, cl Client) *kmsg.JoinGroupResponse {
	j := c.newJoin(req, cl)
	code := codeNone
	if j.session < c.o.MinSessionTimeout || j.session > c.o.MaxSessionTimeout {
		code = codeInvalidSessionTimeout
	}
	var s *shard
	if code == codeNone || req.Group == "" {
		s, code = c.lock(ctx, req.Group)
	}
	if code != codeNone {
		j.answer(joinResult{code: code})
	} else {
		s.join(req.Group, j)
		s.mu.Unlock()
	}
	var r joinResult
	select {
	case r = <-j.reply:
	case <-ctx.Done():
		s.hangUp(req.Group, j)
		j.answer(joinResult{code: codeNotCoordinator})
		r = <-j.reply
	}
	return r.response(req)
}

// hangUp ends the membership of a client that went away while its request was parked; were it counted as having joined, it
// might be made leader, and the group would wait for its assignment. A client that is there after all is told to join as a
// new member. A static member keeps its place for its session. The shard may be nil.
func (s *shard) hangUp(id string, j *joinCall) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[id]
	if g == nil || g.dead {
		return
	}
	m := g.members[j.memberID]
	if m == nil || m.joining != j {
		return
	}
	m.joining = nil
	if m.instance == nil {
		g.removeAndRebalance(m)
	}
}

func (c *Coordinator) newJoin(req *kmsg.JoinGroupRequest, cl Client) *joinCall {
	j := &joinCall{
		memberID:        strings.Clone(req.MemberID),
		instance:        cloneString(req.InstanceID),
		client:          Client{strings.Clone(cl.ID), strings.Clone(cl.Host)},
		session:         time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		rebalance:       time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		protocolType:    strings.Clone(req.ProtocolType),
		needsID:         req.Version >= 4 && req.InstanceID == nil,
		skipsAssignment: req.Version >= 9,
		reply:           make(chan joinResult, 1),
	}
	if req.Version < 1 || j.rebalance <= 0 {
		j.rebalance = j.session
	}
	for _, p := range req.Protocols {
		j.protocols = append(j.protocols, protocol{strings.Clone(p.Name), append([]byte{}, p.Metadata...)})
	}
	return j
}

func cloneString(s *string) *string {
	if s == nil {
		return nil
	}
	c := strings.Clone(*s)
	return &c
}

func (r joinResult) response(req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode = r.code
	resp.MemberID = r.memberID
	resp.Generation = -1
	empty := ""
	if r.code != codeNone {
		if req.Version < 7 {
			resp.Protocol = &empty // null from version 7 only
		}
		return resp
	}
	resp.Generation = r.generation
	resp.ProtocolType, resp.Protocol = &r.protocolType, &r.protocol
	resp.LeaderID = r.leader
	resp.SkipAssignment = r.skipAssignment
	resp.Members = r.members
	return resp
}

// join handles a JoinGroup request. s.mu is held.
func (s *shard) join(id string, j *joinCall) {
	g := s.groups[id]
	if g == nil {
		if j.memberID != "" {
			j.answer(joinResult{code: codeUnknownMember})
			return
		}
		g = s.group(id)
	}
	switch {
	case g.dead:
		j.answer(joinResult{code: codeNotAvailable})
	case !g.hasRoomFor(j):
		j.answer(joinResult{code: codeGroupMaxSize})
	case !g.fits(j.protocolType, j.protocols):
		j.answer(joinResult{code: codeInconsistentProtocol})
	case j.memberID == "":
		g.joinNew(j)
	default:
		g.joinAgain(j)
	}
	g.forgetIfBare()
}

// hasRoomFor says whether the client is known, or the group takes one more.
func (g *group) hasRoomFor(j *joinCall) bool {
	if g.members[j.memberID] != nil || g.pending[j.memberID] != nil {
		return true
	}
	if j.instance != nil {
		if _, ok := g.instances[*j.instance]; ok {
			return true
		}
	}
	return len(g.members)+len(g.pending) < g.s.c.o.MaxMembers
}

// joinNew handles a client without a member id.
func (g *group) joinNew(j *joinCall) {
	switch {
	case j.instance != nil:
		id := newID(*j.instance)
		if old := g.members[g.instances[*j.instance]]; old != nil {
			g.replace(old, id, j)
			return
		}
		g.admit(id, j)
	case j.needsID:
		id := newID(j.client.ID)
		g.addPending(id, j.session)
		j.answer(joinResult{code: codeMemberIDRequired, memberID: id})
	default:
		g.admit(newID(j.client.ID), j)
	}
}

// joinAgain handles a client that has a member id.
func (g *group) joinAgain(j *joinCall) {
	if j.instance == nil && g.pending[j.memberID] != nil {
		g.removePending(j.memberID)
		g.admit(j.memberID, j)
		return
	}
	if code := g.validate(j.memberID, j.instance); code != codeNone {
		j.answer(joinResult{code: code})
		return
	}
	m := g.members[j.memberID]
	unchanged := slices.EqualFunc(m.protocols, j.protocols, func(a, b protocol) bool {
		return a.name == b.name && string(a.metadata) == string(b.metadata)
	})
	switch {
	case g.state == completing && unchanged:
		// The answer to its last request was lost.
		g.touch(m)
		j.answer(g.joinResultFor(m))
	case g.state == stable && unchanged && m.id != g.leader:
		// A follower with nothing new needs no rebalance; a leader asks for one, since only it knows why.
		g.touch(m)
		r := g.joinResultFor(m)
		r.members = nil
		j.answer(r)
	default:
		m.update(j)
		g.rebalance()
	}
}

// admit makes the client a new member.
func (g *group) admit(id string, j *joinCall) {
	if len(g.members) == 0 {
		g.protocolType = j.protocolType
	}
	m := &member{id: id, instance: j.instance, isNew: true}
	m.update(j)
	g.add(m)
	if g.leader == "" {
		g.leader = id
	}
	if g.state == preparing && g.initial {
		g.memberAdded = true
	}
	g.rebalance()
}

// update takes over what a member says of itself now, and parks its request.
func (m *member) update(j *joinCall) {
	m.client = j.client
	m.sessionTimeout, m.rebalanceTimeout = j.session, j.rebalance
	m.protocols = j.protocols
	m.answerJoin(joinResult{code: codeRebalanceInProgress}) // of a connection that is most likely gone
	j.memberID = m.id
	m.joining = j
}

// replace lets a client take the place of the static member old under a new member id, which shuts the old one out (KIP-345).
// A group that is stable, and would choose the same protocol, goes on without a rebalance.
func (g *group) replace(old *member, id string, j *joinCall) {
	m := &member{id: id, instance: old.instance, assignment: old.assignment, isNew: old.isNew}
	wasLeader, leaderBefore := g.leader == old.id, g.leader
	_, wasUnsynced := g.unsynced[old.id]
	old.answerJoin(joinResult{code: codeFencedInstance})
	old.answerSync(syncResult{code: codeFencedInstance})
	old.timer.Stop()
	delete(g.members, old.id)
	delete(g.unsynced, old.id)
	m.update(j)
	g.add(m)
	m.order = old.order
	if wasUnsynced {
		g.unsynced[m.id] = struct{}{}
	}
	if wasLeader {
		g.leader = m.id
	}
	if g.state != stable || g.choose() != g.protocol {
		g.rebalance()
		return
	}
	m.joining = nil
	g.writeMeta(func(err error) {
		if code := codeFor(err, codeGroupMaxSize); code != codeNone {
			j.answer(joinResult{code: code})
			return
		}
		if g.dead || g.members[m.id] != m {
			j.answer(joinResult{code: codeUnknownMember})
			return
		}
		r := g.joinResultFor(m)
		if j.skipsAssignment {
			r.skipAssignment = wasLeader
		} else {
			// A client that cannot be told to skip the assignment must not take itself for the leader.
			r.members, r.leader = nil, leaderBefore
		}
		j.answer(r)
	})
}

// joinResultFor is what the member is told about the current generation. Only the leader learns of the others.
func (g *group) joinResultFor(m *member) joinResult {
	r := joinResult{
		memberID: m.id, generation: g.generation, protocolType: g.protocolType, protocol: g.protocol, leader: g.leader,
	}
	if m.id == g.leader {
		for _, o := range g.ordered() {
			jm := kmsg.NewJoinGroupResponseMember()
			jm.MemberID, jm.InstanceID, jm.ProtocolMetadata = o.id, o.instance, o.metadata(g.protocol)
			r.members = append(r.members, jm)
		}
	}
	return r
}

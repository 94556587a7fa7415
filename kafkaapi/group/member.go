package group

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// newMemberLimit is how long a member that joins for the first time may wait for its first generation: its client may have
// gone, and it has not been told its id.
const newMemberLimit = 5 * time.Minute

type protocol struct {
	name     string
	metadata []byte
}

// member is a member of a group.
type member struct {
	id       string
	instance *string // set for static members
	client   Client
	order    uint64

	sessionTimeout   time.Duration
	rebalanceTimeout time.Duration
	protocols        []protocol // in the member's order of preference
	assignment       []byte

	joining *joinCall // parked, or nil
	syncing *syncCall // parked, or nil
	isNew   bool      // has not been in a generation

	deadline time.Time // when its session ends, if nothing is heard
	due      time.Time // when timer fires: no later than deadline
	timer    *time.Timer
}

// newID makes a member id as Kafka does: recognizable, and never made before.
func newID(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	h := hex.EncodeToString(b[:])
	return prefix + "-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.name == protocol {
			return p.metadata
		}
	}
	return nil
}

func (m *member) supports(protocol string) bool {
	for _, p := range m.protocols {
		if p.name == protocol {
			return true
		}
	}
	return false
}

// answerJoin answers the parked JoinGroup, if there is one.
func (m *member) answerJoin(r joinResult) {
	if m.joining != nil {
		m.joining.answer(r)
		m.joining = nil
	}
}

// answerSync answers the parked SyncGroup, if there is one.
func (m *member) answerSync(r syncResult) {
	if m.syncing != nil {
		m.syncing.answer(r)
		m.syncing = nil
	}
}

// add makes m a member, whose session begins.
func (g *group) add(m *member) {
	g.joined++
	m.order = g.joined
	g.members[m.id] = m
	if m.instance != nil {
		g.instances[*m.instance] = m.id
	}
	session := m.sessionTimeout
	if m.isNew {
		session = newMemberLimit
	}
	m.deadline = time.Now().Add(session)
	m.due = m.deadline
	m.timer = time.AfterFunc(session, func() { g.onSession(m) })
}

// touch begins a member's session anew. The timer is left alone, unless it would be late: it looks at the deadline when it fires.
func (g *group) touch(m *member) {
	m.deadline = time.Now().Add(m.sessionTimeout)
	if m.deadline.Before(m.due) {
		m.due = m.deadline
		m.timer.Reset(m.sessionTimeout)
	}
}

// onSession is the timer of a member's session.
func (g *group) onSession(m *member) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.dead || g.members[m.id] != m {
		return
	}
	left := time.Until(m.deadline)
	if left <= 0 && !m.isNew && (m.joining != nil || m.syncing != nil) {
		left = m.sessionTimeout // parked at our request: alive
	}
	if left > 0 {
		m.due = time.Now().Add(left)
		m.timer.Reset(left)
		return
	}
	g.s.c.o.Logger.Info("a member's session ended", "group", g.id, "member", m.id, "client", m.client.ID)
	g.removeAndRebalance(m)
}

// remove ends a membership. What the member has parked is answered with UNKNOWN_MEMBER_ID.
func (g *group) remove(m *member) {
	m.timer.Stop()
	m.answerJoin(joinResult{code: codeUnknownMember})
	m.answerSync(syncResult{code: codeUnknownMember})
	delete(g.members, m.id)
	delete(g.unsynced, m.id)
	if m.instance != nil && g.instances[*m.instance] == m.id {
		delete(g.instances, *m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
		if rest := g.ordered(); len(rest) > 0 {
			g.leader = rest[0].id
		}
	}
}

func (g *group) removeAndRebalance(m *member) {
	g.remove(m)
	g.membersChanged()
}

// addPending keeps a member id that was given away and not used yet (KIP-394).
func (g *group) addPending(id string, session time.Duration) {
	g.pending[id] = time.AfterFunc(session, func() {
		g.s.mu.Lock()
		defer g.s.mu.Unlock()
		if !g.dead {
			g.removePending(id)
			g.pendingChanged()
		}
	})
}

func (g *group) removePending(id string) {
	if t := g.pending[id]; t != nil {
		t.Stop()
		delete(g.pending, id)
	}
}

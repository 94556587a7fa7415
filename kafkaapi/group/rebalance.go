package group

import "time"

func (g *group) stopTimer() {
	g.round++
	if g.timer != nil {
		g.timer.Stop()
	}
}

// startTimer calls onTimer after d, unless it is started or stopped again before.
func (g *group) startTimer(d time.Duration) {
	g.stopTimer()
	round := g.round
	g.timer = time.AfterFunc(d, func() {
		g.s.mu.Lock()
		defer g.s.mu.Unlock()
		if g.round == round && !g.dead {
			g.onTimer()
		}
	})
}

func (g *group) onTimer() {
	switch g.state {
	case preparing:
		if g.initial && g.memberAdded && g.delayLeft > 0 {
			g.memberAdded = false
			d := min(g.s.c.o.InitialRebalanceDelay, g.delayLeft)
			g.delayLeft -= d
			g.startTimer(d)
			return
		}
		g.completeJoin()
	case completing, stable:
		if len(g.unsynced) == 0 {
			return
		}
		for id := range g.unsynced {
			g.s.c.o.Logger.Info("a member did not ask for its assignment in time", "group", g.id, "member", id)
			if m := g.members[id]; m != nil {
				g.remove(m)
			}
		}
		g.membersChanged()
	}
}

// rebalanceTimeout is how long members get to join again: the longest that one of them wants.
func (g *group) rebalanceTimeout() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalanceTimeout)
	}
	return d
}

// membersChanged follows up on a change of the members or of what they support.
func (g *group) membersChanged() {
	switch g.state {
	case stable, completing:
		g.rebalance()
	default:
		g.pendingChanged()
	}
}

// pendingChanged follows up on a member id that will not be used: it is of no generation, but one may wait for it to begin.
func (g *group) pendingChanged() {
	switch g.state {
	case preparing:
		g.tryCompleteJoin()
	case empty:
		g.forgetIfBare()
	}
}

// rebalance begins one, unless one has begun: every member is to join again.
func (g *group) rebalance() {
	wasEmpty := g.state == empty
	switch g.state {
	case preparing:
		g.tryCompleteJoin()
		return
	case completing:
		for _, m := range g.members {
			m.assignment = nil
			m.answerSync(syncResult{code: codeRebalanceInProgress})
		}
	}
	g.setState(preparing)
	g.memberAdded = false
	delay := g.s.c.o.InitialRebalanceDelay
	g.initial = wasEmpty && delay > 0
	if g.initial {
		g.delayLeft = max(g.rebalanceTimeout()-delay, 0)
		g.startTimer(delay)
		return
	}
	g.startTimer(g.rebalanceTimeout())
	g.tryCompleteJoin()
}

// tryCompleteJoin ends the state preparing once every member has joined, and everyone who was given a member id.
func (g *group) tryCompleteJoin() {
	if g.state != preparing || g.initial || len(g.pending) > 0 {
		return
	}
	for _, m := range g.members {
		if m.joining == nil {
			return
		}
	}
	g.completeJoin()
}

// completeJoin begins the next generation with the members that have joined. Static members stay for their session's length.
func (g *group) completeJoin() {
	for _, m := range g.members {
		if m.joining == nil && m.instance == nil {
			g.remove(m)
		}
	}
	if len(g.members) > 0 && !g.electLeader() {
		g.startTimer(g.rebalanceTimeout())
		return
	}
	g.initial = false
	g.generation++
	clear(g.unsynced)
	if len(g.members) == 0 {
		g.stopTimer()
		g.protocol, g.leader = "", ""
		g.setState(empty)
		if g.meta != nil || len(g.offsets) > 0 {
			g.writeMeta(nil)
		}
		g.forgetIfBare()
		return
	}
	g.protocol = g.choose()
	g.setState(completing)
	for _, m := range g.ordered() {
		m.answerJoin(g.joinResultFor(m))
		m.isNew = false
		g.touch(m)
		g.unsynced[m.id] = struct{}{}
	}
	g.startTimer(g.rebalanceTimeout())
}

// electLeader keeps the leader if it has joined, and otherwise takes the first member that has. It says whether there is one.
func (g *group) electLeader() bool {
	if m := g.members[g.leader]; m != nil && m.joining != nil {
		return true
	}
	for _, m := range g.ordered() {
		if m.joining != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// choose returns the protocol that every member supports and most prefer; of equals, the one that the eldest member prefers.
func (g *group) choose() string {
	votes := map[string]int{}
	best := ""
	ms := g.ordered()
	for _, m := range ms {
		for _, p := range m.protocols {
			if g.allSupport(p.name) {
				votes[p.name]++
				break
			}
		}
	}
	for _, m := range ms {
		for _, p := range m.protocols {
			if votes[p.name] > votes[best] {
				best = p.name
			}
		}
	}
	return best
}

func (g *group) allSupport(protocol string) bool {
	for _, m := range g.members {
		if !m.supports(protocol) {
			return false
		}
	}
	return true
}

// fits says whether a client with these protocols can be a member: one of them must be everyone's.
func (g *group) fits(protocolType string, protocols []protocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	for _, p := range protocols {
		if g.allSupport(p.name) {
			return true
		}
	}
	return false
}

package group

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// together lets the members join and sync at once, the leader with an assignment for all.
func together(t *testing.T, members ...*consumer) {
	t.Helper()
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			resp := m.join()
			var all []*consumer
			if resp.LeaderID == m.id {
				if len(resp.Members) != len(members) {
					t.Errorf("the leader sees %d members of %d", len(resp.Members), len(members))
				}
				for _, rm := range resp.Members {
					all = append(all, &consumer{id: rm.MemberID})
				}
			} else if len(resp.Members) > 0 {
				t.Errorf("a follower sees %d members", len(resp.Members))
			}
			s := m.sync(all...)
			wantCode(t, "sync", s.ErrorCode, codeNone)
			if string(s.MemberAssignment) != "to "+m.id {
				t.Errorf("member %s has assignment %q", m.id, s.MemberAssignment)
			}
		})
	}
	wg.Wait()
}

func withDelay(d time.Duration) Options {
	o := testOptions
	o.InitialRebalanceDelay = d
	return o
}

func TestMembersOfAnEmptyGroupShareTheFirstGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), withDelay(3*time.Second))
		began := time.Now()
		a, b := c.consumer(t, "g"), c.consumer(t, "g")
		together(t, a, b)
		if a.generation != 1 || b.generation != 1 {
			t.Errorf("generations %d and %d", a.generation, b.generation)
		}
		if took := time.Since(began); took != 6*time.Second {
			// The second member makes the first delay start over.
			t.Errorf("took %s", took)
		}
		c.wantState(t, "g", "Stable", 2)
		d := c.describe(t, "g")
		if d.Protocol != "range" || d.ProtocolType != "consumer" || string(d.Members[0].MemberAssignment) != "to "+d.Members[0].MemberID {
			t.Errorf("described as %+v", d)
		}
	})
}

func TestDelayOfAnEmptyGroupEndsByTheRebalanceTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), withDelay(3*time.Second))
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			m := c.consumer(t, "g")
			m.version, m.rebalance = 3, 8*time.Second
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				m.join()
				if took := time.Since(began); took != 8*time.Second {
					t.Errorf("the generation took %s to begin", took)
				}
			})
		}
		wg.Wait()
		c.wantState(t, "g", "CompletingRebalance", 8)
	})
}

func TestNewMemberIsGivenItsIDFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService(), testOptions)
		m := c.consumer(t, "g")
		first := m.tryJoin()
		wantCode(t, "first join", first.ErrorCode, codeMemberIDRequired)
		if first.MemberID == "" {
			t.Error("no member id")
		}
		second := m.tryJoin()
		wantCode(t, "second join", second.ErrorCode, codeNone)
		if second.MemberID != first.MemberID || second.Generation != 1 {
			t.Errorf("member %s of generation %d", second.MemberID, second.Generation)
		}

		old := c.consumer(t, "old")
		old.version = 3
		wantCode(t, "join of version 3", old.tryJoin().ErrorCode, codeNone)

		// An id that is not used is forgotten with the session, and its group with it.
		never := c.consumer(t, "never")
		never.tryJoin()
		c.wantState(t, "never", "Empty", 0)
		time.Sleep(never.session + time.Second)
		wantCode(t, "described", c.describe(t, "never").ErrorCode, codeGroupIDNotFound)
		wantCode(t, "late join", never.tryJoin().ErrorCode, codeUnknownMember)
	})
}

func TestFollowersLearnOfARebalanceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a := c.consumer(t, "g")
		together(t, a)
		wantCode(t, "heartbeat", a.heartbeat(), codeNone)

		b := c.consumer(t, "g")
		var wg sync.WaitGroup
		wg.Go(func() { b.join() })
		synctest.Wait()
		wantCode(t, "heartbeat", a.heartbeat(), codeRebalanceInProgress)
		wantCode(t, "commit during the rebalance", a.commit("lines", 0, 7), codeNone)
		c.wantState(t, "g", "PreparingRebalance", 2)
		a.join()
		wg.Wait()
		c.wantState(t, "g", "CompletingRebalance", 2)
		wantCode(t, "commit before the assignment", a.commit("lines", 0, 8), codeRebalanceInProgress)
		wantCode(t, "heartbeat", a.heartbeat(), codeNone)
		if a.generation != 2 || b.generation != 2 {
			t.Errorf("generations %d and %d", a.generation, b.generation)
		}
		wg.Go(func() { b.sync() })
		synctest.Wait()
		a.sync(a, b)
		wg.Wait()
		c.wantState(t, "g", "Stable", 2)
	})
}

func TestSessionEndsWithoutHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a, b := c.consumer(t, "g"), c.consumer(t, "g")
		a.version, b.version = 3, 3
		var wg sync.WaitGroup
		wg.Go(func() { a.join() })
		synctest.Wait()
		wg.Go(func() { b.join() })
		synctest.Wait()
		a.join()
		wg.Wait()
		wg.Go(func() { b.sync() })
		synctest.Wait()
		a.sync(a, b)
		wg.Wait()

		for range 10 { // a lives on, b is silent for 8 s
			time.Sleep(a.session * 8 / 100)
			wantCode(t, "heartbeat", a.heartbeat(), codeNone)
		}
		time.Sleep(a.session * 3 / 10)
		wantCode(t, "heartbeat of the other", a.heartbeat(), codeRebalanceInProgress)
		wantCode(t, "heartbeat of the silent one", b.heartbeat(), codeUnknownMember)
		a.join()
		a.sync(a)
		c.wantState(t, "g", "Stable", 1)
		time.Sleep(a.session + time.Second)
		c.wantState(t, "g", "Empty", 0)
	})
}

func TestMembersThatDoNotJoinAgainAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a := c.consumer(t, "g")
		a.session, a.rebalance = time.Hour/4, 20*time.Second
		together(t, a)
		b := c.consumer(t, "g")
		b.rebalance = 5 * time.Second
		began := time.Now()
		b.join()
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("waited %s for the other member", took)
		}
		wantCode(t, "heartbeat", a.heartbeat(), codeUnknownMember)
		wantCode(t, "sync", b.sync(b).ErrorCode, codeNone)
		c.wantState(t, "g", "Stable", 1)
	})
}

func TestMembersThatDoNotSyncAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a := c.consumer(t, "g")
		a.session, a.rebalance = time.Hour/4, 20*time.Second
		a.join()
		c.wantState(t, "g", "CompletingRebalance", 1)
		time.Sleep(21 * time.Second)
		c.wantState(t, "g", "Dead", 0)
	})
}

func TestParkedSyncSurvivesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a, b := c.consumer(t, "g"), c.consumer(t, "g")
		a.session = 10 * time.Minute
		var wg sync.WaitGroup
		together(t, a)
		wg.Go(func() { b.join() })
		synctest.Wait()
		a.join()
		wg.Wait()
		wg.Go(func() { wantCode(t, "sync", b.sync().ErrorCode, codeNone) })
		time.Sleep(3 * b.session)
		a.sync(a, b)
		wg.Wait()
		c.wantState(t, "g", "Stable", 2)
	})
}

func TestProtocolIsOneThatEveryMemberSupports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), withDelay(time.Second))
		a, b, other := c.consumer(t, "g"), c.consumer(t, "g"), c.consumer(t, "g")
		a.protocols = []string{"cooperative-sticky", "sticky", "range"}
		b.protocols = []string{"range", "sticky"}
		other.protocols = []string{"roundrobin"}
		together(t, a, b)
		if d := c.describe(t, "g"); d.Protocol != "sticky" && d.Protocol != "range" {
			t.Errorf("protocol %q", d.Protocol)
		}
		wantCode(t, "join", other.tryJoin().ErrorCode, codeInconsistentProtocol)
		other.protocols = nil
		wantCode(t, "join", other.tryJoin().ErrorCode, codeInconsistentProtocol)
	})
}

func TestLeavingMakesTheOthersJoinAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), withDelay(time.Second))
		a, b := c.consumer(t, "g"), c.consumer(t, "g")
		together(t, a, b)
		wantCode(t, "leave", b.leave(), codeNone)
		wantCode(t, "heartbeat", a.heartbeat(), codeRebalanceInProgress)
		a.join()
		a.sync(a)
		c.wantState(t, "g", "Stable", 1)
		wantCode(t, "leave of who is gone", b.leave(), codeUnknownMember)
		wantCode(t, "commit of who is gone", b.commit("lines", 0, 1), codeUnknownMember)
		wantCode(t, "leave", a.leave(), codeNone)
		c.wantState(t, "g", "Empty", 0)
	})
}

func TestRequestsOfAnotherGenerationAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a := c.consumer(t, "g")
		together(t, a)
		a.generation++
		wantCode(t, "heartbeat", a.heartbeat(), codeIllegalGeneration)
		wantCode(t, "sync", a.sync().ErrorCode, codeIllegalGeneration)
		wantCode(t, "commit", a.commit("lines", 0, 1), codeIllegalGeneration)
		wantCode(t, "commit without a member", c.commitSimple(t, "g", "lines", 0, 1), codeUnknownMember)
		nobody := c.consumer(t, "nobody")
		nobody.generation = 3
		wantCode(t, "commit to no group", nobody.commit("lines", 0, 1), codeIllegalGeneration)
		wantCode(t, "heartbeat to no group", nobody.heartbeat(), codeUnknownMember)
		wantCode(t, "sync to no group", nobody.sync().ErrorCode, codeUnknownMember)
	})
}

func TestRetriedJoinAndSyncGiveTheSameAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), withDelay(time.Second))
		a, b := c.consumer(t, "g"), c.consumer(t, "g")
		var wg sync.WaitGroup
		wg.Go(func() { a.join() })
		wg.Go(func() { b.join() })
		wg.Wait()
		if a.join(); a.generation != 1 {
			t.Errorf("generation %d", a.generation)
		}
		leader, follower := a, b
		if leader.tryJoin().LeaderID != a.id {
			leader, follower = b, a
		}
		leaderSaw := leader.tryJoin()
		if len(leaderSaw.Members) != 2 {
			t.Errorf("the leader sees %d members", len(leaderSaw.Members))
		}
		leader.sync(a, b)
		for range 2 {
			s := follower.sync()
			if string(s.MemberAssignment) != "to "+follower.id {
				t.Errorf("assignment %q", s.MemberAssignment)
			}
		}
		// A follower that joins again with nothing new changes nothing.
		if follower.join(); follower.generation != 1 {
			t.Errorf("generation %d", follower.generation)
		}
		c.wantState(t, "g", "Stable", 2)
	})
}

func TestGroupsAndSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions
		o.MaxMembers, o.MinSessionTimeout, o.MaxSessionTimeout = 1, 6*time.Second, time.Minute
		c := start(t, newFakeService(), o)
		a, b := c.consumer(t, "g"), c.consumer(t, "g")
		a.join()
		wantCode(t, "join of one too many", b.tryJoin().ErrorCode, codeGroupMaxSize)
		for _, d := range []time.Duration{5 * time.Second, 61 * time.Second} {
			b.session = d
			wantCode(t, "join", b.tryJoin().ErrorCode, codeInvalidSessionTimeout)
		}
		b.session, b.group = 10*time.Second, ""
		wantCode(t, "join", b.tryJoin().ErrorCode, codeInvalidGroupID)
	})
}

func TestGroupDoesNotWaitForAClientThatHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a, b, d := c.consumer(t, "g"), c.consumer(t, "g"), c.consumer(t, "g").static("d")
		together(t, a)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, m := range []*consumer{b, d} {
			m.ctx = ctx
			wg.Go(func() {
				if m.instance == nil {
					m.tryJoin() // for the id
				}
				wantCode(t, "join", m.tryJoin().ErrorCode, codeNotCoordinator)
			})
		}
		synctest.Wait()
		c.wantState(t, "g", "PreparingRebalance", 3)
		cancel()
		wg.Wait()
		c.wantState(t, "g", "PreparingRebalance", 2)
		d.ctx, d.id = nil, ""
		wg.Go(func() { d.join() })
		synctest.Wait()
		a.join()
		wg.Wait()
		c.wantState(t, "g", "CompletingRebalance", 2)
	})
}

func TestCloseAnswersWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a, b := c.consumer(t, "g"), c.consumer(t, "g")
		together(t, a)
		var wg sync.WaitGroup
		wg.Go(func() { wantCode(t, "join", b.static("b").tryJoin().ErrorCode, codeNotCoordinator) })
		d, e := c.consumer(t, "h").static("d"), c.consumer(t, "h").static("e")
		d.join()
		wg.Go(func() { e.join() })
		synctest.Wait()
		d.join()
		synctest.Wait()
		wg.Go(func() { wantCode(t, "sync", e.sync().ErrorCode, codeNotCoordinator) })
		synctest.Wait()
		stop(t, c)
		wg.Wait()
		wantCode(t, "heartbeat", a.heartbeat(), codeNotAvailable)
		wantCode(t, "join", a.tryJoin().ErrorCode, codeNotAvailable)
	})
}

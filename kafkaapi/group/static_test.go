package group

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestStaticMemberComesBackWithoutARebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, withDelay(time.Second))
		a, b := c.consumer(t, "g").static("a"), c.consumer(t, "g").static("b")
		together(t, a, b)
		leader, follower := a, b
		if c.describe(t, "g").Members[0].MemberID == b.id {
			leader, follower = b, a
		}
		// Both begin anew, as after a restart of their processes.
		back := c.consumer(t, "g").static(*follower.instance)
		resp := back.join()
		if back.id == follower.id || back.generation != 1 || resp.LeaderID != leader.id || resp.SkipAssignment || len(resp.Members) != 0 {
			t.Errorf("follower: %+v", resp)
		}
		if got := string(back.sync().MemberAssignment); got != "to "+follower.id {
			t.Errorf("assignment %q", got)
		}
		wantCode(t, "heartbeat of the other", leader.heartbeat(), codeNone)
		wantCode(t, "heartbeat of the old one", follower.heartbeat(), codeFencedInstance)
		wantCode(t, "commit of the old one", follower.commit("lines", 0, 1), codeFencedInstance)
		wantCode(t, "sync of the old one", follower.sync().ErrorCode, codeFencedInstance)
		wantCode(t, "join of the old one", follower.tryJoin().ErrorCode, codeFencedInstance)

		lead := c.consumer(t, "g").static(*leader.instance)
		if resp := lead.join(); resp.LeaderID != lead.id || !resp.SkipAssignment || len(resp.Members) != 2 {
			t.Errorf("leader of version 9: %+v", resp)
		}
		again := c.consumer(t, "g").static(*leader.instance)
		again.version = 8
		if resp := again.join(); resp.LeaderID == again.id || len(resp.Members) != 0 {
			t.Errorf("leader of version 8: %+v", resp)
		}
		c.wantState(t, "g", "Stable", 2)
		wantCode(t, "heartbeat", back.heartbeat(), codeNone)

		// The change is durable.
		stop(t, c)
		back.c = start(t, f, testOptions)
		back.c.wantState(t, "g", "Stable", 2) // loads
		wantCode(t, "heartbeat", back.heartbeat(), codeNone)
		follower.c = back.c
		wantCode(t, "heartbeat of the old one", follower.heartbeat(), codeFencedInstance)
	})
}

func TestStaticMemberWithAnotherProtocolMakesARebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a := c.consumer(t, "g").static("a")
		a.protocols = []string{"range", "sticky"}
		together(t, a)
		back := c.consumer(t, "g").static("a")
		back.protocols = []string{"sticky"}
		if back.join(); back.generation != 2 {
			t.Errorf("generation %d", back.generation)
		}
	})
}

func TestStaticMemberKeepsItsPlaceThroughARebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a := c.consumer(t, "g").static("a")
		a.session, a.rebalance = 20*time.Minute, 10*time.Second
		together(t, a)
		b := c.consumer(t, "g")
		b.rebalance = 10 * time.Second
		began := time.Now()
		resp := b.join()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
		if resp.LeaderID != b.id || len(resp.Members) != 2 {
			t.Errorf("%+v", resp)
		}
	})
}

func TestParkedRequestsOfAStaticMemberAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		a, b := c.consumer(t, "g").static("a"), c.consumer(t, "g").static("b")
		together(t, a)
		var wg sync.WaitGroup
		wg.Go(func() { wantCode(t, "parked join", b.tryJoin().ErrorCode, codeFencedInstance) })
		synctest.Wait()
		b2 := c.consumer(t, "g").static("b")
		wg.Go(func() { b2.join() })
		synctest.Wait()
		a.join()
		synctest.Wait()
		wg.Go(func() { wantCode(t, "parked sync", b2.sync().ErrorCode, codeFencedInstance) })
		synctest.Wait()
		b3 := c.consumer(t, "g").static("b")
		wg.Go(func() { b3.join() })
		synctest.Wait()
		wantCode(t, "heartbeat", a.heartbeat(), codeRebalanceInProgress)
		a.join()
		wg.Wait()
		c.wantState(t, "g", "CompletingRebalance", 2)
	})
}

func TestStaticMembersLeaveByInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), withDelay(time.Second))
		a, b := c.consumer(t, "g").static("a"), c.consumer(t, "g").static("b")
		together(t, a, b)
		nobody, other := "nobody", "other id"
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = 5, "g"
		req.Members = []kmsg.LeaveGroupRequestMember{
			{InstanceID: a.instance}, {InstanceID: &nobody}, {InstanceID: b.instance, MemberID: other}, {MemberID: b.id},
		}
		resp := c.LeaveGroup(t.Context(), req, Client{})
		wantCode(t, "leave", resp.ErrorCode, codeNone)
		for i, want := range []int16{codeNone, codeUnknownMember, codeFencedInstance, codeNone} {
			wantCode(t, "member", resp.Members[i].ErrorCode, want)
		}
		c.wantState(t, "g", "Empty", 0)
	})
}

func TestStaticMemberIsToldWhenItsReturnCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		a := c.consumer(t, "g").static("a")
		together(t, a)
		f.groupsLog("g").set(func(l *fakeLog) { l.onAppend = func() (error, bool) { return engine.ErrFull, false } })
		back := c.consumer(t, "g").static("a")
		wantCode(t, "join", back.tryJoin().ErrorCode, codeNotAvailable)
		f.groupsLog("g").set(func(l *fakeLog) { l.onAppend = nil })
		if back.join(); string(back.sync().MemberAssignment) != "to "+a.id {
			t.Error("the assignment is gone")
		}
	})
}

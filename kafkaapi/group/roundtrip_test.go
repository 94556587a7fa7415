package group

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// roundTrip is the response as a client of its version reads it.
func roundTrip[R kmsg.Response](t *testing.T, resp R) R {
	t.Helper()
	read := kmsg.ResponseForKey(resp.Key())
	read.SetVersion(resp.GetVersion())
	if err := read.ReadFrom(resp.AppendTo(nil)); err != nil {
		t.Fatalf("response %T of version %d: %v", resp, resp.GetVersion(), err)
	}
	return read.(R)
}

// Every version of every request is served, on requests that went over the wire, and answered in the same version.
func TestEveryVersionIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		ctx, cl := t.Context(), Client{"client", "/127.0.0.1"}
		serve := func(req kmsg.Request) kmsg.Response {
			t.Helper()
			read := kmsg.RequestForKey(req.Key())
			read.SetVersion(req.GetVersion())
			if err := read.ReadFrom(req.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
			return roundTrip(t, c.serve(ctx, read, cl))
		}
		for v := int16(0); v <= 9; v++ {
			join := kmsg.NewPtrJoinGroupRequest()
			join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = v, "g", 10_000, 10_000
			join.ProtocolType = "consumer"
			join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 1, 0, 0, 0, 0, 255, 255, 255, 255}}}
			joined := serve(join).(*kmsg.JoinGroupResponse)
			if v >= 4 {
				wantCode(t, "join", joined.ErrorCode, codeMemberIDRequired)
				join.MemberID = joined.MemberID
				joined = serve(join).(*kmsg.JoinGroupResponse)
			}
			wantCode(t, "join", joined.ErrorCode, codeNone)
			if *joined.Protocol != "range" || joined.Version != v || len(joined.Members) != 1 || v >= 7 && *joined.ProtocolType != "consumer" {
				t.Errorf("version %d: %+v", v, joined)
			}

			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Version, sync.Group, sync.MemberID, sync.Generation = min(v, 5), "g", joined.MemberID, joined.Generation
			sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("x")}}
			synced := serve(sync).(*kmsg.SyncGroupResponse)
			if wantCode(t, "sync", synced.ErrorCode, codeNone); string(synced.MemberAssignment) != "x" {
				t.Errorf("version %d: %+v", v, synced)
			}
			sync.Protocol = kmsg.StringPtr("sticky")
			if sync.Version == 5 {
				wantCode(t, "sync", serve(sync).(*kmsg.SyncGroupResponse).ErrorCode, codeInconsistentProtocol)
			}

			beat := kmsg.NewPtrHeartbeatRequest()
			beat.Version, beat.Group, beat.MemberID, beat.Generation = min(v, 4), "g", joined.MemberID, joined.Generation
			wantCode(t, "heartbeat", serve(beat).(*kmsg.HeartbeatResponse).ErrorCode, codeNone)

			if v >= 1 {
				commit := commitRequest("g", "lines", 0, int64(v))
				commit.Version, commit.MemberID, commit.Generation = v, joined.MemberID, joined.Generation
				wantCode(t, "commit", commitCode(serve(commit).(*kmsg.OffsetCommitResponse)), codeNone)
			}

			describe := kmsg.NewPtrDescribeGroupsRequest()
			describe.Version, describe.Groups, describe.IncludeAuthorizedOperations = min(v, 6), []string{"g", "none"}, true
			described := serve(describe).(*kmsg.DescribeGroupsResponse).Groups
			if described[0].State != "Stable" || string(described[0].Members[0].MemberAssignment) != "x" || described[1].State != "Dead" {
				t.Errorf("version %d: %+v", v, described)
			}
			if want := codeGroupIDNotFound; v >= 6 {
				wantCode(t, "describe", described[1].ErrorCode, want)
			}

			list := kmsg.NewPtrListGroupsRequest()
			list.Version = min(v, 5)
			if l := serve(list).(*kmsg.ListGroupsResponse); len(l.Groups) != 1 || l.Groups[0].Group != "g" {
				t.Errorf("version %d: %+v", v, l)
			}

			leave := kmsg.NewPtrLeaveGroupRequest()
			leave.Version, leave.Group, leave.MemberID = min(v, 5), "g", joined.MemberID
			leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: joined.MemberID}}
			left := serve(leave).(*kmsg.LeaveGroupResponse)
			wantCode(t, "leave", left.ErrorCode, codeNone)

			del := kmsg.NewPtrDeleteGroupsRequest()
			del.Version, del.Groups = min(v, 3), []string{"g"}
			wantCode(t, "delete", serve(del).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode, codeNone)
		}
	})
}

// Requests are borrowed: nothing of them may be kept.
func TestNothingOfARequestIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		call := func(req kmsg.Request) kmsg.Response {
			wire := req.AppendTo(nil)
			read := kmsg.RequestForKey(req.Key())
			read.SetVersion(req.GetVersion())
			var err error
			if u, ok := read.(kmsg.UnsafeReadFrom); ok {
				err = u.UnsafeReadFrom(wire)
			} else {
				err = read.ReadFrom(wire)
			}
			if err != nil {
				t.Fatal(err)
			}
			resp := roundTrip(t, c.serve(t.Context(), read, Client{}))
			for i := range wire {
				wire[i] = 0xdb
			}
			return resp
		}
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 9, "g", 10_000, 10_000
		join.InstanceID, join.ProtocolType = kmsg.StringPtr("instance"), "consumer"
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("metadata")}}
		joined := call(join).(*kmsg.JoinGroupResponse)
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group, sync.MemberID, sync.Generation = 5, "g", joined.MemberID, joined.Generation
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("assigned")}}
		call(sync)
		commit := commitRequest("g", "lines", 0, 7)
		commit.MemberID, commit.Generation = joined.MemberID, joined.Generation
		call(commit)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 7})
		d := c.describe(t, "g")
		m := d.Members[0]
		if d.Protocol != "range" || d.ProtocolType != "consumer" || m.MemberID != joined.MemberID || *m.InstanceID != "instance" ||
			string(m.ProtocolMetadata) != "metadata" || string(m.MemberAssignment) != "assigned" {
			t.Errorf("%+v", d)
		}
	})
}

// serve dispatches a request by its type.
func (c *Coordinator) serve(ctx context.Context, req kmsg.Request, cl Client) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		return c.JoinGroup(ctx, req, cl)
	case *kmsg.SyncGroupRequest:
		return c.SyncGroup(ctx, req, cl)
	case *kmsg.HeartbeatRequest:
		return c.Heartbeat(ctx, req, cl)
	case *kmsg.LeaveGroupRequest:
		return c.LeaveGroup(ctx, req, cl)
	case *kmsg.OffsetCommitRequest:
		return c.OffsetCommit(ctx, req, cl)
	case *kmsg.OffsetFetchRequest:
		return c.OffsetFetch(ctx, req, cl)
	case *kmsg.ListGroupsRequest:
		return c.ListGroups(ctx, req, cl)
	case *kmsg.DescribeGroupsRequest:
		return c.DescribeGroups(ctx, req, cl)
	case *kmsg.DeleteGroupsRequest:
		return c.DeleteGroups(ctx, req, cl)
	}
	panic("no handler")
}

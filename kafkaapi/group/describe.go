package group

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	groupType = "classic"
	deadState = "Dead" // of a group that does not exist
	// groupOperations are the operations that a group has, as bits: read, delete and describe. Nobody is refused any.
	groupOperations = 1<<3 | 1<<6 | 1<<8
)

// ListGroups serves versions 0 to 5. It needs every partition of the topic; while one cannot be loaded, the groups of the
// others come with COORDINATOR_LOAD_IN_PROGRESS.
func (c *Coordinator) ListGroups(ctx context.Context, req *kmsg.ListGroupsRequest, _ Client) *kmsg.ListGroupsResponse {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	shards, err := c.current()
	if err != nil {
		resp.ErrorCode = codeNotAvailable
		return resp
	}
	if len(req.TypesFilter) > 0 && !containsFold(req.TypesFilter, groupType) {
		return resp
	}
	for _, s := range shards {
		s.kick()
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, s := range shards {
		all.Go(func() {
			code := s.lockLoaded(ctx)
			var groups []kmsg.ListGroupsResponseGroup
			if code == codeNone {
				groups = s.list(req.StatesFilter)
				s.mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			resp.Groups = append(resp.Groups, groups...)
			resp.ErrorCode = max(resp.ErrorCode, code)
		})
	}
	all.Wait()
	slices.SortFunc(resp.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	return resp
}

// list returns the groups in one of the states; none given are all. s.mu is held.
func (s *shard) list(states []string) []kmsg.ListGroupsResponseGroup {
	var groups []kmsg.ListGroupsResponseGroup
	for _, g := range s.groups {
		if g.dead || len(states) > 0 && !containsFold(states, g.state.String()) {
			continue
		}
		lg := kmsg.NewListGroupsResponseGroup()
		lg.Group, lg.ProtocolType, lg.GroupState, lg.GroupType = g.id, g.protocolType, g.state.String(), groupType
		groups = append(groups, lg)
	}
	return groups
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, s) })
}

// DescribeGroups serves versions 0 to 6. A group that does not exist is in state Dead; from version 6 it is an error
// (KIP-1043).
func (c *Coordinator) DescribeGroups(ctx context.Context, req *kmsg.DescribeGroupsRequest, _ Client) *kmsg.DescribeGroupsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, id := range req.Groups {
		d := kmsg.NewDescribeGroupsResponseGroup()
		d.Group = id
		if s, code := c.lock(ctx, id); code != codeNone {
			d.ErrorCode = code
		} else {
			s.groups[id].describe(&d, req.Version)
			s.mu.Unlock()
		}
		if req.IncludeAuthorizedOperations && d.ErrorCode == codeNone {
			d.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}

// describe fills in what the group is. The group may be nil.
func (g *group) describe(d *kmsg.DescribeGroupsResponseGroup, version int16) {
	if g == nil || g.dead {
		d.State = deadState
		if version >= 6 {
			d.ErrorCode = codeGroupIDNotFound
			d.ErrorMessage = kmsg.StringPtr("there is no such group")
		}
		return
	}
	d.State, d.ProtocolType = g.state.String(), g.protocolType
	if g.state == stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.ordered() {
		dm := kmsg.NewDescribeGroupsResponseGroupMember()
		dm.MemberID, dm.InstanceID, dm.ClientID, dm.ClientHost = m.id, m.instance, m.client.ID, m.client.Host
		if g.state == stable {
			// In other states they are about to change.
			dm.ProtocolMetadata, dm.MemberAssignment = m.metadata(g.protocol), m.assignment
		}
		d.Members = append(d.Members, dm)
	}
}

package kafkaapi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/kafkaapi/group"
)

// api is one API key of the protocol.
type api struct {
	key      kmsg.Key
	name     string
	min, max int16 // advertised
	served   int16 // lowest version that is answered; below it is advertised for old clients that look, and refused
	flexible int16 // first version with tagged fields
	parks    bool  // may wait for other clients
	handle   func(*request) error
}

// table is every API that is served, by key.
type table []api

// apis is filled by init, since ApiVersions reads it.
var apis table

func init() {
	apis = table{
		{key: kmsg.Produce, name: "Produce", min: 0, max: 11, served: 3, flexible: 9, handle: handleProduce},
		{key: kmsg.Fetch, name: "Fetch", min: 4, max: 17, flexible: 12, handle: handleFetch},
		{key: kmsg.ListOffsets, name: "ListOffsets", min: 1, max: 10, flexible: 6, handle: typed[kmsg.ListOffsetsRequest](listOffsets)},
		{key: kmsg.Metadata, name: "Metadata", min: 0, max: 13, flexible: 9, handle: typed[kmsg.MetadataRequest](metadata)},
		{key: kmsg.OffsetCommit, name: "OffsetCommit", min: 1, max: 9, flexible: 8, handle: grouped[kmsg.OffsetCommitRequest]((*group.Coordinator).OffsetCommit)},
		{key: kmsg.OffsetFetch, name: "OffsetFetch", min: 1, max: 9, flexible: 6, handle: grouped[kmsg.OffsetFetchRequest]((*group.Coordinator).OffsetFetch)},
		{key: kmsg.FindCoordinator, name: "FindCoordinator", min: 0, max: 6, flexible: 3, handle: typed[kmsg.FindCoordinatorRequest](findCoordinator)},
		{key: kmsg.JoinGroup, name: "JoinGroup", min: 0, max: 9, flexible: 6, parks: true, handle: grouped[kmsg.JoinGroupRequest]((*group.Coordinator).JoinGroup)},
		{key: kmsg.Heartbeat, name: "Heartbeat", min: 0, max: 4, flexible: 4, handle: grouped[kmsg.HeartbeatRequest]((*group.Coordinator).Heartbeat)},
		{key: kmsg.LeaveGroup, name: "LeaveGroup", min: 0, max: 5, flexible: 4, handle: grouped[kmsg.LeaveGroupRequest]((*group.Coordinator).LeaveGroup)},
		{key: kmsg.SyncGroup, name: "SyncGroup", min: 0, max: 5, flexible: 4, parks: true, handle: grouped[kmsg.SyncGroupRequest]((*group.Coordinator).SyncGroup)},
		{key: kmsg.DescribeGroups, name: "DescribeGroups", min: 0, max: 6, flexible: 5, handle: grouped[kmsg.DescribeGroupsRequest]((*group.Coordinator).DescribeGroups)},
		{key: kmsg.ListGroups, name: "ListGroups", min: 0, max: 5, flexible: 3, handle: grouped[kmsg.ListGroupsRequest]((*group.Coordinator).ListGroups)},
		{key: kmsg.ApiVersions, name: "ApiVersions", min: 0, max: 4, flexible: 3, handle: handleApiVersions},
		{key: kmsg.CreateTopics, name: "CreateTopics", min: 2, max: 7, flexible: 5, handle: typed[kmsg.CreateTopicsRequest](createTopics)},
		{key: kmsg.DeleteTopics, name: "DeleteTopics", min: 1, max: 6, flexible: 4, handle: typed[kmsg.DeleteTopicsRequest](deleteTopics)},
		{key: kmsg.DeleteRecords, name: "DeleteRecords", min: 0, max: 2, flexible: 2, handle: typed[kmsg.DeleteRecordsRequest](deleteRecords)},
		{key: kmsg.InitProducerID, name: "InitProducerId", min: 0, max: 5, flexible: 2, handle: typed[kmsg.InitProducerIDRequest](initProducerID)},
		{key: kmsg.OffsetForLeaderEpoch, name: "OffsetForLeaderEpoch", min: 2, max: 4, flexible: 4, handle: typed[kmsg.OffsetForLeaderEpochRequest](offsetForLeaderEpoch)},
		{key: kmsg.DescribeConfigs, name: "DescribeConfigs", min: 1, max: 4, flexible: 4, handle: handleDescribeConfigs},
		{key: kmsg.AlterConfigs, name: "AlterConfigs", min: 0, max: 2, flexible: 2, handle: typed[kmsg.AlterConfigsRequest](alterConfigs)},
		{key: kmsg.CreatePartitions, name: "CreatePartitions", min: 0, max: 3, flexible: 2, handle: typed[kmsg.CreatePartitionsRequest](createPartitions)},
		{key: kmsg.DeleteGroups, name: "DeleteGroups", min: 0, max: 2, flexible: 2, handle: grouped[kmsg.DeleteGroupsRequest]((*group.Coordinator).DeleteGroups)},
		{key: kmsg.IncrementalAlterConfigs, name: "IncrementalAlterConfigs", min: 0, max: 1, flexible: 1, handle: typed[kmsg.IncrementalAlterConfigsRequest](incrementalAlterConfigs)},
		{key: kmsg.OffsetDelete, name: "OffsetDelete", min: 0, max: 0, flexible: 100, handle: grouped[kmsg.OffsetDeleteRequest]((*group.Coordinator).OffsetDelete)},
		{key: kmsg.DescribeCluster, name: "DescribeCluster", min: 0, max: 2, flexible: 0, handle: typed[kmsg.DescribeClusterRequest](describeCluster)},
	}
	for i := range apis {
		a := &apis[i]
		a.served = max(a.served, a.min)
		byKey[a.key] = a
	}
}

var byKey [128]*api

func (table) find(key int16) *api {
	if key < 0 || int(key) >= len(byKey) {
		return nil
	}
	return byKey[key]
}

// typed makes a handler of a function from a decoded request to its response; nil is no response, for a request that
// cannot be answered: the connection is then closed.
func typed[T any, P interface {
	*T
	kmsg.Request
}](fn func(*request, P) kmsg.Response) func(*request) error {
	return func(r *request) error {
		req := P(new(T))
		if err := r.decode(req); err != nil {
			return err
		}
		resp := fn(r, req)
		if resp == nil {
			return fmt.Errorf("%w: %s cannot be answered", errProtocol, r.api.name)
		}
		return r.respond(resp)
	}
}

// expansion is how many times the bytes of a request its decoded form may take: the decoder checks the number of elements
// of each array against the bytes left, by the least that one of them takes, so that what is left is the ratio of the
// structures in memory to those bytes.
const expansion = 40

// decode decodes the body, having taken memory for it.
func (r *request) decode(req kmsg.Request) error {
	if n := len(r.body); n > readBuffer {
		if err := r.frame.share.grow(r.c.ctx, int64(n)*expansion); err != nil {
			return err
		}
	}
	if r.api.parks {
		// What the request holds outlives it: groups keep their members' metadata. The memory is theirs from here on.
		r.body = bytes.Clone(r.body)
		defer func() {
			r.frame.release()
			r.frame = nil
		}()
	}
	req.SetVersion(r.version)
	if err := req.ReadFrom(r.body); err != nil {
		return fmt.Errorf("%w: %s version %d cannot be decoded: %w", errProtocol, r.api.name, r.version, err)
	}
	return nil
}

// responseBytes lends memory for encoding responses.
var responseBytes = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// keepBytes is the largest slice that goes back to responseBytes.
const keepBytes = 64 << 10

func giveBack(p *[]byte, b []byte) {
	if cap(b) <= keepBytes {
		*p = b[:0]
		responseBytes.Put(p)
	}
}

// appendHeader begins a response at the start of b: room for the length, and the header. [finish] writes the length.
func (r *request) appendHeader(b []byte) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(r.correlation))
	if r.flexible() && r.api.key != kmsg.ApiVersions {
		b = append(b, 0) // no tagged fields
	}
	return b
}

func (r *request) encode(b []byte, resp kmsg.Response) []byte {
	resp.SetVersion(r.version)
	b = resp.AppendTo(r.appendHeader(b))
	finish(b, len(b))
	return b
}

// finish writes the length of a response of n bytes, whose beginning is b.
func finish(b []byte, n int) { binary.BigEndian.PutUint32(b, uint32(n-4)) }

// respond writes the response, once those of earlier requests are.
func (r *request) respond(resp kmsg.Response) error {
	p := responseBytes.Get().(*[]byte)
	b := r.encode(*p, resp)
	err := r.write(b)
	giveBack(p, b)
	return err
}

func (r *request) write(b []byte) error {
	r.answered(len(b))
	if err := r.c.out.waitIdle(); err != nil {
		return err
	}
	return r.c.write(b)
}

func (r *request) answered(n int) {
	r.c.s.ev.Answered(r.api.name, r.version, len(r.body), n, time.Since(r.started))
}

package kafkaapi

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/topicconfig"
	"github.com/headpond/headpond/kafkaapi/group"
)

// The keys of groups, 8, 9, 11 to 16, 42 and 47, are handled in package group, which says how they behave.

// grouped makes a handler of one of the coordinator's methods.
func grouped[T any, P interface {
	*T
	kmsg.Request
}, R kmsg.Response](method func(*group.Coordinator, context.Context, P, group.Client) R) func(*request) error {
	return typed[T](func(r *request, req P) kmsg.Response {
		// The host in Kafka's form, which tools print.
		return method(r.c.s.groups, r.c.ctx, req, group.Client{ID: r.c.clientID, Host: "/" + r.c.host})
	})
}

// groupOptions translates the broker's settings.
func groupOptions(o *Options) group.Options {
	b := o.Broker
	g := group.Options{
		Partitions:            int32(b.Int(topicconfig.OffsetsTopicNumPartitions)),
		InitialRebalanceDelay: b.Duration(topicconfig.GroupInitialRebalanceMs),
		MinSessionTimeout:     b.Duration(topicconfig.GroupMinSessionTimeoutMs),
		MaxSessionTimeout:     b.Duration(topicconfig.GroupMaxSessionTimeoutMs),
		MaxMembers:            int(b.Int(topicconfig.GroupMaxSize)),
		OffsetsRetention:      b.Duration(topicconfig.OffsetsRetentionMinutes),
		MaxMetadataBytes:      int(b.Int(topicconfig.OffsetMetadataMaxBytes)),
		Logger:                o.Logger,
		Now:                   o.Now,
	}
	if g.InitialRebalanceDelay == 0 {
		g.InitialRebalanceDelay = -time.Millisecond // zero stands for the default
	}
	return g
}

// Groups is the coordinator, for what is reported of groups. It is shut down with the server.
func (s *Server) Groups() *group.Coordinator { return s.groups }

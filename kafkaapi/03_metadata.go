package kafkaapi

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
)

// Metadata (key 3), versions 0 to 13: brokers and topics.
//
// Version 0 takes no topics for all of them; later ones take null for all and an empty list for none. From 4 the client
// says whether topics may be made, from 10 topics have ids, from 12 they can be asked for by id with a null name, 13 has
// an error of its own for the whole response, which is always 0 here.
//
// There is one broker, which leads every partition and is its only replica, whatever replication factor was asked for.
// A topic asked for twice is answered once. A topic that is made on the way is answered at once, where Kafka first
// answers LEADER_NOT_AVAILABLE. Authorized operations are not known: there is no authorizer.

// autoCreateTimeout bounds the making of a topic that a client asked about.
const autoCreateTimeout = 10 * time.Second

func metadata(r *request, req *kmsg.MetadataRequest) kmsg.Response {
	s := r.c.s
	resp := kmsg.NewPtrMetadataResponse()
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID = s.o.NodeID
	broker.Host, broker.Port = r.c.advertised()
	resp.Brokers = append(resp.Brokers, broker)
	resp.ClusterID = &s.clusterID
	resp.ControllerID = s.o.NodeID

	if req.Topics == nil || r.version == 0 && len(req.Topics) == 0 {
		topics := s.svc.Topics()
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(topics))
		for _, t := range topics {
			resp.Topics = append(resp.Topics, r.describe(t))
		}
		return resp
	}
	mayCreate := s.autoCreate && (r.version < 4 || req.AllowAutoTopicCreation)
	type asked struct {
		name string
		id   engine.ID
	}
	seen := make(map[asked]bool, len(req.Topics))
	for _, rt := range req.Topics {
		a := asked{id: rt.TopicID}
		if rt.Topic != nil {
			a = asked{name: *rt.Topic}
		}
		if seen[a] {
			continue
		}
		seen[a] = true
		var t *engine.Topic
		var err error
		if rt.Topic != nil {
			t, err = r.topicOrNew(*rt.Topic, mayCreate)
		} else {
			var known *topic
			if known, err = s.topicByID(rt.TopicID); err == nil {
				t = known.Topic
			}
		}
		if err != nil {
			out := kmsg.NewMetadataResponseTopic()
			out.ErrorCode, out.Topic, out.TopicID = r.code(err, refused), rt.Topic, rt.TopicID
			if rt.Topic != nil {
				out.TopicID = engine.ID{}
			} else if r.version < 12 {
				out.Topic = new(string)
			}
			resp.Topics = append(resp.Topics, out)
			continue
		}
		resp.Topics = append(resp.Topics, r.describe(t))
	}
	return resp
}

// topicOrNew returns the topic of that name, which it makes if it may.
func (r *request) topicOrNew(name string, mayCreate bool) (*engine.Topic, error) {
	s := r.c.s
	t, err := s.svc.Topic(name)
	if !errors.Is(err, engine.ErrNotFound) {
		return t, err
	}
	if bad := checkName(name); bad != nil {
		return nil, bad
	}
	if !mayCreate || reserved(name) {
		return nil, err
	}
	change := engine.TopicChange{Partitions: s.partitions, Config: map[string]string{}}
	if err := s.newTopic(name, change); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.c.ctx, autoCreateTimeout)
	defer cancel()
	t, err = s.makeTopic(ctx, name, change)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return s.svc.Topic(name)
	case err != nil:
		s.log.Warn("cannot make the topic that a client asked for", "topic", name, "error", err)
		return nil, refuse(kerr.LeaderNotAvailable, err.Error())
	}
	return t, nil
}

func (r *request) describe(t *engine.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, t.Internal
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	replicas := []int32{r.c.s.o.NodeID}
	for i := range out.Partitions {
		p := &out.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.Replicas, p.ISR = int32(i), r.c.s.o.NodeID, replicas, replicas
		if r.version < 7 {
			continue
		}
		// While the log is opened again the epoch is not known; the broker still is the one to ask.
		if h, err := r.c.s.partition(t, int32(i)); err == nil {
			if o, err := h.Offsets(); err == nil {
				p.LeaderEpoch = o.LeaderEpoch
			}
		}
	}
	return out
}

// advertised is the address that the client is told to connect to.
func (c *conn) advertised() (host string, port int32) {
	address := c.s.o.Advertise
	if address == "" {
		address = c.nc.LocalAddr().String()
	}
	host, port, err := splitAddress(address)
	if err != nil { // not a network connection, as in tests
		return "localhost", 9092
	}
	return host, port
}

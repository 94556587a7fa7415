package kafkaapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/topicconfig"
)

// maxPartitions is how many partitions a topic may have.
const maxPartitions = 100_000

// topic is a topic with what holds for it. It is immutable.
type topic struct {
	*engine.Topic
	topicconfig.Settings
}

// topicCache spares the reading of a topic's settings for each request.
type topicCache struct {
	mu     sync.RWMutex
	byName map[string]*topic
}

// topic returns the topic of that name, which need not outlive the call.
func (s *Server) topic(name string) (*topic, error) {
	t, err := s.svc.Topic(name)
	if err != nil {
		if errors.Is(err, engine.ErrNotFound) {
			s.topics.drop(name)
		}
		return nil, err
	}
	return s.topics.resolve(t, s.o.Broker), nil
}

// topicByID returns the topic with that id, or a kerr.UnknownTopicID.
func (s *Server) topicByID(id engine.ID) (*topic, error) {
	t, err := s.svc.TopicByID(id)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, refuse(kerr.UnknownTopicID, "no topic has this id")
	}
	if err != nil {
		return nil, err
	}
	return s.topics.resolve(t, s.o.Broker), nil
}

func (tc *topicCache) resolve(t *engine.Topic, b *topicconfig.Broker) *topic {
	tc.mu.RLock()
	known := tc.byName[t.Name]
	tc.mu.RUnlock()
	if known != nil && known.Topic == t {
		return known
	}
	known = &topic{t, topicconfig.Resolve(t.Config, b)}
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.byName == nil {
		tc.byName = make(map[string]*topic)
	}
	tc.byName[t.Name] = known
	return known
}

func (tc *topicCache) drop(name string) {
	tc.mu.RLock()
	_, known := tc.byName[name]
	tc.mu.RUnlock()
	if known {
		tc.mu.Lock()
		delete(tc.byName, name)
		tc.mu.Unlock()
	}
}

// partition returns a handle of a partition of the topic.
func (s *Server) partition(t *engine.Topic, index int32) (*engine.Partition, error) {
	if index < 0 || index >= t.Partitions {
		return nil, refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("topic %s has no partition %d: it has %d", t.Name, index, t.Partitions))
	}
	return s.svc.Partition(engine.PartitionID{Topic: t.ID, Partition: index})
}

// find returns a handle of a partition by its topic's name.
func (s *Server) find(name string, index int32) (*topic, *engine.Partition, error) {
	t, err := s.topic(name)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.partition(t.Topic, index)
	return t, p, err
}

// checkLeaderEpoch compares the leader epoch that a client knows with the partition's (KIP-320); negative is not known.
func checkLeaderEpoch(known int32, o engine.Offsets) error {
	switch {
	case known < 0 || known == o.LeaderEpoch:
		return nil
	case known < o.LeaderEpoch:
		return refuse(kerr.FencedLeaderEpoch, fmt.Sprintf("the leader epoch is %d, the client knows %d", o.LeaderEpoch, known))
	}
	return refuse(kerr.UnknownLeaderEpoch, fmt.Sprintf("the leader epoch is %d, the client knows %d", o.LeaderEpoch, known))
}

// reserved are the names of Kafka's internal topics, which clients do not make.
func reserved(name string) bool { return name == "__consumer_offsets" || name == "__transaction_state" }

// checkName says whether a topic may have the name: 1 to 249 of a-z A-Z 0-9 . _ - and not only dots.
func checkName(name string) error {
	switch {
	case name == "":
		return refuse(kerr.InvalidTopicException, "a topic's name must not be empty")
	case len(name) > 249:
		return refuse(kerr.InvalidTopicException, fmt.Sprintf("a topic's name may have 249 characters, this one has %d", len(name)))
	case name == "." || name == "..":
		return refuse(kerr.InvalidTopicException, fmt.Sprintf("a topic cannot be named %q", name))
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return refuse(kerr.InvalidTopicException, fmt.Sprintf("the character %q of the topic's name is not one of a-z, A-Z, 0-9, '.', '_' and '-'", c))
		}
	}
	return nil
}

// collision returns the topic whose name differs only in dots and underscores, which Kafka's metrics do not tell apart.
func (s *Server) collision(name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	flat := strings.ReplaceAll(name, ".", "_")
	for _, t := range s.svc.Topics() {
		if len(t.Name) == len(name) && t.Name != name && strings.ReplaceAll(t.Name, ".", "_") == flat {
			return t.Name
		}
	}
	return ""
}

// newTopic checks what a topic is to be.
func (s *Server) newTopic(name string, c engine.TopicChange) error {
	if err := checkName(name); err != nil {
		return err
	}
	if reserved(name) {
		return refuse(kerr.InvalidTopicException, fmt.Sprintf("topic %s is the broker's own", name))
	}
	if other := s.collision(name); other != "" {
		return refuse(kerr.InvalidTopicException, fmt.Sprintf("topic %s would differ from topic %s in dots and underscores only", name, other))
	}
	if _, err := s.svc.Topic(name); err == nil {
		return refuse(kerr.TopicAlreadyExists, fmt.Sprintf("topic %s exists already", name))
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		return refuse(kerr.InvalidPartitions, fmt.Sprintf("a topic has 1 to %d partitions, not %d", maxPartitions, c.Partitions))
	}
	if err := topicconfig.CheckTopic(c.Config); err != nil {
		return refuse(kerr.InvalidConfig, err.Error())
	}
	return nil
}

// makeTopic makes a topic that [Server.newTopic] has found good.
func (s *Server) makeTopic(ctx context.Context, name string, c engine.TopicChange) (*engine.Topic, error) {
	t, err := s.svc.CreateTopic(ctx, name, c)
	if errors.Is(err, engine.ErrExists) {
		return nil, refuse(kerr.TopicAlreadyExists, fmt.Sprintf("topic %s exists already", name))
	}
	if err != nil {
		return nil, err
	}
	s.log.Info("topic created", "topic", name, "partitions", c.Partitions, "config", c.Config)
	s.warn(name, c.Config)
	return t, nil
}

// warn logs what is set on a topic and does not do what it promises.
func (s *Server) warn(name string, config map[string]string) {
	for _, w := range topicconfig.Warnings(config) {
		s.log.Warn("topic setting has no effect", "topic", name, "warning", w)
	}
}

// changeDeadline bounds a change of metadata by the request's timeout, in milliseconds, within reason.
func (r *request) changeDeadline(millis int32) (context.Context, context.CancelFunc) {
	d := time.Duration(millis) * time.Millisecond
	return context.WithTimeout(r.c.ctx, min(max(d, time.Second), 2*time.Minute))
}

// concurrently runs fn for 0 to n-1, several at once, so that changes share writes of the log, and waits.
func concurrently(n int, fn func(int)) {
	if n == 1 {
		fn(0)
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			fn(i)
		})
	}
	wg.Wait()
}

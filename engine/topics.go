package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// topicPrefix begins the metadata keys of topics; the topic's name follows.
const topicPrefix = "topic/"

// topicValue is the metadata value of a topic.
type topicValue struct {
	ID         string            `json:"id"`
	Partitions int32             `json:"partitions"`
	Internal   bool              `json:"internal,omitempty"`
	Config     map[string]string `json:"config,omitempty"`
}

func encodeTopic(t *Topic) []byte {
	b, err := json.Marshal(topicValue{ID: hex.EncodeToString(t.ID[:]), Partitions: t.Partitions, Internal: t.Internal, Config: t.Config})
	if err != nil {
		panic(fmt.Sprintf("topic %q: %v", t.Name, err)) // strings and integers always encode
	}
	return b
}

func decodeTopic(m MetaChange) (*Topic, error) {
	var v topicValue
	if err := json.Unmarshal(m.Value, &v); err != nil {
		return nil, fmt.Errorf("%w: metadata %q: %w", ErrCorrupt, m.Key, err)
	}
	t := &Topic{Name: strings.TrimPrefix(m.Key, topicPrefix), Partitions: v.Partitions, Internal: v.Internal, Config: v.Config, Rev: m.Rev}
	if t.Config == nil {
		t.Config = map[string]string{}
	}
	id, err := hex.DecodeString(v.ID)
	if err != nil || len(id) != len(t.ID) || t.Partitions < 1 {
		return nil, fmt.Errorf("%w: metadata %q: id %q, %d partitions", ErrCorrupt, m.Key, v.ID, v.Partitions)
	}
	copy(t.ID[:], id)
	return t, nil
}

// catalog is the topics at one moment. It is immutable: a change makes a new one.
type catalog struct {
	byName map[string]*Topic
	byID   map[ID]*Topic
	sorted []*Topic
}

func newCatalog(topics []*Topic) *catalog {
	c := &catalog{byName: make(map[string]*Topic, len(topics)), byID: make(map[ID]*Topic, len(topics)), sorted: topics}
	slices.SortFunc(topics, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range topics {
		c.byName[t.Name], c.byID[t.ID] = t, t
	}
	return c
}

// Topic returns the topic of that name, or [ErrNotFound].
func (e *Engine) Topic(name string) (*Topic, error) {
	if t := e.topics.Load().byName[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("topic %q: %w", name, ErrNotFound)
}

// TopicByID returns the topic with that id, or [ErrNotFound].
func (e *Engine) TopicByID(id ID) (*Topic, error) {
	if t := e.topics.Load().byID[id]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("topic id %x: %w", id, ErrNotFound)
}

// Topics returns all topics, in name order. The slice is shared and must not be changed.
func (e *Engine) Topics() []*Topic { return e.topics.Load().sorted }

// CreateTopic makes a topic; [ErrExists] when the name is taken. It is durable and visible when it returns nil.
func (e *Engine) CreateTopic(ctx context.Context, name string, c TopicChange) (*Topic, error) {
	if name == "" || c.Partitions < 1 {
		return nil, fmt.Errorf("create topic %q with %d partitions: %w", name, c.Partitions, ErrInvalid)
	}
	return e.writeTopic(ctx, &Topic{Name: name, ID: newID(), Partitions: c.Partitions, Internal: c.Internal, Config: maps.Clone(c.Config)})
}

// UpdateTopic changes t if its revision is still the current one, else [ErrExists]: read it again and decide anew.
func (e *Engine) UpdateTopic(ctx context.Context, t *Topic, c TopicChange) (*Topic, error) {
	if c.Partitions < t.Partitions {
		return nil, fmt.Errorf("topic %q: %w: it has %d partitions and can't be made to have %d", t.Name, ErrInvalid, t.Partitions, c.Partitions)
	}
	return e.writeTopic(ctx, &Topic{Name: t.Name, ID: t.ID, Partitions: c.Partitions, Internal: t.Internal, Config: maps.Clone(c.Config), Rev: t.Rev})
}

// writeTopic writes the topic if its revision is the current one.
func (e *Engine) writeTopic(ctx context.Context, t *Topic) (*Topic, error) {
	rev, err := e.Metadata().CompareAndSwap(ctx, topicPrefix+t.Name, t.Rev, encodeTopic(t))
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", t.Name, err)
	}
	if t.Config == nil {
		t.Config = map[string]string{}
	}
	t.Rev = rev
	return t, nil
}

// DeleteTopic removes this incarnation of a topic with its records; [ErrNotFound] when it is gone.
func (e *Engine) DeleteTopic(ctx context.Context, t *Topic) error {
	s, err := e.session()
	if err != nil {
		return err
	}
	_, err = s.commit(ctx, func() (*Commit, error) {
		now := e.topics.Load().byID[t.ID]
		if now == nil {
			return nil, ErrNotFound
		}
		c := &Commit{Meta: []MetaChange{{Key: topicPrefix + now.Name}}}
		for n := range now.Partitions {
			c.Dropped = append(c.Dropped, PartitionID{Topic: now.ID, Partition: n})
		}
		return c, nil
	})
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", t.Name, err)
	}
	return nil
}

// producerIDsKey is the metadata key of the first producer id that no block given out contains.
const producerIDsKey = "producer-ids"

// producerIDBlock is how many producer ids one commit reserves.
const producerIDBlock = 1000

// ProducerID returns a producer id that was never returned before. Ids come from blocks that are reserved in the log before any
// of them is given out, so a restart skips the rest of a block and repeats none.
func (e *Engine) ProducerID(ctx context.Context) (int64, error) {
	if err := e.idLock.Acquire(ctx, 1); err != nil {
		return 0, fmt.Errorf("producer id: %w: %w", ErrUnavailable, err)
	}
	defer e.idLock.Release(1)
	if e.nextID == e.idEnd {
		m, err := e.Metadata().Get(producerIDsKey)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, fmt.Errorf("producer id: %w", err)
		}
		var first int64
		if err == nil {
			if first, err = parseInt(m.Value); err != nil {
				return 0, fmt.Errorf("%w: metadata %q: %w", ErrCorrupt, producerIDsKey, err)
			}
		}
		end := first + producerIDBlock
		if _, err := e.Metadata().CompareAndSwap(ctx, producerIDsKey, m.Rev, fmt.Append(nil, end)); err != nil {
			return 0, fmt.Errorf("producer id: %w", unavailable(err))
		}
		e.nextID, e.idEnd = first, end
	}
	e.nextID++
	return e.nextID - 1, nil
}

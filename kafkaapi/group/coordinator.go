package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/headpond/headpond/engine"
)

// Client is who sent a request.
type Client struct {
	ID   string // as the client calls itself
	Host string // where it connected from
}

// Coordinator coordinates every group of a cluster. All methods may be called concurrently.
type Coordinator struct {
	svc     engine.Service
	o       Options
	openLog func(engine.PartitionID) (offsetsLog, error)
	// highWatermark is where a partition's acknowledged records end.
	highWatermark func(engine.PartitionID) (int64, error)

	writeCtx  context.Context // of writes; ends when Close gives up waiting for them
	endWrites context.CancelFunc
	loadCtx   context.Context // of loads; ends when Close begins
	endLoads  context.CancelFunc
	work      sync.WaitGroup // goroutines of the shards
	loads     chan struct{}  // one token a load under way

	mu     sync.Mutex
	shards []*shard  // one a partition; replaced when the topic becomes another; nil until it was asked for
	topic  engine.ID // whose partitions they are; zero while there is no topic
	closed bool
	tick   *time.Timer
}

const parallelLoads = 4

// New returns a coordinator over the engine. It reads nothing until a request needs it. The caller closes it before the engine.
func New(svc engine.Service, o Options) (*Coordinator, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("group coordinator: %w", err)
	}
	c := newCoordinator(svc, o)
	full := new(reserve)
	c.openLog = func(id engine.PartitionID) (offsetsLog, error) {
		p, err := svc.Partition(id)
		if err != nil {
			return nil, err
		}
		return &engineLog{svc, p, full}, nil
	}
	c.highWatermark = func(id engine.PartitionID) (int64, error) {
		p, err := svc.Partition(id)
		if err != nil {
			return 0, err
		}
		offsets, err := p.Offsets()
		return offsets.HighWatermark, err
	}
	return c, nil
}

func newCoordinator(svc engine.Service, o Options) *Coordinator {
	c := &Coordinator{svc: svc, o: o, loads: make(chan struct{}, parallelLoads)}
	c.writeCtx, c.endWrites = context.WithCancel(context.Background())
	c.loadCtx, c.endLoads = context.WithCancel(context.Background())
	c.tick = time.AfterFunc(o.RetentionInterval, c.onTick)
	return c
}

// Close answers the parked requests, lets the writes that were accepted end, and stops. It waits no longer than ctx; then it
// returns ctx's error and the writes end with the engine. Requests after Close are answered with COORDINATOR_NOT_AVAILABLE.
func (c *Coordinator) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	shards := c.shards
	c.tick.Stop()
	c.mu.Unlock()
	for _, s := range shards {
		s.abandon()
	}
	c.endLoads()
	defer c.endWrites()
	ended := make(chan struct{})
	go func() {
		c.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close group coordinator: %w", ctx.Err())
	}
}

// PartitionFor is the partition of [Topic], out of n, that holds a group: the absolute value of the id's Java hash code,
// modulo n, as in Kafka.
func PartitionFor(group string, n int32) int32 {
	var h int32
	for _, u := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(u)
	}
	if h == -1<<31 {
		h = 0
	}
	return max(h, -h) % n
}

// current returns the shards of the topic as it is now, with what the engine said when that is not known.
func (c *Coordinator) current() ([]*shard, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.currentLocked()
}

func (c *Coordinator) currentLocked() ([]*shard, error) {
	if c.closed {
		return nil, engine.ErrClosed
	}
	t, err := c.svc.Topic(Topic)
	switch {
	case err == nil && c.topic == engine.ID{} && len(c.shards) == int(t.Partitions):
		// The topic was just made, for what these shards hold.
		c.topic = t.ID
	case err == nil && (c.topic != t.ID || len(c.shards) != int(t.Partitions)):
		c.replaceLocked(t.ID, t.Partitions)
	case err == nil:
	case !errors.Is(err, engine.ErrNotFound):
		// What is in memory stays good while the engine cannot answer: nothing else writes the topic.
		if c.shards == nil {
			return nil, err
		}
	case c.shards == nil || c.topic != engine.ID{}:
		c.replaceLocked(engine.ID{}, c.o.Partitions)
	}
	return c.shards, nil
}

func (c *Coordinator) replaceLocked(topic engine.ID, partitions int32) {
	if c.shards != nil {
		c.o.Logger.Warn("the groups' topic was replaced, its groups are gone", "topic", Topic)
	}
	for _, s := range c.shards {
		s.abandon()
	}
	c.topic, c.shards = topic, make([]*shard, partitions)
	for i := range c.shards {
		c.shards[i] = newShard(c, int32(i))
	}
}

// topicOf returns the topic that a shard's partition belongs to, the zero ID while there is none. A shard that is no longer
// in use gets [engine.ErrNotFound].
func (c *Coordinator) topicOf(s *shard) (engine.ID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		if _, err := c.currentLocked(); err != nil {
			return engine.ID{}, err
		}
	}
	if int(s.index) >= len(c.shards) || c.shards[s.index] != s {
		return engine.ID{}, fmt.Errorf("%w: %s is another topic now", engine.ErrNotFound, Topic)
	}
	return c.topic, nil
}

// openFor opens the log of a shard. With create it makes the topic where there is none; otherwise there may be no log: nil.
func (c *Coordinator) openFor(ctx context.Context, s *shard, create bool) (offsetsLog, error) {
	id, err := c.topicOf(s)
	if err != nil {
		return nil, err
	}
	if id == (engine.ID{}) {
		if !create {
			return nil, nil
		}
		_, err := c.svc.CreateTopic(ctx, Topic, engine.TopicChange{
			Partitions: c.o.Partitions,
			Internal:   true,
			Config:     map[string]string{"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"},
		})
		if err != nil && !errors.Is(err, engine.ErrExists) {
			return nil, fmt.Errorf("create %s: %w", Topic, err)
		}
		if id, err = c.topicOf(s); err != nil {
			return nil, err
		}
		if id == (engine.ID{}) {
			return nil, fmt.Errorf("%w: %s went away", engine.ErrUnavailable, Topic)
		}
	}
	return c.openLog(engine.PartitionID{Topic: id, Partition: s.index})
}

// lock returns the shard of a group, loaded and locked, or the code to answer with. It waits for a load for a moment.
func (c *Coordinator) lock(ctx context.Context, group string) (*shard, int16) {
	if group == "" {
		return nil, codeInvalidGroupID
	}
	shards, err := c.current()
	if err != nil {
		if errors.Is(err, engine.ErrClosed) {
			return nil, codeNotAvailable
		}
		return nil, codeLoading
	}
	s := shards[PartitionFor(group, int32(len(shards)))]
	if code := s.lockLoaded(ctx); code != codeNone {
		return nil, code
	}
	return s, codeNone
}

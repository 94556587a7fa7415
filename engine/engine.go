package engine

import (
	"context"
	"errors"
	"fmt"
)

// ErrOutOfRange: the offset is below the log start or above the high watermark. It is an [ErrInvalid].
var ErrOutOfRange = fmt.Errorf("%w: offset out of range", ErrInvalid)

// Errors of the idempotent producer; the batch was not appended.
var (
	// ErrOutOfOrderSequence: the batch does not follow the producer's last one.
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrProducerFenced: a later epoch of the producer has written.
	ErrProducerFenced = errors.New("producer epoch is old")
)

// Service is what a protocol front end needs of an engine. *Engine is the one implementation; the interface is here so that
// the front end and the engine are read, and tested, apart.
//
// Every method may be called concurrently. While the log is being opened again after a failure, calls fail with
// [ErrUnavailable]; after Close, or once the engine has died, with [ErrClosed] or what killed it.
type Service interface {
	// ClusterID is the identity of the cluster.
	ClusterID() ID

	// Topic returns the topic of that name, or ErrNotFound.
	Topic(name string) (*Topic, error)
	// TopicByID returns the topic with that id, or ErrNotFound.
	TopicByID(id ID) (*Topic, error)
	// Topics returns all topics, in name order. The slice is shared and must not be changed.
	Topics() []*Topic
	// CreateTopic makes a topic; ErrExists when the name is taken. It is durable and visible when it returns nil.
	CreateTopic(ctx context.Context, name string, c TopicChange) (*Topic, error)
	// UpdateTopic changes t if its revision is still the current one, else ErrExists: read it again and decide anew.
	UpdateTopic(ctx context.Context, t *Topic, c TopicChange) (*Topic, error)
	// DeleteTopic removes this incarnation of a topic with its records; ErrNotFound when it is gone.
	DeleteTopic(ctx context.Context, t *Topic) error

	// Partition returns a handle, or ErrNotFound. A handle stays good until its topic is deleted; then its methods return
	// ErrNotFound.
	Partition(id PartitionID) (*Partition, error)

	// ProducerID returns a producer id that was never returned before.
	ProducerID(ctx context.Context) (int64, error)

	// Fetch reads what is there now, without waiting for more. Results are in the request's order. The caller calls
	// Release once when it has done with the batches.
	Fetch(ctx context.Context, r *FetchRequest) *FetchResponse

	// NewWatcher returns a watcher of partitions. The caller closes it.
	NewWatcher() *Watcher

	// Dead is closed when the engine ends by itself: it was fenced, or could not go on. Err then says why.
	Dead() <-chan struct{}
	Err() error
}

var _ Service = (*Engine)(nil)

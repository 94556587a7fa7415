package engine

import (
	"context"
	"fmt"
	"strconv"
)

// logMetadata is the metadata of a cluster of one broker: the commit log is the truth, the index holds the view.
type logMetadata struct{ e *Engine }

var _ Metadata = logMetadata{}

// Metadata is the cluster's small state.
func (e *Engine) Metadata() Metadata { return logMetadata{e} }

func (m logMetadata) Get(key string) (MetaChange, error) {
	var found *MetaChange
	err := m.e.index().Meta(key, func(c MetaChange) bool {
		if c.Key == key {
			found = &c
		}
		return false // the key itself is the first of those that it begins
	})
	if err != nil {
		return MetaChange{}, fmt.Errorf("metadata %q: %w", key, err)
	}
	if found == nil {
		return MetaChange{}, fmt.Errorf("metadata %q: %w", key, ErrNotFound)
	}
	return *found, nil
}

func (m logMetadata) List(prefix string, fn func(MetaChange) bool) error {
	return m.e.index().Meta(prefix, fn)
}

// CompareAndSwap is decided in log order: commits are decided one at a time, each on the state that all before it left.
func (m logMetadata) CompareAndSwap(ctx context.Context, key string, rev uint64, value []byte) (uint64, error) {
	s, err := m.e.session()
	if err != nil {
		return 0, err
	}
	c, err := s.commit(ctx, func() (*Commit, error) {
		now, err := m.Get(key)
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		if now.Rev != rev {
			return nil, fmt.Errorf("metadata %q has revision %d, not %d: %w", key, now.Rev, rev, ErrExists)
		}
		return &Commit{Meta: []MetaChange{{Key: key, Value: value}}}, nil
	})
	if err != nil {
		return 0, err
	}
	return c.Seq, nil
}

func parseInt(b []byte) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", b)
	}
	return n, nil
}

package index

import (
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/headpond/headpond/engine"
)

const maxOffset = math.MaxInt64

// State implements [engine.Index].
func (ix *Index) State() (engine.IndexState, error) {
	var st engine.IndexState
	err := ix.read("state", func(db *pebble.DB) (err error) {
		st, err = ix.stateOf(db)
		return err
	})
	return st, err
}

func (ix *Index) stateOf(db *pebble.DB) (st engine.IndexState, err error) {
	err = ix.get(db, stateKey, func(value []byte) (err error) {
		st, err = decodeState(value)
		return err
	})
	return st, err
}

// Run implements [engine.Index].
func (ix *Index) Run(p engine.PartitionID, offset int64) (engine.Run, error) {
	var run engine.Run
	found := false
	err := ix.Runs(p, offset, func(r engine.Run) bool {
		run, found = r, true
		return false
	})
	if err == nil && !found {
		err = fmt.Errorf("run of partition %d of topic %x at or after offset %d: %w", p.Partition, p.Topic, offset, engine.ErrNotFound)
	}
	return run, err
}

// Runs implements [engine.Index].
func (ix *Index) Runs(p engine.PartitionID, offset int64, fn func(engine.Run) bool) error {
	return ix.read("runs", func(db *pebble.DB) error {
		lower, upper := runBounds(p, max(offset, 0))
		return ix.scan(db, lower, upper, func(key, value []byte) (bool, error) {
			r, err := decodeRun(key, value)
			if err != nil {
				return false, ix.damaged(err)
			}
			return fn(r), nil
		})
	})
}

// Partition implements [engine.Index].
func (ix *Index) Partition(p engine.PartitionID) (engine.PartitionState, error) {
	var st engine.PartitionState
	err := ix.read("partition", func(db *pebble.DB) error {
		prefix := partitionPrefix(kindPartition, p)
		return ix.scanPartitions(db, prefix, prefixEnd(prefix), func(_ engine.PartitionID, s engine.PartitionState) bool {
			st = s
			return true
		})
	})
	return st, err
}

// Partitions implements [engine.Index].
func (ix *Index) Partitions(fn func(engine.PartitionID, engine.PartitionState) bool) error {
	return ix.read("partitions", func(db *pebble.DB) error {
		return ix.scanPartitions(db, []byte{kindPartition}, []byte{kindPartition + 1}, fn)
	})
}

// scanPartitions joins the two rows of each partition.
func (ix *Index) scanPartitions(db *pebble.DB, lower, upper []byte, fn func(engine.PartitionID, engine.PartitionState) bool) error {
	var (
		id      engine.PartitionID
		st      engine.PartitionState
		pending bool // fn has not been called for id
		ended   bool
	)
	err := ix.scan(db, lower, upper, func(key, value []byte) (bool, error) {
		if len(key) != partitionKeyLen+1 {
			return false, ix.damaged(fmt.Errorf("partition key of %d bytes", len(key)))
		}
		p := partitionOfKey(key)
		switch row := key[partitionKeyLen]; {
		case row == rowPartition:
			if pending && !fn(id, st) {
				ended = true
				return false, nil
			}
			row, err := decodePartitionRow(p, value)
			if err != nil {
				return false, ix.damaged(err)
			}
			id, st, pending = p, row.state(), true
		case row == rowProducers && pending && p == id:
			s, err := decodeProducersRow(p, value)
			if err != nil {
				return false, ix.damaged(err)
			}
			st.Producers = s
		default:
			return false, ix.damaged(fmt.Errorf("row %d of partition %d has no row before it", row, p.Partition))
		}
		return true, nil
	})
	if err == nil && pending && !ended {
		fn(id, st)
	}
	return err
}

// Meta implements [engine.Index].
func (ix *Index) Meta(prefix string, fn func(engine.MetaChange) bool) error {
	return ix.read("metadata", func(db *pebble.DB) error {
		lower := metaKey(prefix)
		return ix.scan(db, lower, prefixEnd(lower), func(key, value []byte) (bool, error) {
			m, err := decodeMetaRow(string(key[1:]), value)
			if err != nil {
				return false, ix.damaged(err)
			}
			return fn(m), nil
		})
	})
}

// Objects implements [engine.Index].
func (ix *Index) Objects(fn func(engine.ObjectState) bool) error {
	return ix.read("objects", func(db *pebble.DB) error {
		return ix.scan(db, []byte{kindObject}, []byte{kindObject + 1}, func(key, value []byte) (bool, error) {
			o, err := decodeObjectRow(value)
			if err != nil {
				return false, ix.damaged(err)
			}
			return fn(engine.ObjectState{Name: string(key[1:]), Size: o.size, Live: int(o.live)}), nil
		})
	})
}

// get calls fn with the key's value, which is valid during the call only; not at all when there is none.
func (ix *Index) get(db *pebble.DB, key []byte, fn func(value []byte) error) error {
	value, closer, err := db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil
	case err != nil:
		return ix.classify(err)
	}
	defer closer.Close()
	if err := fn(value); err != nil {
		return ix.damaged(err)
	}
	return nil
}

// scan calls fn for the keys in [lower, upper), in order, until it returns false or an error, which is returned. Key and
// value are valid during the call only.
func (ix *Index) scan(db *pebble.DB, lower, upper []byte, fn func(key, value []byte) (bool, error)) (err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return ix.classify(err)
	}
	defer func() {
		if e := it.Close(); e != nil && err == nil {
			err = ix.classify(e)
		}
	}()
	for valid := it.First(); valid; valid = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return ix.classify(err)
		}
		if more, err := fn(it.Key(), value); err != nil || !more {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return ix.classify(err)
	}
	return nil
}

package index

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/headpond/headpond/engine"
)

// Apply implements [engine.Index].
func (ix *Index) Apply(ctx context.Context, c *engine.Commit, sum uint32) error {
	ix.writer.Lock()
	defer ix.writer.Unlock()
	if err := ix.apply(ctx, c, sum); err != nil {
		return fmt.Errorf("index %s: apply commit %d: %w", ix.dir, c.Seq, err)
	}
	return nil
}

func (ix *Index) apply(ctx context.Context, c *engine.Commit, sum uint32) error {
	if err := ix.writable(); err != nil {
		return err
	}
	if err := ix.makeRoom(ctx); err != nil {
		return err
	}
	st, err := ix.stateNow()
	if err != nil {
		return err
	}
	if err := checkCommit(c, st); err != nil {
		return err
	}
	ch := change{
		ix: ix, batch: ix.db.NewBatch(),
		partitions: map[engine.PartitionID]*partition{}, objects: map[string]*object{}, dropped: map[engine.PartitionID]bool{},
	}
	defer ch.batch.Close()
	if err := ch.gather(c); err != nil {
		return err
	}
	if err := ch.write(); err != nil {
		return err
	}
	return ix.commit(ch.batch, nextState(st, c, sum))
}

// change gathers what one commit changes. Rows that several sections touch are read once and written once, at the end.
type change struct {
	ix         *Index
	batch      *pebble.Batch
	partitions map[engine.PartitionID]*partition
	objects    map[string]*object // nil: deleted
	dropped    map[engine.PartitionID]bool
}

// gather follows the order that the package's comment gives.
func (ch *change) gather(c *engine.Commit) error {
	for _, p := range c.Dropped {
		ch.dropped[p] = true
	}
	starts := map[engine.PartitionID]int64{} // the highest of each, since runs are counted off as they are found in the store
	for _, s := range c.LogStarts {
		starts[s.PartitionID] = max(starts[s.PartitionID], s.Offset)
	}
	for id, offset := range starts {
		if err := ch.logStart(engine.LogStart{PartitionID: id, Offset: offset}); err != nil {
			return err
		}
	}
	if err := ch.added(c); err != nil {
		return err
	}
	for i := range c.Producers {
		if err := ch.producers(&c.Producers[i]); err != nil {
			return err
		}
	}
	for _, e := range c.Epochs {
		if ch.dropped[e.PartitionID] {
			continue
		}
		p, err := ch.partition(e.PartitionID)
		if err != nil {
			return err
		}
		p.epochs = appendEpoch(p.epochs, e)
	}
	for p := range ch.dropped {
		if err := ch.drop(p); err != nil {
			return err
		}
	}
	for _, name := range c.Deleted {
		if err := ch.deleted(name); err != nil {
			return err
		}
	}
	for i := range c.Meta {
		if err := ch.meta(&c.Meta[i]); err != nil {
			return err
		}
	}
	return nil
}

func (ch *change) logStart(s engine.LogStart) error {
	if ch.dropped[s.PartitionID] {
		return nil
	}
	p, err := ch.partition(s.PartitionID)
	if err != nil || s.Offset <= p.logStart {
		return err
	}
	freed, err := ch.dropRuns(s.PartitionID, s.Offset-1)
	if err != nil {
		return err
	}
	p.bytes -= freed
	p.logStart = s.Offset
	p.epochs = trimEpochs(p.epochs, s.Offset)
	return nil
}

func (ch *change) added(c *engine.Commit) error {
	for i := range c.Added {
		o, err := ch.object(c.Added[i].Name)
		if err != nil {
			return err
		}
		if o != nil {
			return fmt.Errorf("%w: object %s was added before", engine.ErrInvalid, c.Added[i].Name)
		}
		ch.objects[c.Added[i].Name] = &object{size: c.Added[i].Size}
	}
	for _, r := range addedRuns(c) {
		if ch.dropped[r.PartitionID] {
			continue
		}
		p, err := ch.partition(r.PartitionID)
		if err != nil {
			return err
		}
		if r.FirstOffset < p.runsEnd {
			return overlapError(&r, p.runsEnd)
		}
		p.runsEnd = r.LastOffset + 1
		if r.LastOffset < p.logStart {
			continue
		}
		p.bytes += r.Bytes()
		ch.objects[r.Object].live++
		if err := ch.batch.Set(runKey(r.PartitionID, r.LastOffset), appendRunRow(nil, &r), nil); err != nil {
			return err
		}
	}
	return nil
}

func (ch *change) producers(s *engine.ProducerSnapshot) error {
	if ch.dropped[s.PartitionID] {
		return nil
	}
	if _, err := ch.partition(s.PartitionID); err != nil { // the row must be there for the partition to be listed
		return err
	}
	return ch.batch.Set(partitionKey(s.PartitionID, rowProducers), appendProducersRow(nil, s), nil)
}

func (ch *change) drop(p engine.PartitionID) error {
	if _, err := ch.dropRuns(p, maxOffset); err != nil {
		return err
	}
	prefix := partitionPrefix(kindPartition, p)
	return ch.batch.DeleteRange(prefix, append(partitionPrefix(kindPartition, p), rowProducers+1), nil)
}

// dropRuns removes the partition's runs whose last offset is at most the given one, and returns their bytes.
func (ch *change) dropRuns(p engine.PartitionID, last int64) (freed int64, err error) {
	lower := runKey(p, 0)
	upper := append(runKey(p, last), 0)
	some := false
	err = ch.ix.scan(ch.ix.db, lower, upper, func(key, value []byte) (bool, error) {
		r, err := decodeRun(key, value)
		if err != nil {
			return false, ch.ix.damaged(err)
		}
		o, err := ch.object(r.Object)
		if err != nil {
			return false, err
		}
		if o == nil || o.live == 0 {
			return false, ch.ix.damaged(fmt.Errorf("no live run of object %s is known, but one of partition %d is there", r.Object, p.Partition))
		}
		o.live--
		freed += r.Bytes()
		some = true
		return true, nil
	})
	if err != nil || !some {
		return 0, err
	}
	return freed, ch.batch.DeleteRange(lower, upper, nil)
}

func (ch *change) deleted(name string) error {
	o, err := ch.object(name)
	if err != nil || o == nil {
		return err
	}
	if o.live > 0 {
		return fmt.Errorf("%w: object %s is deleted while %d of its runs are live", engine.ErrInvalid, name, o.live)
	}
	ch.objects[name] = nil
	return nil
}

func (ch *change) meta(m *engine.MetaChange) error {
	if m.Value == nil {
		return ch.batch.Delete(metaKey(m.Key), nil)
	}
	return ch.batch.Set(metaKey(m.Key), appendMetaRow(nil, m), nil)
}

// partition returns the partition's row as the commit has left it so far, for the caller to change.
func (ch *change) partition(id engine.PartitionID) (*partition, error) {
	if p := ch.partitions[id]; p != nil {
		return p, nil
	}
	p := &partition{}
	err := ch.ix.get(ch.ix.db, partitionKey(id, rowPartition), func(value []byte) (err error) {
		*p, err = decodePartitionRow(id, value)
		return err
	})
	if err != nil {
		return nil, err
	}
	ch.partitions[id] = p
	return p, nil
}

// object returns the object's row as the commit has left it so far, for the caller to change; nil when there is none.
func (ch *change) object(name string) (*object, error) {
	if o, ok := ch.objects[name]; ok {
		return o, nil
	}
	var o *object
	err := ch.ix.get(ch.ix.db, objectKey(name), func(value []byte) error {
		row, err := decodeObjectRow(value)
		o = &row
		return err
	})
	if err != nil {
		return nil, err
	}
	if o != nil {
		ch.objects[name] = o
	}
	return o, nil
}

// write puts the rows that were gathered into the batch.
func (ch *change) write() error {
	for id, p := range ch.partitions {
		if err := ch.batch.Set(partitionKey(id, rowPartition), appendPartitionRow(nil, p), nil); err != nil {
			return err
		}
	}
	for name, o := range ch.objects {
		var err error
		if o == nil {
			err = ch.batch.Delete(objectKey(name), nil)
		} else {
			err = ch.batch.Set(objectKey(name), appendObjectRow(nil, o), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package index

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/headpond/headpond/engine"
)

// Mem is an [engine.Index] in memory. It does what an [Index] does, in the simplest way, and forgets everything at the
// end of the process.
type Mem struct {
	mu sync.Mutex
	memData
}

type memData struct {
	closed     bool
	state      engine.IndexState
	partitions map[engine.PartitionID]memPartition
	objects    map[string]int64 // sizes
	meta       map[string]engine.MetaChange
}

// memPartition is never changed once it is in the map, but its runs may be followed in memory by runs of a later one.
type memPartition struct {
	logStart  int64
	runsEnd   int64
	runs      []engine.Run // in offset order
	epochs    []engine.EpochStart
	producers engine.ProducerSnapshot
}

var _ engine.Index = (*Mem)(nil)

// NewMem returns an empty index in memory.
func NewMem() *Mem { return &Mem{memData: emptyMem(engine.IndexState{})} }

func emptyMem(st engine.IndexState) memData {
	return memData{
		state: st, partitions: map[engine.PartitionID]memPartition{}, objects: map[string]int64{}, meta: map[string]engine.MetaChange{},
	}
}

// Clone returns a copy, open whether or not the index is: an older copy, once the index has moved on.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Mem{memData: m.memData.clone()}
	c.closed = false
	for id, p := range c.partitions {
		p.runs = slices.Clip(p.runs) // what the two append from now on must not share memory
		c.partitions[id] = p
	}
	return c
}

func (d *memData) clone() memData {
	c := *d
	c.partitions, c.objects, c.meta = maps.Clone(d.partitions), maps.Clone(d.objects), maps.Clone(d.meta)
	return c
}

// State implements [engine.Index].
func (m *Mem) State() (engine.IndexState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.check()
}

func (m *Mem) check() error {
	if m.closed {
		return engine.ErrClosed
	}
	return nil
}

// Apply implements [engine.Index].
func (m *Mem) Apply(_ context.Context, c *engine.Commit, sum uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(); err != nil {
		return err
	}
	next := m.memData.clone()
	if err := next.apply(c, sum); err != nil {
		return fmt.Errorf("apply commit %d: %w", c.Seq, err)
	}
	m.memData = next
	return nil
}

func (d *memData) apply(c *engine.Commit, sum uint32) error {
	if err := checkCommit(c, d.state); err != nil {
		return err
	}
	for _, s := range c.LogStarts {
		p := d.partitions[s.PartitionID]
		if s.Offset > p.logStart {
			p.logStart, p.epochs = s.Offset, trimEpochs(p.epochs, s.Offset)
		}
		d.partitions[s.PartitionID] = p
	}
	for i := range c.Added {
		if _, ok := d.objects[c.Added[i].Name]; ok {
			return fmt.Errorf("%w: object %s was added before", engine.ErrInvalid, c.Added[i].Name)
		}
		d.objects[c.Added[i].Name] = c.Added[i].Size
	}
	for _, r := range addedRuns(c) {
		p := d.partitions[r.PartitionID]
		if r.FirstOffset < p.runsEnd && !slices.Contains(c.Dropped, r.PartitionID) {
			return overlapError(&r, p.runsEnd)
		}
		p.runsEnd = r.LastOffset + 1
		r.Blocks = slices.Clone(r.Blocks)
		p.runs = append(p.runs, r)
		d.partitions[r.PartitionID] = p
	}
	for _, s := range c.Producers {
		p := d.partitions[s.PartitionID]
		s.State = append([]byte(nil), s.State...)
		p.producers = s
		d.partitions[s.PartitionID] = p
	}
	for _, e := range c.Epochs {
		p := d.partitions[e.PartitionID]
		p.epochs = appendEpoch(slices.Clone(p.epochs), e)
		d.partitions[e.PartitionID] = p
	}
	for _, id := range c.Dropped {
		delete(d.partitions, id)
	}
	for id := range touched(c) {
		p := d.partitions[id]
		below := func(r engine.Run) bool { return r.LastOffset < p.logStart }
		if slices.ContainsFunc(p.runs, below) {
			p.runs = slices.DeleteFunc(slices.Clone(p.runs), below)
			d.partitions[id] = p
		}
	}
	for _, name := range c.Deleted {
		if live := d.live()[name]; live > 0 {
			return fmt.Errorf("%w: object %s is deleted while %d of its runs are live", engine.ErrInvalid, name, live)
		}
		delete(d.objects, name)
	}
	for _, m := range c.Meta {
		if m.Value == nil {
			delete(d.meta, m.Key)
			continue
		}
		m.Value = append([]byte{}, m.Value...)
		d.meta[m.Key] = m
	}
	d.state = nextState(d.state, c, sum)
	return nil
}

// touched are the partitions whose runs or log start the commit may have changed.
func touched(c *engine.Commit) map[engine.PartitionID]bool {
	ids := map[engine.PartitionID]bool{}
	for _, s := range c.LogStarts {
		ids[s.PartitionID] = true
	}
	for i := range c.Added {
		for j := range c.Added[i].Runs {
			ids[c.Added[i].Runs[j].PartitionID] = true
		}
	}
	return ids
}

// live counts the runs of each object.
func (d *memData) live() map[string]int {
	n := map[string]int{}
	for _, p := range d.partitions {
		for i := range p.runs {
			n[p.runs[i].Object]++
		}
	}
	return n
}

// Sync implements [engine.Index].
func (m *Mem) Sync(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.check()
}

// Reset implements [engine.Index].
func (m *Mem) Reset(_ context.Context, cluster, wal engine.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(); err != nil {
		return err
	}
	m.memData = emptyMem(engine.IndexState{Cluster: cluster, WAL: wal})
	return nil
}

// SetWAL implements [engine.Index].
func (m *Mem) SetWAL(_ context.Context, wal engine.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(); err != nil {
		return err
	}
	m.state.WAL, m.state.Through = wal, 0
	return nil
}

// Run implements [engine.Index].
func (m *Mem) Run(p engine.PartitionID, offset int64) (run engine.Run, err error) {
	found := false
	err = m.Runs(p, offset, func(r engine.Run) bool {
		run, found = r, true
		return false
	})
	if err == nil && !found {
		err = fmt.Errorf("run of partition %d of topic %x at or after offset %d: %w", p.Partition, p.Topic, offset, engine.ErrNotFound)
	}
	return run, err
}

// Runs implements [engine.Index].
func (m *Mem) Runs(id engine.PartitionID, offset int64, fn func(engine.Run) bool) error {
	m.mu.Lock()
	runs, err := m.partitions[id].runs, m.check()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.LastOffset < offset {
			continue
		}
		r.Blocks = slices.Clone(r.Blocks)
		if !fn(r) {
			break
		}
	}
	return nil
}

// Partition implements [engine.Index].
func (m *Mem) Partition(id engine.PartitionID) (engine.PartitionState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitions[id].state(), m.check()
}

func (p memPartition) state() engine.PartitionState {
	st := engine.PartitionState{LogStart: p.logStart, End: max(p.runsEnd, p.logStart), Producers: p.producers}
	st.Epochs = append(st.Epochs, p.epochs...)
	st.Producers.State = append([]byte(nil), p.producers.State...)
	for i := range p.runs {
		st.Bytes += p.runs[i].Bytes()
	}
	return st
}

// Partitions implements [engine.Index].
func (m *Mem) Partitions(fn func(engine.PartitionID, engine.PartitionState) bool) error {
	m.mu.Lock()
	partitions, err := maps.Clone(m.partitions), m.check()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	ids := slices.SortedFunc(maps.Keys(partitions), comparePartitions)
	for _, id := range ids {
		if !fn(id, partitions[id].state()) {
			break
		}
	}
	return nil
}

func comparePartitions(a, b engine.PartitionID) int {
	if c := slices.Compare(a.Topic[:], b.Topic[:]); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// Meta implements [engine.Index].
func (m *Mem) Meta(prefix string, fn func(engine.MetaChange) bool) error {
	m.mu.Lock()
	meta, err := maps.Clone(m.meta), m.check()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		c := meta[key]
		c.Value = append([]byte{}, c.Value...)
		if !fn(c) {
			break
		}
	}
	return nil
}

// Objects implements [engine.Index].
func (m *Mem) Objects(fn func(engine.ObjectState) bool) error {
	m.mu.Lock()
	sizes, live, err := maps.Clone(m.objects), m.live(), m.check()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if !fn(engine.ObjectState{Name: name, Size: sizes[name], Live: live[name]}) {
			break
		}
	}
	return nil
}

// Close implements [engine.Index].
func (m *Mem) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

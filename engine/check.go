package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// CheckReport is what [CheckIndex] found.
type CheckReport struct {
	Cluster     ID
	WAL         ID
	Commit      uint64 // last commit of index and log
	Objects     int    // objects that count
	Runs        int
	Differences []string // what the index says otherwise than the commit log, or the store otherwise than the index
}

// differencesKept bounds the differences that a report lists; a damaged index may have millions.
const differencesKept = 100

func (r *CheckReport) differ(format string, args ...any) {
	if len(r.Differences) < differencesKept {
		r.Differences = append(r.Differences, fmt.Sprintf(format, args...))
	}
}

// CheckIndex compares an index with what the commit log makes of an empty one, and with the objects that the store holds. It reads
// only: the log is opened without claiming it. fresh is an empty index to build the comparison in; both stay the caller's.
func CheckIndex(ctx context.Context, o Options, fresh Index) (CheckReport, error) {
	var report CheckReport
	e, wal, err := inspect(ctx, &o)
	if err != nil {
		return report, err
	}
	defer wal.Close()
	state, err := o.Index.State()
	if err != nil {
		return report, err
	}
	report.Cluster, report.WAL, report.Commit = e.cluster, wal.Info().ID, state.Seq
	if state.Cluster != e.cluster || state.WAL != wal.Info().ID {
		report.differ("the index belongs to cluster %x and log %x, the objects to cluster %x and log %x", state.Cluster, state.WAL, e.cluster, wal.Info().ID)
		return report, nil
	}
	if err := e.replayCommits(ctx, wal, fresh, state.Seq); err != nil {
		return report, err
	}
	built, err := fresh.State()
	if err != nil {
		return report, err
	}
	if built != state {
		report.differ("the index ends with commit %d (sum %08x), the commit log makes it %d (sum %08x)", state.Seq, state.Sum, built.Seq, built.Sum)
	}
	return report, errors.Join(report.comparePartitions(o.Index, fresh), report.compareMeta(o.Index, fresh), e.compareObjects(ctx, &report, o.Index, fresh))
}

// RebuildIndex fills an empty index from the commit log: commit-log objects first, then the log. It reads the log without
// claiming it. target is left unbound when something can't be read.
func RebuildIndex(ctx context.Context, o Options, target Index) (IndexState, error) {
	e, wal, err := inspect(ctx, &o)
	if err != nil {
		return IndexState{}, err
	}
	defer wal.Close()
	if err := e.replayCommits(ctx, wal, target, 0); err != nil {
		return IndexState{}, err
	}
	if err := target.Sync(ctx); err != nil {
		return IndexState{}, err
	}
	return target.State()
}

// inspect makes an engine that reads commits and does nothing else.
func inspect(ctx context.Context, o *Options) (*Engine, WAL, error) {
	filled, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	*o = filled
	e := &Engine{o: filled, store: newStoreClient(filled)}
	wal, err := o.OpenWAL(ctx, WALOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, fmt.Errorf("open the log %s: %w", o.WALURL, err)
	}
	r, err := e.store.readRoot(ctx)
	switch {
	case isNotFound(err):
		e.cluster, err = clusterOf(ctx, wal)
	case err == nil && r.WAL != wal.Info().ID:
		err = fmt.Errorf("%w: the log %s is %x, and the cluster's log is %x, registered as %q", ErrInvalid, wal.Info().URL, wal.Info().ID, r.WAL, r.URL)
	}
	if err != nil {
		return nil, nil, errors.Join(err, wal.Close())
	}
	if e.cluster == (ID{}) {
		e.cluster = r.Cluster
	}
	return e, wal, nil
}

// replayCommits applies the commit log to an empty index, up to commit last; 0 stands for all.
func (e *Engine) replayCommits(ctx context.Context, wal WAL, target Index, last uint64) error {
	info := wal.Info()
	next := uint64(1)
	bound := false
	apply := func(c *Commit, sum uint32) error {
		if c.Seq != next || last > 0 && c.Seq > last {
			return nil
		}
		if !bound {
			if err := target.Reset(ctx, e.cluster, c.WAL); err != nil {
				return err
			}
			bound = true
		}
		state, err := target.State()
		if err == nil && state.WAL != c.WAL {
			err = target.SetWAL(ctx, c.WAL)
		}
		if err == nil {
			err = target.Apply(ctx, c, sum)
		}
		next++
		return err
	}
	if err := e.store.readCommits(ctx, e.cluster, 1, apply); err != nil {
		return err
	}
	err := wal.Replay(ctx, func(pos Position, record []byte) error {
		kind, _, body, err := splitRecord(record)
		if err != nil || kind != walCommit {
			return err
		}
		c, err := DecodeCommit(body)
		if err != nil {
			return err
		}
		if c.Seq > next {
			return &CorruptError{Where: info.URL, Offset: -1, Reason: fmt.Sprintf("commits %d to %d are neither in the log nor in objects", next, c.Seq-1)}
		}
		return apply(c, CommitSum(body))
	})
	if err == nil && !bound {
		err = target.Reset(ctx, e.cluster, info.ID)
	}
	if err != nil {
		return err
	}
	state, err := target.State()
	if err == nil && state.WAL != info.ID {
		err = target.SetWAL(ctx, info.ID)
	}
	return err
}

func (r *CheckReport) comparePartitions(have, want Index) error {
	states := make(map[PartitionID]PartitionState)
	err := want.Partitions(func(id PartitionID, s PartitionState) bool {
		states[id] = s
		return true
	})
	if err != nil {
		return err
	}
	err = have.Partitions(func(id PartitionID, s PartitionState) bool {
		if w, ok := states[id]; !ok || !reflect.DeepEqual(s, w) {
			r.differ("partition %d of topic id %x: the index has offsets %d to %d in %d bytes, the commit log %d to %d in %d", id.Partition, id.Topic, s.LogStart, s.End, s.Bytes, w.LogStart, w.End, w.Bytes)
		}
		delete(states, id)
		return true
	})
	for id := range states {
		r.differ("partition %d of topic id %x is not in the index", id.Partition, id.Topic)
	}
	return err
}

func (r *CheckReport) compareMeta(have, want Index) error {
	values := make(map[string]string)
	err := want.Meta("", func(m MetaChange) bool {
		values[m.Key] = fmt.Sprint(m.Rev, " ", string(m.Value))
		return true
	})
	if err != nil {
		return err
	}
	err = have.Meta("", func(m MetaChange) bool {
		if values[m.Key] != fmt.Sprint(m.Rev, " ", string(m.Value)) {
			r.differ("metadata %q differs from the commit log", m.Key)
		}
		delete(values, m.Key)
		return true
	})
	for key := range values {
		r.differ("metadata %q is not in the index", key)
	}
	return err
}

// compareObjects compares objects and runs, and looks whether the store has the objects that count.
func (e *Engine) compareObjects(ctx context.Context, r *CheckReport, have, want Index) error {
	stored := make(map[string]int64)
	if _, err := e.store.list(ctx, "", func(a ObjectAttrs) bool { stored[a.Name] = a.Size; return false }); err != nil {
		return err
	}
	objects := make(map[string]ObjectState)
	err := want.Objects(func(o ObjectState) bool { objects[o.Name] = o; return true })
	if err != nil {
		return err
	}
	err = have.Objects(func(o ObjectState) bool {
		if objects[o.Name] != o {
			r.differ("object %s: the index has %d live runs, the commit log %d", o.Name, o.Live, objects[o.Name].Live)
		}
		delete(objects, o.Name)
		if o.Live == 0 {
			return true
		}
		r.Objects++
		r.Runs += o.Live
		if size, ok := stored[o.Name]; !ok {
			r.differ("object %s is not in the store", o.Name)
		} else if size != o.Size {
			r.differ("object %s has %d bytes in the store, not %d", o.Name, size, o.Size)
		}
		return true
	})
	for name := range objects {
		r.differ("object %s is not in the index", name)
	}
	return err
}

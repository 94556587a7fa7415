package index

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headpond/headpond/engine"
)

// checkCommit says why a commit cannot follow the state, as far as that can be told without the rest of the index.
func checkCommit(c *engine.Commit, st engine.IndexState) error {
	if c.Seq != st.Seq+1 || c.Prev != st.Sum {
		return fmt.Errorf("%w: commit %d after one with sum %08x cannot follow commit %d with sum %08x",
			engine.ErrInvalid, c.Seq, c.Prev, st.Seq, st.Sum)
	}
	for i := range c.Added {
		o := &c.Added[i]
		if o.Name == "" {
			return fmt.Errorf("%w: an added object has no name", engine.ErrInvalid)
		}
		for j := range o.Runs {
			if r := &o.Runs[j]; r.FirstOffset < 0 || r.LastOffset < r.FirstOffset || len(r.Blocks) == 0 {
				return fmt.Errorf("%w: object %s has a run of partition %d with offsets [%d, %d] in %d blocks",
					engine.ErrInvalid, o.Name, r.Partition, r.FirstOffset, r.LastOffset, len(r.Blocks))
			}
		}
	}
	return nil
}

// nextState is the state after the commit.
func nextState(st engine.IndexState, c *engine.Commit, sum uint32) engine.IndexState {
	st.Seq, st.Sum = c.Seq, sum
	if c.WAL == st.WAL {
		st.Through = max(st.Through, c.Through)
	}
	return st
}

// addedRuns are the runs of the commit's objects in offset order, each with its object's name. The order of objects and
// runs inside a commit means nothing.
func addedRuns(c *engine.Commit) []engine.Run {
	var runs []engine.Run
	for i := range c.Added {
		for _, r := range c.Added[i].Runs {
			r.Object = c.Added[i].Name
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b engine.Run) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return runs
}

func overlapError(r *engine.Run, end int64) error {
	return fmt.Errorf("%w: object %s has a run of partition %d of topic %x that begins at offset %d, below the end %d of its runs",
		engine.ErrInvalid, r.Object, r.Partition, r.Topic, r.FirstOffset, end)
}

// appendEpoch adds an epoch to those of a partition. What says the same or more of the same offsets gives way.
func appendEpoch(epochs []engine.EpochStart, e engine.EpochStart) []engine.EpochStart {
	for n := len(epochs); n > 0 && (epochs[n-1].Epoch >= e.Epoch || epochs[n-1].Offset >= e.Offset); n-- {
		epochs = epochs[:n-1]
	}
	return append(epochs, e)
}

// trimEpochs drops the epochs that ended at or below the log start.
func trimEpochs(epochs []engine.EpochStart, logStart int64) []engine.EpochStart {
	for len(epochs) > 1 && epochs[1].Offset <= logStart {
		epochs = epochs[1:]
	}
	return epochs
}

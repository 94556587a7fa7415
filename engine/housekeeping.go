package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headpond/headpond/internal/objectfile"
)

// housekeep does what is done now and then: retention, the deletion of objects that nothing refers to, and once in a session a
// sweep of objects that no commit names.
func (s *session) housekeep(ctx context.Context) {
	h := &housekeeper{s: s, unused: make(map[string]time.Time)}
	for {
		pause(ctx, s.e.o.RetentionInterval)
		if ctx.Err() != nil {
			return
		}
		if err := h.round(ctx); err != nil && ctx.Err() == nil {
			s.e.o.Logger.Warn("housekeeping failed; it is tried again", "in", s.e.o.RetentionInterval, "err", err)
		}
	}
}

type housekeeper struct {
	s      *session
	unused map[string]time.Time // objects without a live run, and since when that is known
	swept  bool
}

// round does what is due. A part that fails does not keep the others from their turn.
func (h *housekeeper) round(ctx context.Context) error {
	return errors.Join(h.retain(ctx), h.deleteUnused(ctx), h.sweep(ctx))
}

// retainAtOnce bounds the log starts that one commit moves.
const retainAtOnce = 1000

// retain moves log starts up past runs that are too old or too many. Only runs in objects are dropped, whole.
func (h *housekeeper) retain(ctx context.Context) error {
	var starts []LogStart
	for _, t := range h.s.e.Topics() {
		r := h.s.e.o.Retention(t)
		if r.Time < 0 && r.Bytes < 0 {
			continue
		}
		for n := range t.Partitions {
			id := PartitionID{Topic: t.ID, Partition: n}
			to, err := h.s.e.retainedFrom(id, r)
			if err != nil {
				return fmt.Errorf("retention of topic %q, partition %d: %w", t.Name, n, err)
			}
			if to >= 0 {
				starts = append(starts, LogStart{PartitionID: id, Offset: to})
			}
		}
	}
	for chunk := range slices.Chunk(starts, retainAtOnce) {
		_, err := h.s.commit(ctx, func() (*Commit, error) {
			c := &Commit{}
			for _, l := range chunk {
				p, err := h.s.e.Partition(l.PartitionID)
				if err != nil {
					continue // deleted meanwhile
				}
				if now, err := p.Offsets(); err == nil && now.LogStart < l.Offset {
					c.LogStarts = append(c.LogStarts, l)
				}
			}
			if len(c.LogStarts) == 0 {
				return nil, errNoChange
			}
			return c, nil
		})
		if err != nil && !errors.Is(err, errNoChange) {
			return fmt.Errorf("retention: %w", err)
		}
	}
	return nil
}

// retainedFrom returns the offset that the partition's log should start at by its retention; -1 when nothing is to go.
func (e *Engine) retainedFrom(id PartitionID, r Retention) (int64, error) {
	p, err := e.Partition(id)
	if err != nil {
		return -1, nil
	}
	now, err := p.Offsets()
	if err != nil || now.LogStart == now.HighWatermark {
		return -1, err
	}
	state, err := e.index().Partition(id)
	if err != nil {
		return -1, err
	}
	oldest := e.o.Now().Add(-r.Time).UnixMilli()
	bytes, passed, from := state.Bytes+p.tailBytes(), int64(0), int64(-1)
	err = e.index().Runs(id, now.LogStart, func(run Run) bool {
		timeless := run.MaxTimestamp < 0 // its age is not known; it is at least that of a later run
		tooOld := r.Time >= 0 && run.MaxTimestamp < oldest && !timeless
		tooMany := r.Bytes >= 0 && bytes-passed-run.Bytes() >= r.Bytes
		if !tooOld && !tooMany {
			passed += run.Bytes()
			return timeless && r.Time >= 0
		}
		bytes -= passed + run.Bytes()
		passed, from = 0, run.LastOffset+1
		return true
	})
	return from, err
}

// tailBytes is how many bytes of the partition are in no object yet, to within a chunk.
func (p *Partition) tailBytes() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.tail {
		if r.last >= p.committed {
			n += r.bytes
		}
	}
	return n
}

// deleteUnused deletes the objects that have had no live run for the grace period, then lets the index forget them. Both may be
// repeated: a crash between them deletes what is gone already.
func (h *housekeeper) deleteUnused(ctx context.Context) error {
	s, now := h.s, time.Now()
	seen := make(map[string]time.Time)
	var due []string
	err := s.e.index().Objects(func(o ObjectState) bool {
		if o.Live > 0 {
			return true
		}
		since, known := h.unused[o.Name]
		if !known {
			since = now
		}
		seen[o.Name] = since
		if now.Sub(since) >= s.e.o.DeleteGrace {
			due = append(due, o.Name)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("objects to delete: %w", err)
	}
	h.unused = seen
	for names := range slices.Chunk(due, deleteAtOnce) {
		if err := s.e.store.delete(ctx, names); err != nil {
			return fmt.Errorf("delete objects: %w", err)
		}
		if _, err := s.commit(ctx, func() (*Commit, error) { return &Commit{Deleted: names}, nil }); err != nil {
			return fmt.Errorf("delete objects: %w", err)
		}
		for _, name := range names {
			delete(h.unused, name)
		}
		s.e.o.Events.ObjectsDeleted(len(names))
	}
	return nil
}

// deleteAtOnce bounds the objects of one delete call and its commit.
const deleteAtOnce = 1000

// sweep deletes objects of this log that no commit names and none ever will: those of an earlier owner epoch. The listing is
// complete or the sweep does nothing; names of other clusters, other logs and other kinds are passed over.
func (h *housekeeper) sweep(ctx context.Context) error {
	if h.swept {
		return nil
	}
	s := h.s
	if err := s.registered(ctx); err != nil {
		return err
	}
	uncommitted := make(map[string]bool)
	_, err := s.e.store.list(ctx, "", func(a ObjectAttrs) bool {
		m, ours := objectfile.ParseKey(a.Name)
		if ours && m.Cluster == s.e.cluster && m.WAL == s.info.ID && m.Epoch < s.info.Epoch {
			uncommitted[a.Name] = true
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	err = s.e.index().Objects(func(o ObjectState) bool {
		delete(uncommitted, o.Name)
		return true
	})
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	orphans := slices.Sorted(maps.Keys(uncommitted))
	for names := range slices.Chunk(orphans, deleteAtOnce) {
		if err := s.e.store.delete(ctx, names); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		s.e.o.Events.ObjectsDeleted(len(names))
	}
	if len(orphans) > 0 {
		s.e.o.Logger.Info("objects of uploads that never were committed were deleted", "objects", len(orphans))
	}
	h.swept = true
	return nil
}

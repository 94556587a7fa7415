package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headpond/headpond/engine"
)

// liveFactor is how many times longer than its live entries a log may grow before they are written anew.
const liveFactor = 4

// rewrite bounds the log: it appends all live entries, group by group, and then deletes the records below. It runs in the
// writer, so that no other record comes in between, and memory is what the log says throughout. A crash before the
// deletion leaves older records before newer ones with the same keys; the deletion itself is atomic. Nothing that the log
// lost by it is missed: an entry that is not live has no record after it, and its deletion record goes with it.
func (s *shard) rewrite() {
	s.mu.Lock()
	if s.phase != loaded {
		s.mu.Unlock()
		return
	}
	ids := slices.Sorted(maps.Keys(s.groups))
	var live int64
	for _, g := range s.groups {
		live += g.liveBytes()
	}
	if need := max(liveFactor*live, s.c.o.SnapshotBytes); s.logBytes < need {
		s.rewriteAt = need
		s.mu.Unlock()
		return
	}
	before, end, log := s.logBytes, s.end, s.log
	s.mu.Unlock()

	from, admitted, err := s.appendLive(ids)
	if err == nil {
		if from < 0 {
			from = end // nothing lives
		}
		err = log.deleteBefore(s.c.writeCtx, from)
		admitted = false // repeating it is harmless
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.logBytes -= before
		s.rewriteAt = max(s.c.o.SnapshotBytes, liveFactor*s.logBytes)
		s.c.o.Logger.Debug("wrote the live entries anew", "topic", Topic, "partition", s.index,
			"bytes before", before, "bytes after", s.logBytes)
	case admitted:
		s.fail(err)
	default:
		s.rewriteAt = 2 * s.logBytes
		s.c.o.Logger.Warn("cannot write the live entries anew, trying later", "topic", Topic, "partition", s.index, "error", err)
	}
}

// appendLive appends the live entries of the groups and returns the offset where they begin, -1 when there are none.
func (s *shard) appendLive(ids []string) (from int64, admitted bool, err error) {
	from = -1
	var records []record
	bytes := 0
	flush := func() error {
		if len(records) == 0 {
			return nil
		}
		var base int64
		if base, admitted, err = s.append(records, false); err == nil && from < 0 {
			from = base
		}
		records, bytes = records[:0], 0
		return err
	}
	for _, id := range ids {
		s.mu.Lock()
		if s.phase != loaded {
			// Memory was dropped: what is missing from it lives all the same.
			s.mu.Unlock()
			return from, false, fmt.Errorf("%w: the shard is out of use", engine.ErrClosed)
		}
		var live []record
		if g := s.groups[id]; g != nil {
			live = g.live()
		}
		s.mu.Unlock()
		for _, r := range live {
			if bytes > 0 && bytes+r.size() > batchBytes {
				if err := flush(); err != nil {
					return from, admitted, err
				}
			}
			records = append(records, r)
			bytes += r.size()
		}
	}
	err = flush()
	return from, admitted, err
}

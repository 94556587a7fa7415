package engine

import "time"

// Stats is an engine's state at one moment.
type Stats struct {
	WAL        WALStats
	Info       WALInfo       // of the opening in use
	Commit     uint64        // last commit done
	Pending    int64         // bytes of batches that are in no object yet
	PendingAge time.Duration // of the oldest of them, to within a chunk; 0 when there are none
	Unsaved    int           // commits that are in the log and in no commit-log object yet
	TailMemory int64         // bytes of memory that recent batches take
	Directory  int64         // bytes of memory that the directory of what waits for upload takes
	Topics     int
	Partitions int
}

// Stats reports the engine's state. It does no I/O. While there is no session only topics and partitions are told.
func (e *Engine) Stats() Stats {
	st := Stats{Topics: len(e.Topics())}
	e.mu.RLock()
	s := e.sess
	st.Partitions = len(e.partitions)
	e.mu.RUnlock()
	if s == nil {
		return st
	}
	st.WAL, st.Info = s.wal.Stats(), s.info
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Commit, st.Unsaved = s.seq, len(s.commitLog)
	st.TailMemory, st.Directory = s.mem, s.dir
	for _, c := range s.chunks {
		if c.uploaded {
			continue
		}
		if st.Pending == 0 {
			st.PendingAge = time.Since(c.born)
		}
		st.Pending += c.bytes
	}
	return st
}

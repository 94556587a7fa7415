package engine

import (
	"sort"
	"sync"

	"github.com/headpond/headpond/internal/producerstate"
)

// Partition is a handle of one partition.
type Partition struct {
	id PartitionID
	e  *Engine

	mu   sync.Mutex
	err  error // why the partition can't be used: ErrNotFound once deleted, ErrUnavailable while the log is opened again
	s    *session
	next int64 // offset of the next batch admitted
	high int64 // high watermark: one more than the last offset that is done

	logStart  int64
	committed int64        // offsets below are in objects
	epoch     int32        // leader epoch of batches admitted now
	epochs    []EpochStart // of batches done or in objects, oldest first
	tail      []*chunkRun  // in offset order: all that is not in objects, and what is and is still in memory

	producers *producerstate.Table // as of next; nil: none
	awaiting  []awaited            // duplicates of batches that are not done, in offset order
	watches   map[*Watcher]int64   // offset watched for

	// uploaded is the producers' state as of the batches handed to uploads; only the uploader touches it.
	uploaded      *producerstate.Table
	uploadedTo    int64 // uploaded knows the batches below this offset
	uploadedEpoch int32 // last leader epoch that a commit says the start of; -1: none
}

// session returns the session that the partition is served by.
func (p *Partition) session() (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s, p.err
}

// ID names the partition.
func (p *Partition) ID() PartitionID { return p.id }

// Offsets returns the partition's offsets.
func (p *Partition) Offsets() (Offsets, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offsetsLocked(), p.err
}

func (p *Partition) offsetsLocked() Offsets {
	return Offsets{LogStart: p.logStart, HighWatermark: p.high, LeaderEpoch: p.epoch}
}

// EpochEnd tells where a leader epoch ended, as OffsetForLeaderEpoch (KIP-320) asks: for the current epoch the high
// watermark. An epoch that is greater than the current one gives -1, -1.
func (p *Partition) EpochEnd(epoch int32) (EpochEnd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return EpochEnd{}, p.err
	}
	if epoch == p.epoch {
		return EpochEnd{Epoch: epoch, End: p.high}, nil
	}
	if epoch > p.epoch {
		return EpochEnd{Epoch: -1, End: -1}, nil
	}
	// The first epoch above the one asked for; the one before it, if any, is the answer, and ends where it starts.
	i := sort.Search(len(p.epochs), func(i int) bool { return p.epochs[i].Epoch > epoch })
	switch {
	case i == 0:
		return EpochEnd{Epoch: -1, End: -1}, nil
	case i == len(p.epochs):
		return EpochEnd{Epoch: p.epochs[i-1].Epoch, End: p.high}, nil
	}
	return EpochEnd{Epoch: p.epochs[i-1].Epoch, End: p.epochs[i].Offset}, nil
}

// findRunLocked returns the index in tail of the run that holds the offset, or of the first one above it; len(tail) when there is none.
func (p *Partition) findRunLocked(offset int64) int {
	return sort.Search(len(p.tail), func(i int) bool { return p.tail[i].last >= offset })
}

// noteEpochLocked notes that a batch of the given leader epoch begins at offset.
func (p *Partition) noteEpochLocked(epoch int32, offset int64) {
	if n := len(p.epochs); n == 0 || p.epochs[n-1].Epoch < epoch {
		p.epochs = append(p.epochs, EpochStart{PartitionID: p.id, Epoch: epoch, Offset: offset})
	}
}

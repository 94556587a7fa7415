package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headpond/headpond/engine"
)

const (
	batchBytes    = 256 << 10        // of writes that share a batch
	maxBatchBytes = 512 << 10        // of one write; above it takes several batches
	queueBytes    = 16 << 20         // of writes that wait for a shard's writer
	appendLimit   = 60 * time.Second // for the topic to be made and for room in the log
)

// write is something to append. Its functions are called with shard.mu held.
type write struct {
	records []record
	// prepare makes the records when every write before this one has taken effect; it then has a batch of its own.
	prepare func() []record
	// done is called once: with nil when the records are durable, and memory is then to be changed; otherwise with why not.
	done func(error)
}

func (w *write) size() int {
	n := 0
	for _, r := range w.records {
		n += r.size()
	}
	return n
}

// errQueueFull is an [engine.ErrFull].
var errQueueFull = fmt.Errorf("%w: too much waits to be written", engine.ErrFull)

// enqueue hands a write to the shard's writer. Writes take effect in this order. s.mu is held; done may be called at once.
func (s *shard) enqueue(w *write) {
	if s.queued >= queueBytes {
		w.done(errQueueFull)
		return
	}
	s.queue = append(s.queue, w)
	s.queued += w.size()
	s.startWriter()
}

// startWriter makes sure that a writer runs; it ends by itself when there is nothing to do. s.mu is held.
func (s *shard) startWriter() {
	if !s.writing {
		s.writing = true
		s.c.work.Go(s.writeAll)
	}
}

func (s *shard) writeAll() {
	for {
		s.mu.Lock()
		batch, records := s.next()
		if batch == nil {
			if s.phase == loaded && s.logBytes >= s.rewriteAt {
				s.mu.Unlock()
				s.rewrite()
				continue
			}
			s.writing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()

		var err error
		admitted := false
		if len(records) > 0 {
			_, admitted, err = s.append(records, true)
		}

		s.mu.Lock()
		for _, w := range batch {
			w.done(err)
		}
		if err != nil && admitted {
			s.fail(err)
		}
		rewrite := s.phase == loaded && s.logBytes >= s.rewriteAt
		s.mu.Unlock()
		if rewrite {
			s.rewrite()
		}
	}
}

// fail drops the shard's memory after an append whose outcome is unknown. s.mu is held.
func (s *shard) fail(cause error) {
	s.c.o.Logger.Warn("groups are loaded again: it is unknown whether the last write took effect",
		"topic", Topic, "partition", s.index, "error", cause)
	s.unload(cause)
}

// next takes the writes of the next batch, with their records. s.mu is held.
func (s *shard) next() ([]*write, []record) {
	if len(s.queue) == 0 {
		s.queue = nil
		return nil, nil
	}
	if first := s.queue[0]; first.prepare != nil {
		s.queue = s.queue[1:]
		return []*write{first}, first.prepare()
	}
	var records []record
	n, bytes := 0, 0
	for _, w := range s.queue {
		if w.prepare != nil || n > 0 && bytes+w.size() > batchBytes {
			break
		}
		n++
		bytes += w.size()
		records = append(records, w.records...)
	}
	batch := s.queue[:n:n]
	s.queue, s.queued = s.queue[n:], s.queued-bytes
	return batch, records
}

// append makes the records durable; see [offsetsLog]. Only the writer calls it.
func (s *shard) append(records []record, urgent bool) (base int64, admitted bool, err error) {
	ctx, cancel := context.WithTimeout(s.c.writeCtx, appendLimit)
	defer cancel()
	s.mu.Lock()
	log := s.log
	s.mu.Unlock()
	if log == nil {
		if log, err = s.c.openFor(ctx, s, true); err != nil {
			return 0, false, err
		}
		s.mu.Lock()
		s.log = log
		s.mu.Unlock()
	}
	base = -1
	for len(records) > 0 {
		n := chunk(records)
		at, ok, err := s.appendChunk(ctx, log, records[:n], urgent)
		if err != nil {
			// With a part of the records written, memory would no longer be what the log says.
			return base, ok || base >= 0, err
		}
		if base < 0 {
			base = at
		}
		records = records[n:]
	}
	return base, true, nil
}

// chunk is how many of the records, at least one, go into a batch.
func chunk(records []record) int {
	bytes := 0
	for i, r := range records {
		if bytes += r.size(); i > 0 && bytes > maxBatchBytes {
			return i
		}
	}
	return len(records)
}

func (s *shard) appendChunk(ctx context.Context, log offsetsLog, records []record, urgent bool) (int64, bool, error) {
	buf := encodeBatch(records, s.c.o.Now().UnixMilli())
	defer buf.Release()
	base, admitted, err := log.append(ctx, buf, urgent)
	if err == nil {
		s.mu.Lock()
		s.logBytes += int64(len(buf.Bytes()))
		s.end = base + int64(len(records))
		s.mu.Unlock()
	}
	return base, admitted, err
}

// codeFor is what a client is told about a write that failed, whether or not it took effect: to repeat is safe.
func codeFor(err error, tooLarge int16) int16 {
	switch {
	case err == nil:
		return codeNone
	case errors.Is(err, engine.ErrTooLarge):
		return tooLarge
	case errors.Is(err, engine.ErrFull):
		return codeNotAvailable
	}
	return codeNotCoordinator
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The uploader of a session moves what is done into objects, in WAL order: it takes whole chunks, puts their batches into objects,
// commits the objects, and trims the WAL.
//
//	chunks ── take ── put ──┐                    put: several uploads at once
//	          take ── put ──┴── commit ── trim   commit: one after the other, in WAL order
//
// Commits in WAL order make the trim position simple: all at or below the last commit's Through is in objects.

// uploadsAtOnce is how many uploads put at the same time; Options.Memory has room for their bytes.
const uploadsAtOnce = 2

// uploadPause is how long the uploader waits after an upload failed for good, before it tries the same again.
const uploadPause = 5 * time.Second

// uploadLoop runs until ctx ends.
func (s *session) uploadLoop(ctx context.Context) {
	u := &uploader{s: s, slots: make(chan struct{}, uploadsAtOnce), last: closedChan()}
	defer u.wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		chunks, age := u.due()
		if len(chunks) > 0 {
			u.begin(ctx, chunks)
		} else {
			if u.relieve(ctx) {
				continue
			}
			if age > 0 {
				timer.Reset(age)
			} else {
				timer.Stop() // nothing waits: an idle broker has no tick
			}
			select {
			case <-ctx.Done():
				return
			case <-s.sealed:
			case <-timer.C:
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// uploader is the state of one session's uploads. Only the loop uses it, save where said.
type uploader struct {
	s      *session
	number uint64        // of the last upload
	slots  chan struct{} // one token for each upload in flight
	last   chan struct{} // closed when the upload begun last has been committed, or given up

	relieved time.Time // no trim without an upload before then, since one has failed
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// wait returns when no upload is in flight.
func (u *uploader) wait() { <-u.last }

// due returns the chunks that the next upload takes, if one is due; else how long until the oldest is old enough, 0 when
// nothing waits.
func (u *uploader) due() (take []*chunk, age time.Duration) {
	s := u.s
	o := &s.e.o
	stats := s.wal.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	var waiting []*chunk
	var bytes int64
	for _, c := range s.chunks {
		if !c.uploaded && c.to > s.taken {
			waiting = append(waiting, c)
			bytes += c.bytes
		}
	}
	if len(waiting) == 0 {
		return nil, 0
	}
	pressed := stats.Used > stats.Capacity/2 || s.dir > s.e.dirBudget/2 || waiting[0].from < s.wanted
	if !pressed && bytes < o.UploadBytes {
		if o.UploadAge < 0 {
			return nil, 0
		}
		if age = o.UploadAge - time.Since(waiting[0].born); age > 0 {
			return nil, age
		}
		pressed = true
	}
	var taken int64
	for _, c := range waiting {
		if !c.sealed {
			if !pressed && taken > 0 {
				break
			}
			s.sealLocked(c)
		}
		if c.undone > 0 || taken > 0 && taken+c.bytes > o.UploadBytes {
			break // a chunk that is not done wakes the loop when it is
		}
		take = append(take, c)
		taken += c.bytes
	}
	if len(take) > 0 {
		s.taken = take[len(take)-1].to
	}
	return take, o.UploadAge
}

// begin starts an upload of the chunks, waiting for a slot.
func (u *uploader) begin(ctx context.Context, chunks []*chunk) {
	u.slots <- struct{}{}
	u.number++
	before, committed := u.last, make(chan struct{})
	u.last = committed
	start := time.Now()
	up, err := u.s.gather(ctx, u.number, chunks)
	for err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrCorrupt) {
			// A log that can't be read back where it is done: the next session reads it all again, and says so.
			u.s.fail(fmt.Errorf("read batches to upload: %w", err))
			<-before
			close(committed)
			<-u.slots
			return
		}
		u.s.e.o.Logger.Error("reading batches to upload failed; it is tried again", "err", err)
		pause(ctx, uploadPause)
		up, err = u.s.gather(ctx, u.number, chunks)
	}
	go func() {
		defer func() { <-u.slots }()
		defer close(committed)
		err := u.s.finish(ctx, up, before)
		u.s.e.o.Events.Uploaded(up.bytes, len(up.objects), time.Since(start), err)
		if err != nil && ctx.Err() == nil {
			u.s.fail(err)
		}
	}()
}

// finish puts the upload's objects, commits them once every earlier upload is committed, and trims.
func (s *session) finish(ctx context.Context, up *upload, before <-chan struct{}) error {
	defer up.release()
	for {
		err := s.put(ctx, up)
		if err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, errMisplaced) || errors.Is(err, ErrFenced) {
			<-before
			return err
		}
		s.e.o.Logger.Error("an upload failed; it is tried again", "store", s.e.o.Store.Info().URL, "bytes", up.bytes, "err", err)
		pause(ctx, uploadPause)
	}
	<-before
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := s.commit(context.WithoutCancel(ctx), up.commit); err != nil {
		return fmt.Errorf("commit an upload: %w", err)
	}
	s.uploadedThrough(up.to)
	s.trim(ctx, up.to)
	return nil
}

// relieve moves the trim position where the log stays full and no upload is due: it is filling with commits alone, or an earlier trim
// failed. It reports whether that made room.
func (u *uploader) relieve(ctx context.Context) bool {
	s := u.s
	stats := s.wal.Stats()
	s.mu.Lock()
	idle := !s.pendingLocked(s.admitted)
	done, covered := s.done, s.covered
	s.mu.Unlock()
	if !idle || stats.Used <= stats.Capacity/2 || time.Now().Before(u.relieved) {
		return false
	}
	u.wait()
	if covered > stats.Trim && !s.trim(ctx, covered) {
		u.relieved = time.Now().Add(uploadPause)
		return false
	}
	// Each such commit takes room itself: it must be worth it.
	if done > covered && int64(done-covered) >= stats.Capacity/trimShare {
		_, err := s.commit(ctx, func() (*Commit, error) { return &Commit{Through: done}, nil })
		if err != nil || !s.trim(ctx, done) {
			u.relieved = time.Now().Add(uploadPause)
			return false
		}
	}
	return s.wal.Stats().Used <= stats.Capacity/2
}

// pendingLocked says whether a batch at or below the position is not in an object yet.
func (s *session) pendingLocked(to Position) bool {
	for _, c := range s.chunks {
		if !c.uploaded && c.from < to {
			return true
		}
	}
	return false
}

// trimShare and trimBytes say how much the log holds back before it is trimmed: the smaller of a share of the capacity and a number
// of bytes. Each trim costs a commit-log object.
const (
	trimShare = 8
	trimBytes = 256 << 20
)

// trim lets the log forget what a done commit covers, once the index is durable and the commits below are in objects. It is lazy, and
// a failure, which it reports as false, leaves it for the next time.
func (s *session) trim(ctx context.Context, to Position) bool {
	stats := s.wal.Stats()
	held := int64(to - stats.Trim)
	if held < min(stats.Capacity/trimShare, trimBytes) && stats.Used <= stats.Capacity/2 {
		return true
	}
	err := s.e.index().Sync(ctx)
	if err == nil {
		// All of them, not only those below the position: the commit that covers it lies above it, and an index that is rebuilt
		// must have that one before the replay begins.
		err = s.saveAllCommits(ctx)
	}
	if err == nil {
		err = s.wal.Trim(ctx, to)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.e.o.Logger.Warn("the log was not trimmed; it is tried after the next upload", "err", err)
		}
		return false
	}
	s.e.o.Events.Trimmed(to)
	s.mu.Lock()
	s.wakeLocked()
	s.mu.Unlock()
	return true
}

// flush uploads everything that was done before the call.
func (s *session) flush(ctx context.Context) error {
	s.mu.Lock()
	to := s.done
	s.wanted = max(s.wanted, to)
	s.mu.Unlock()
	s.kickUploader()
	for {
		s.mu.Lock()
		pending, room, err := s.pendingLocked(to), s.room, s.err
		s.mu.Unlock()
		switch {
		case err != nil:
			return unavailable(err)
		case !pending:
			return nil
		}
		select {
		case <-room:
		case <-s.ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: flush: %w", ErrUnavailable, ctx.Err())
		}
	}
}

// Flush uploads everything that was acknowledged before the call.
func (e *Engine) Flush(ctx context.Context) error {
	s, err := e.session()
	if err != nil {
		return err
	}
	return s.flush(ctx)
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

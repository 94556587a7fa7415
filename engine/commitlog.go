package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errNoChange is returned by a decision that finds nothing to commit.
var errNoChange = errors.New("nothing to commit")

// commit decides, writes and applies one commit. decide runs when every earlier commit is applied and before any later one is
// decided, so it sees the state that the commit will change; it fills in what changes and returns errNoChange to leave all as it
// is. commit returns once the commit is done and applied; when ctx ends first, the commit goes on without its caller.
//
//	decide ── WAL append ── done ── index ── topics, log starts
//	└──────────── commits is held, one at a time ────────────┘
//
// A commit that is done is the truth even if the index can't take it now: the session then holds all later ones back until it can.
func (s *session) commit(ctx context.Context, decide func() (*Commit, error)) (*Commit, error) {
	if err := s.commits.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	type outcome struct {
		c   *Commit
		err error
	}
	s.mu.Lock()
	if err := s.err; err != nil {
		s.mu.Unlock()
		s.commits.Release(1)
		return nil, unavailable(err)
	}
	s.work.Add(1) // under mu, so that whoever waits for the work of an ended session has not begun to
	s.mu.Unlock()
	result := make(chan outcome, 1)
	go func() {
		defer s.work.Done()
		defer s.commits.Release(1)
		c, err := s.commitOne(decide)
		result <- outcome{c, err}
	}()
	select {
	case r := <-result:
		return r.c, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: commit: %w", ErrUnavailable, ctx.Err())
	}
}

func (s *session) commitOne(decide func() (*Commit, error)) (*Commit, error) {
	if err := s.alive(); err != nil {
		return nil, unavailable(err)
	}
	c, err := decide()
	if err != nil {
		return nil, err
	}
	c.Seq, c.Prev, c.WAL, c.Epoch = s.seq+1, s.sum, s.info.ID, s.info.Epoch
	for i := range c.Meta {
		c.Meta[i].Rev = c.Seq
	}
	encoded := c.AppendTo(nil)
	logged, err := s.writeCommit(c, encoded)
	if err != nil {
		return nil, fmt.Errorf("commit %d: %w", c.Seq, unavailable(err))
	}
	sum := CommitSum(encoded)
	s.mu.Lock()
	s.seq, s.sum = c.Seq, sum
	s.commitLog = append(s.commitLog, logged)
	s.mu.Unlock()
	if err := s.indexCommit(c, sum); err != nil {
		return nil, fmt.Errorf("commit %d: %w", c.Seq, unavailable(err))
	}
	s.e.applied(s, c)
	s.mu.Lock()
	s.covered = max(s.covered, c.Through)
	s.mu.Unlock()
	if stats := s.wal.Stats(); stats.Used > stats.Capacity/2 {
		s.kickUploader() // commits alone may be what fills the log
	}
	s.e.o.Events.Committed(c.Seq)
	return c, nil
}

// lastShare is the part of the log, as its divisor, that only commits of uploads may take: they lead to a trim. Other commits and
// group offsets, which use the log's reserve too, could else fill it while the store is away, and nothing would ever make room.
const lastShare = 32

// shortLocked says whether only commits of uploads may be written.
func (s *session) shortLocked(size int) bool {
	stats := s.wal.Stats()
	return stats.Capacity-stats.Used-int64(size) < stats.Capacity/lastShare
}

// writeCommit appends the commit to the WAL and waits until it is done. A commit of an upload waits for room; any other is refused
// with ErrFull when there is none within HoldFull, since the commit that makes room may wait behind it.
func (s *session) writeCommit(c *Commit, encoded []byte) (loggedCommit, error) {
	logged := loggedCommit{seq: c.Seq}
	upload := c.Through > 0
	var hold <-chan time.Time
	done := make(chan error, 1)
	complete := func(err error) {
		if err == nil {
			s.mu.Lock() // waits for logged.pos, should the WAL be faster than Append's return
			s.done = logged.pos
			s.mu.Unlock()
		}
		done <- err
	}
	for {
		s.mu.Lock()
		room, err := s.room, s.err
		if err == nil {
			if !upload && s.shortLocked(len(encoded)) {
				s.kickUploader()
				s.mu.Unlock()
				return logged, fmt.Errorf("%w: the rest of the log is for commits of uploads", ErrFull)
			}
			logged.before = s.admitted
			logged.pos, err = s.wal.Append(Record{Parts: [][]byte{{walCommit}, encoded}, Internal: true}, complete)
			if err == nil {
				s.admitted = logged.pos
			}
		}
		s.mu.Unlock()
		if errors.Is(err, ErrFull) {
			s.kickUploader()
			if hold == nil && !upload {
				hold = time.After(s.e.o.HoldFull)
			}
			select {
			case <-room:
				continue
			case <-time.After(fullRetry):
				continue
			case <-hold:
				return logged, err
			case <-s.ended:
				return logged, s.alive()
			}
		}
		if err == nil {
			err = <-done
		}
		if err != nil && !errors.Is(err, ErrInvalid) {
			s.fail(err)
		}
		return logged, err
	}
}

// indexRetry is how long the session waits before it offers a commit again to an index that has no room.
const indexRetry = time.Second

// indexCommit applies a done commit to the index. A full index is waited for; any other failure ends the session, and the
// next one starts from what the index has.
func (s *session) indexCommit(c *Commit, sum uint32) error {
	for warned := false; ; warned = true {
		err := s.e.index().Apply(context.Background(), c, sum)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrFull) {
			s.e.indexFailed.Store(true)
			s.fail(fmt.Errorf("index: %w", err))
			return err
		}
		if !warned {
			s.e.o.Logger.Error("the index has no room: commits wait until it has", "commit", c.Seq, "err", err)
		}
		select {
		case <-time.After(indexRetry):
		case <-s.ended:
			return err
		}
	}
}

// unavailable makes an error that ended a session into what callers are told: the call may be repeated, its outcome may be unknown.
func unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrFenced), errors.Is(err, ErrClosed):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

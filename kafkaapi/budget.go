package kafkaapi

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// budget bounds the bytes of requests in memory. A request takes a first share, for which it waits holding nothing, and
// grows as its bytes arrive. A request that grows holds something, so it must not wait for others that do the same: when
// there is no room it waits for the one overdraft instead, whose holder is never held up. So memory stays below the
// budget and one largest request, and no two requests wait for each other.
type budget struct {
	sem       *semaphore.Weighted
	limit     int64
	overdraft chan struct{} // holds a token while somebody overdraws
}

func newBudget(limit int64) *budget {
	return &budget{sem: semaphore.NewWeighted(limit), limit: limit, overdraft: make(chan struct{}, 1)}
}

// share is what one request has taken. The zero value has nothing. It is used by one goroutine at a time.
type share struct {
	b         *budget
	n         int64 // taken from the budget
	overdrawn bool
}

// begin waits for n bytes of the budget, or for ctx to end. The share has nothing yet. More than the whole budget counts
// as the whole of it.
func (s *share) begin(ctx context.Context, b *budget, n int64) error {
	n = min(n, b.limit)
	if err := b.sem.Acquire(ctx, n); err != nil {
		return err
	}
	s.b, s.n = b, n
	return nil
}

// grow takes n bytes more, or waits for the overdraft, or for ctx to end.
func (s *share) grow(ctx context.Context, n int64) error {
	if s.overdrawn || n <= 0 {
		return nil
	}
	if s.b.sem.TryAcquire(n) {
		s.n += n
		return nil
	}
	select {
	case s.b.overdraft <- struct{}{}:
		s.overdrawn = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveBack returns everything. The share may be used again.
func (s *share) giveBack() {
	if s.b == nil {
		return
	}
	if s.overdrawn {
		<-s.b.overdraft
	}
	s.b.sem.Release(s.n)
	*s = share{}
}

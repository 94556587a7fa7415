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

// take waits for n bytes, or for ctx to end. The first take of a share is at most the whole budget.
func (s *share) take(ctx context.Context, b *budget, n int64) error {
	if s.overdrawn || n <= 0 {
		return nil
	}
	if s.b == nil {
		n = min(n, b.limit)
		if err := b.sem.Acquire(ctx, n); err != nil {
			return err
		}
		s.b, s.n = b, n
		return nil
	}
	if b.sem.TryAcquire(n) {
		s.n += n
		return nil
	}
	select {
	case b.overdraft <- struct{}{}:
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

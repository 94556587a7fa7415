package kafkaapi

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestBudgetIsGivenBack(t *testing.T) {
	b := newBudget(100)
	for range 3 {
		var s share
		if err := s.begin(t.Context(), b, 60); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{40, 500} {
			if err := s.grow(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if !s.overdrawn {
			t.Error("600 bytes of 100 without the overdraft")
		}
		s.giveBack()
	}
}

func TestFirstShareWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		var a, c share
		if err := a.begin(t.Context(), b, 80); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- c.begin(t.Context(), b, 30) }()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("30 more of 100: %v", err)
		default:
		}
		a.giveBack()
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		c.giveBack()
	})
}

// Two requests that both hold something and both want more must not wait for each other.
func TestGrowingRequestsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 10)
		for range cap(done) {
			go func() {
				var s share
				err := s.begin(ctx, b, 10)
				if err == nil {
					err = s.grow(ctx, 90)
				}
				s.giveBack()
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWaitForTheOverdraftEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		b.overdraft <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		var s share
		if err := s.begin(ctx, b, 10); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- s.grow(ctx, 1) }()
		synctest.Wait()
		cancel()
		if err := <-got; err == nil {
			t.Error("more than there is")
		}
	})
}

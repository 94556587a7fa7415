package process

import (
	"testing"
	"time"
)

// Eventually polls until fn returns true, and fails the test with what it waited for when that takes longer than
// [Deadline].
func Eventually(t testing.TB, what string, fn func() bool) {
	t.Helper()
	end := time.Now().Add(Deadline)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !fn() {
		if time.Now().After(end) {
			t.Fatalf("waited %v for: %s", Deadline, what)
		}
		<-tick.C
	}
}

// Pause lets a broker run for a while, where the test is about the passing of time itself.
func Pause(d time.Duration) { <-time.After(d) }

package main

import (
	"context"
	"errors"
	"time"

	"github.com/headpond/headpond/internal/datadir"
)

// A broker that was killed holds its locks and addresses until the kernel has taken its memory apart, which is some time
// after kill(1) has returned. A start right after it waits that long before it takes the holder for one that lives.
const (
	exitPatience = 3 * time.Second
	exitPoll     = 50 * time.Millisecond
)

// untilFree repeats open while it fails because something is held, until the deadline or ctx's end.
func untilFree[T any](ctx context.Context, deadline time.Time, open func() (T, error), held func(error) bool) (T, error) {
	for {
		got, err := open()
		if err == nil || !held(err) || !time.Now().Before(deadline) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(exitPoll):
		}
	}
}

// untilUnlocked repeats open, which opens a data directory, while another process has it; it calls waiting once, when it
// has to wait.
func untilUnlocked(ctx context.Context, patience time.Duration, waiting func(error), open func() (*datadir.Dir, error)) (*datadir.Dir, error) {
	told := false
	return untilFree(ctx, time.Now().Add(patience), open, func(err error) bool {
		var held *datadir.InUseError
		if !errors.As(err, &held) {
			return false
		}
		if !told && patience > 0 {
			told = true
			waiting(err)
		}
		return true
	})
}

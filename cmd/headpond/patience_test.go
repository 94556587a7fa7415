package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/internal/datadir"
)

func TestStartWaitsForAKilledBrokersLock(t *testing.T) {
	for name, c := range map[string]struct {
		freedAfter time.Duration
		patience   time.Duration
		cancelled  bool
		took       time.Duration
		opens      bool
	}{
		"freed in time":     {freedAfter: 2*time.Second + time.Millisecond, patience: exitPatience, took: 2*time.Second + exitPoll, opens: true},
		"held on":           {freedAfter: time.Hour, patience: exitPatience, took: exitPatience},
		"no patience":       {freedAfter: time.Hour},
		"told to stop":      {freedAfter: time.Hour, patience: exitPatience, cancelled: true},
		"never held at all": {patience: exitPatience, opens: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d")
			synctest.Test(t, func(t *testing.T) {
				holder, err := datadir.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				free := func() { _ = holder.Close() }
				if c.freedAfter == 0 {
					free()
				} else {
					defer time.AfterFunc(c.freedAfter, free).Stop()
					defer free()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancelled {
					cancel()
				}
				start, told := time.Now(), 0
				dir, err := untilUnlocked(ctx, c.patience, func(error) { told++ }, func() (*datadir.Dir, error) { return datadir.Open(path) })
				if took := time.Since(start); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if waited := c.freedAfter > 0 && c.patience > 0; waited != (told == 1) {
					t.Errorf("told of waiting %d times", told)
				}
				if c.opens {
					if err != nil {
						t.Fatal(err)
					}
					if err := dir.Close(); err != nil {
						t.Error(err)
					}
					return
				}
				var held *datadir.InUseError
				if !errors.As(err, &held) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

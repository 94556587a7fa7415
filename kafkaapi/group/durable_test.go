package group

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
)

// replay applies a log to an image.
func replay(t *testing.T, l *fakeLog, img image) {
	t.Helper()
	err := l.read(context.Background(), func(b recordbatch.Batch) error {
		for r, err := range b.Records(nil, 0) {
			if err != nil {
				return err
			}
			if _, err := img.apply(r.Key, r.Value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRefusedWritesLoseNothing(t *testing.T) {
	for _, tt := range []struct {
		err        error
		want, sync int16
	}{
		{engine.ErrFull, codeNotAvailable, codeNotAvailable},
		{engine.ErrUnavailable, codeNotCoordinator, codeNotCoordinator},
		{engine.ErrTooLarge, codeInvalidCommitSize, codeGroupMaxSize},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeService("lines")
				c := start(t, f, testOptions)
				m := c.consumer(t, "g")
				together(t, m)
				m.commit("lines", 0, 1)
				log := f.groupsLog("g")
				log.set(func(l *fakeLog) { l.onAppend = func() (error, bool) { return tt.err, false } })
				wantCode(t, "commit", m.commit("lines", 0, 2), tt.want)
				wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 1})
				wantCode(t, "heartbeat", m.heartbeat(), codeNone)
				m.protocols = []string{"range", "sticky"}
				m.join()
				wantCode(t, "sync", m.sync(m).ErrorCode, tt.sync)
				wantCode(t, "heartbeat", m.heartbeat(), codeRebalanceInProgress)
				log.set(func(l *fakeLog) { l.onAppend = nil })
				together(t, m)
				wantCode(t, "commit", m.commit("lines", 0, 3), codeNone)
				wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 3})
			})
		})
	}
}

// When it is unknown whether a write took effect, the log is asked: here the write is there.
func TestUnknownOutcomeIsSettledByLoadingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		together(t, m)
		m.commit("lines", 0, 1)
		log := f.groupsLog("g")
		log.set(func(l *fakeLog) {
			l.onAppend = func() (error, bool) { return engine.ErrPoisoned, true }
			l.onRead = func() error { return engine.ErrUnavailable }
		})
		other := c.consumer(t, "g")
		other.version = 3
		var wg sync.WaitGroup
		wg.Go(func() { wantCode(t, "parked join", other.tryJoin().ErrorCode, codeNotCoordinator) })
		synctest.Wait()
		wantCode(t, "commit", m.commit("lines", 0, 2), codeNotCoordinator)
		wg.Wait()
		// The engine is not back yet.
		wantCode(t, "commit", m.commit("lines", 0, 3), codeLoading)
		wantCode(t, "heartbeat", m.heartbeat(), codeNone)
		wantCode(t, "sync", m.sync().ErrorCode, codeRebalanceInProgress)
		log.set(func(l *fakeLog) { l.onAppend, l.onRead = nil, nil })
		time.Sleep(maxLoadRetry)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 2})
		wantCode(t, "heartbeat", m.heartbeat(), codeNone)
		wantCode(t, "commit", m.commit("lines", 0, 4), codeNone)
	})
}

func TestCommitsShareAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		o := testOptions
		o.Partitions = 1
		c := start(t, f, o)
		c.commitSimple(t, "g", "lines", 0, 1)
		log := f.groupsLog("g")
		appends := 0
		log.set(func(l *fakeLog) {
			l.onAppend = func() (error, bool) { appends++; time.Sleep(time.Millisecond); return nil, false }
		})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				wantCode(t, "commit", c.commitSimple(t, fmt.Sprint("g", i), "lines", 0, int64(i)), codeNone)
			})
		}
		wg.Wait()
		if appends > 2 {
			t.Errorf("%d appends", appends)
		}
	})
}

func TestLogStaysInProportionToWhatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		o := testOptions
		o.SnapshotBytes = 4096
		c := start(t, f, o)
		m := c.consumer(t, "g")
		together(t, m)
		for i := range 1000 {
			m.commit("lines", int32(i%4), int64(i))
		}
		log := f.groupsLog("g")
		if log.bytes > 10_000 || log.deleted < 5 {
			t.Errorf("the log has %d bytes after %d deletions", log.bytes, log.deleted)
		}
		want := map[string]int64{"lines/0": 996, "lines/1": 997, "lines/2": 998, "lines/3": 999}
		wantOffsets(t, c.fetchAll(t, "g"), want)
		stop(t, c)
		c = start(t, f, o)
		wantOffsets(t, c.fetchAll(t, "g"), want)
		c.wantState(t, "g", "Stable", 1)
	})
}

func TestLoadOfALongLogWritesItAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		for i := range 200 {
			c.commitSimple(t, "g", "lines", 0, int64(i))
		}
		stop(t, c)
		log := f.groupsLog("g")
		before := log.bytes
		o := testOptions
		o.SnapshotBytes = 1024
		c = start(t, f, o)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 199})
		synctest.Wait()
		if log.bytes >= before/10 {
			t.Errorf("%d bytes of %d are left", log.bytes, before)
		}
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 199})
	})
}

// A crash before or after each append and each deletion leaves a log that gives what was acknowledged.
func TestCrashWhileTheLogIsWrittenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		o := testOptions
		o.SnapshotBytes, o.Partitions = 2048, 1
		c := start(t, f, o)
		var mu sync.Mutex
		acked := map[string]map[string]int64{}
		check := func(l *fakeLog) {
			mu.Lock()
			defer mu.Unlock()
			img := image{}
			replay(t, l.copy(), img)
			for g, offsets := range acked {
				got := map[string]int64{}
				if gi := img[g]; gi != nil {
					for tp, o := range gi.offsets {
						got[fmt.Sprintf("%s/%d", tp.topic, tp.partition)] = o.at
					}
				}
				for k, at := range offsets {
					if got[k] < at { // the commit under way may be there too
						t.Errorf("group %s: offsets %v, acknowledged %v", g, got, offsets)
						return
					}
				}
			}
		}
		c.commitSimple(t, "g0", "lines", 0, 0)
		log := f.groupsLog("g0")
		var steps atomic.Int64
		log.set(func(l *fakeLog) {
			l.onAppend = func() (error, bool) { steps.Add(1); check(log); return nil, false }
			l.onDelete = func() error { steps.Add(1); check(log); return nil }
		})
		for i := range int64(300) {
			g, p := fmt.Sprint("g", i%5), int32(i%3)
			wantCode(t, "commit", c.commitSimple(t, g, "lines", p, i), codeNone)
			mu.Lock()
			if acked[g] == nil {
				acked[g] = map[string]int64{}
			}
			acked[g][fmt.Sprintf("lines/%d", p)] = i
			mu.Unlock()
			check(log)
		}
		synctest.Wait()
		if log.deleted == 0 || steps.Load() < 300 {
			t.Errorf("%d deletions, %d steps", log.deleted, steps.Load())
		}
		for g, want := range acked {
			wantOffsets(t, c.fetchAll(t, g), want)
		}
	})
}

// The writer goes on while the coordinator closes, and memory is dropped under it.
func TestCloseWhileTheLogIsWrittenAnewLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		o := testOptions
		o.SnapshotBytes, o.Partitions = 1<<20, 1
		c := start(t, f, o)
		want := map[string]int64{"lines/0": 7}
		for i := range 2000 { // more than one batch of live entries
			if code := c.commitSimple(t, fmt.Sprintf("%0100d", i), "lines", 0, 7); code != codeNone {
				t.Fatalf("commit: code %d", code)
			}
		}
		stop(t, c)
		log := f.groupsLog("")
		appends := make(chan chan struct{})
		log.set(func(l *fakeLog) {
			l.onAppend = func() (error, bool) {
				proceed := make(chan struct{})
				appends <- proceed
				<-proceed
				return nil, false
			}
		})
		for range 3 { // a long log of what lives already
			log.batches = append(log.batches, log.batches...)
		}
		c = start(t, f, o)
		c.fetchAll(t, "x")
		proceed := <-appends
		var wg sync.WaitGroup
		wg.Go(func() { stop(t, c) })
		synctest.Wait()
		log.set(func(l *fakeLog) { l.onAppend = nil })
		close(proceed)
		wg.Wait()
		if log.deleted > 0 {
			t.Errorf("the log was cut to %d bytes", log.bytes)
		}
		c = start(t, f, testOptions)
		for i := range 2000 {
			wantOffsets(t, c.fetchAll(t, fmt.Sprintf("%0100d", i)), want)
		}
	})
}

// Random histories of commits, deletions, refusals, lost answers and restarts, compared with a model.
func TestHistoriesAgreeWithAModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { history(t, seed) })
		})
	}
}

func history(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	f := newFakeService("a", "b")
	o := testOptions
	o.SnapshotBytes, o.Partitions = 3000, 2
	c := start(t, f, o)
	model := map[string]map[string]int64{}
	groups := []string{"g1", "g2", "g3", "g4"}
	for _, g := range groups {
		model[g] = map[string]int64{}
	}
	c.commitSimple(t, "seed", "a", 0, 0)
	for i := range int64(400) {
		g, topic, p := groups[r.IntN(len(groups))], []string{"a", "b"}[r.IntN(2)], int32(r.IntN(3))
		key := fmt.Sprintf("%s/%d", topic, p)
		log := f.groupsLog(g)
		log.set(func(l *fakeLog) { l.onAppend, l.onDelete = nil, nil })
		switch n := r.IntN(100); {
		case n < 70:
			wantCode(t, "commit", c.commitSimple(t, g, topic, p, i), codeNone)
			model[g][key] = i
		case n < 76: // nothing happens
			log.set(func(l *fakeLog) { l.onAppend = func() (error, bool) { return engine.ErrFull, false } })
			wantCode(t, "refused commit", c.commitSimple(t, g, topic, p, i), codeNotAvailable)
		case n < 82: // it happens, and nobody is told
			log.set(func(l *fakeLog) { l.onAppend = func() (error, bool) { return engine.ErrPoisoned, true } })
			wantCode(t, "lost commit", c.commitSimple(t, g, topic, p, i), codeNotCoordinator)
			model[g][key] = i
		case n < 86:
			log.set(func(l *fakeLog) { l.onDelete = func() error { return engine.ErrUnavailable } })
			wantCode(t, "commit", c.commitSimple(t, g, topic, p, i), codeNone)
			model[g][key] = i
		case n < 90:
			want := codeNone
			if len(model[g]) == 0 {
				want = codeGroupIDNotFound
			}
			wantCode(t, "delete", c.deleteGroupCode(t, g), want)
			model[g] = map[string]int64{}
		case n < 93:
			f.remove(topic)
			f.create(topic, 8)
			for _, offsets := range model {
				maps.DeleteFunc(offsets, func(k string, _ int64) bool { return k[:1] == topic })
			}
			// A group whose offsets are all of the old topic is there until the sweep.
			for _, g := range groups {
				c.fetchAll(t, g)
			}
			synctest.Wait()
		default:
			stop(t, c)
			c = start(t, f, o)
		}
		synctest.Wait() // what follows an answer belongs to its step
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, i)
		}
		for _, g := range groups {
			wantOffsets(t, c.fetchAll(t, g), model[g])
		}
		synctest.Wait() // a load may write the log anew
	}
}

// Run with the race detector: requests of all kinds at once.
func TestConcurrentRequests(t *testing.T) {
	f := newFakeService("lines")
	o := testOptions
	o.SnapshotBytes = 2048
	c := start(t, f, o)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			g := fmt.Sprint("g", i%3)
			for j := range int64(60) {
				m := c.consumer(t, g)
				m.version, m.rebalance = 3, 20*time.Millisecond
				if m.tryJoin().ErrorCode == codeNone {
					m.sync(m)
					m.heartbeat()
					m.commit("lines", int32(i), j)
				}
				c.commitSimple(t, fmt.Sprint("simple", i), "lines", 0, j)
				c.fetchAll(t, g)
				c.describe(t, g)
				c.Groups()
				m.leave()
				if j%20 == 0 {
					c.onTick()
					c.deleteGroupCode(t, g)
				}
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		wantOffsets(t, c.fetchAll(t, fmt.Sprint("simple", i)), map[string]int64{"lines/0": 59})
	}
}

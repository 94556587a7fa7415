package load

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/history"
)

// newReader makes a log for a reading session, and the session's number.
func (l *Load) newReader() (*history.Log, uint64, error) {
	session := l.sessions.Add(1)
	log, err := history.Create(filepath.Join(l.opt.Dir, fmt.Sprintf("reader-%d-%d.log", l.opt.FirstProducer, session)), l.clock)
	if err != nil {
		return nil, 0, err
	}
	l.mu.Lock()
	l.readers = append(l.readers, log)
	l.mu.Unlock()
	return log, session, nil
}

// ReadAll reads every partition from its log start to the high watermark that the broker tells at the beginning, and
// writes it to the history as complete.
func (l *Load) ReadAll(ctx context.Context) error {
	return l.readFrom(ctx, func(_ int32, start int64) int64 { return start })
}

// ReadRecent is ReadAll of what came since the last complete reading, and of the overlap before it.
func (l *Load) ReadRecent(ctx context.Context, overlap int64) error {
	return l.readFrom(ctx, func(p int32, start int64) int64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return max(start, l.complete[p]-overlap)
	})
}

func (l *Load) readFrom(ctx context.Context, from func(p int32, start int64) int64) error {
	log, session, err := l.newReader()
	if err != nil {
		return err
	}
	ends, err := l.watermarks(ctx, log, session)
	if err != nil {
		return err
	}
	at := map[int32]kgo.Offset{}
	left := map[int32]history.Event{}
	for p, e := range ends {
		e.From = min(from(p, e.From), e.To)
		if e.From < e.To {
			at[p], left[p] = kgo.NewOffset().At(e.From), e
			continue
		}
		if err := log.Append(e); err != nil {
			return err
		}
	}
	if len(left) == 0 {
		return nil
	}
	cl, err := Client(l.opt.Addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.opt.Topic: at}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := l.fetched(ctx, fetches, log, session); err != nil {
			return err
		}
		var finished []history.Event
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			e, ok := left[p.Partition]
			if n := len(p.Records); ok && n > 0 && p.Records[n-1].Offset+1 >= e.To {
				finished = append(finished, e)
				delete(left, p.Partition)
				l.completed(p.Partition, e.To)
			}
		})
		if err := log.Append(finished...); err != nil {
			return err
		}
	}
	return nil
}

func (l *Load) completed(p int32, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complete == nil {
		l.complete = map[int32]int64{}
	}
	l.complete[p] = to
}

// watermarks asks for the ends of all partitions, writes them down, and returns the Complete event of each.
func (l *Load) watermarks(ctx context.Context, log *history.Log, session uint64) (map[int32]history.Event, error) {
	cl, err := Client(l.opt.Addr)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	asked := l.clock.Now()
	starts, err := adm.ListStartOffsets(ctx, l.opt.Topic)
	if err != nil {
		return nil, fmt.Errorf("log starts: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, l.opt.Topic)
	if err != nil {
		return nil, fmt.Errorf("high watermarks: %w", err)
	}
	if err := errors.Join(starts.Error(), ends.Error()); err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	at := l.clock.Now()
	complete := map[int32]history.Event{}
	for p := range l.opt.Partitions {
		start, ok := starts.Lookup(l.opt.Topic, p)
		end, ok2 := ends.Lookup(l.opt.Topic, p)
		if !ok || !ok2 {
			return nil, fmt.Errorf("%s-%d is not there", l.opt.Topic, p)
		}
		e := history.Event{Kind: history.Watermark, Asked: asked, At: at, From: start.Offset, To: end.Offset,
			Partition: history.Partition{Topic: l.opt.Topic, Num: p}}
		if err := log.Append(e); err != nil {
			return nil, err
		}
		e.Kind, e.Session = history.Complete, session
		complete[p] = e
	}
	return complete, nil
}

// fetched writes down what a poll gave.
func (l *Load) fetched(ctx context.Context, fetches kgo.Fetches, log *history.Log, session uint64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if errs := fetches.Errors(); len(errs) > 0 {
		return fmt.Errorf("read %s-%d: %w", errs[0].Topic, errs[0].Partition, errs[0].Err)
	}
	var events []history.Event
	now := l.clock.Now()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		part := history.Partition{Topic: p.Topic, Num: p.Partition}
		for _, r := range p.Records {
			events = append(events, history.Event{Kind: history.Read, Session: session, Partition: part,
				Offset: r.Offset, ID: ID(r), Digest: Digest(r)})
		}
		if n := len(p.Records); n > 0 {
			events = append(events, history.Event{Kind: history.Progress, Session: session, At: now, Partition: part, To: p.Records[n-1].Offset + 1})
		}
	})
	return log.Append(events...)
}

// Follow reads all partitions as they grow, through restarts of the broker, until ctx ends or the load is closed. What
// it cannot read is one of the load's Failures.
func (l *Load) Follow(ctx context.Context) error {
	log, session, err := l.newReader()
	if err != nil {
		return err
	}
	at := map[int32]kgo.Offset{}
	for p := range l.opt.Partitions {
		at[p] = kgo.NewOffset().At(0)
	}
	cl, err := Client(l.opt.Addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.opt.Topic: at}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(500_000_000))
	if err != nil {
		return err
	}
	l.wg.Go(func() {
		defer cl.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		l.wg.Go(func() {
			select {
			case <-l.stop:
				cancel()
			case <-ctx.Done():
			}
		})
		for ctx.Err() == nil {
			if err := l.fetched(ctx, cl.PollFetches(ctx), log, session); err != nil && ctx.Err() == nil {
				l.fail(fmt.Errorf("follow: %w", err))
				return
			}
		}
	})
	return nil
}

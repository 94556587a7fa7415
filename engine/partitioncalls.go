package engine

import (
	"context"
	"fmt"
)

// DeleteRecords moves the log start up to the offset, -1 standing for the high watermark, and returns the new log start. It
// is durable when it returns. Beyond the high watermark it is [ErrOutOfRange]; below the log start nothing happens.
func (p *Partition) DeleteRecords(ctx context.Context, before int64) (int64, error) {
	s, err := p.session()
	if err != nil {
		return 0, err
	}
	_, err = s.commit(ctx, func() (*Commit, error) {
		now, err := p.Offsets()
		switch {
		case err != nil:
			return nil, err
		case before == -1:
			before = now.HighWatermark
		case before < 0 || before > now.HighWatermark:
			return nil, fmt.Errorf("delete records below offset %d: %w: the partition has offsets %d to %d", before, ErrOutOfRange, now.LogStart, now.HighWatermark)
		}
		if before <= now.LogStart {
			return nil, errNoChange
		}
		return &Commit{LogStarts: []LogStart{{PartitionID: p.id, Offset: before}}}, nil
	})
	if err != nil && err != errNoChange {
		return 0, err
	}
	now, err := p.Offsets()
	return now.LogStart, err
}

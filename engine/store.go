package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/headpond/headpond/internal/buffer"
)

// storeClient is what the engine does to every object store: each attempt has its own deadline, what may be repeated is repeated
// with jitter until the caller's context ends, and a read counts only when it is as long as it should be.
type storeClient struct {
	store   ObjectStore
	timeout time.Duration // of an attempt that moves up to 1 MiB
	events  *Events
}

func newStoreClient(o Options) *storeClient {
	return &storeClient{store: o.Store, timeout: o.StoreTimeout, events: o.Events}
}

// The waits between attempts double from the first to the last, with full jitter. A store that denies is asked less often: its
// credentials are changed by people.
const (
	firstRetry  = 50 * time.Millisecond
	lastRetry   = 5 * time.Second
	deniedRetry = 15 * time.Second
)

// stepBytes is how many bytes get an attempt as much time again.
const stepBytes = 8 << 20

// retry calls attempt until it succeeds, fails for good, or ctx ends.
func (c *storeClient) retry(ctx context.Context, op, name string, size int64, attempt func(context.Context) error) error {
	wait := firstRetry
	for try := 1; ; try++ {
		err := c.once(ctx, op, size, attempt)
		if err == nil || !retriable(err) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s %s, attempt %d: %w", ErrUnavailable, op, name, try, err)
		}
		pause := wait
		if errors.Is(err, ErrDenied) {
			pause = deniedRetry
		}
		timer := time.NewTimer(time.Duration(rand.Int64N(int64(pause)) + 1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %s %s, attempt %d: %w", ErrUnavailable, op, name, try, err)
		}
		wait = min(2*wait, lastRetry)
	}
}

func (c *storeClient) once(ctx context.Context, op string, size int64, attempt func(context.Context) error) error {
	limit := c.timeout + c.timeout*time.Duration(size/stepBytes)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	err := attempt(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.events.StoreCall(op, size, time.Since(start), err)
	return err
}

// retriable says whether another attempt may have another result. An error of no class is taken for a passing one.
func retriable(err error) bool {
	for _, final := range []error{ErrNotFound, ErrExists, ErrInvalid, ErrCorrupt, ErrClosed, ErrFenced} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// put stores an object. open makes a reader of the same bytes for each attempt. A repeated put writes the same bytes under the same
// name, so an attempt whose fate is unknown does no harm.
func (c *storeClient) put(ctx context.Context, name string, size int64, open func() io.Reader) error {
	return c.retry(ctx, "put", name, size, func(ctx context.Context) error {
		return c.store.Put(ctx, name, open(), size)
	})
}

// create stores a small object if the name is absent, else returns ErrExists. When an attempt's fate was unknown, what is there
// tells whether it was ours: data holds something that nobody else writes.
func (c *storeClient) create(ctx context.Context, name string, data []byte) error {
	unknown := false
	err := c.retry(ctx, "create", name, int64(len(data)), func(ctx context.Context) error {
		err := c.store.Create(ctx, name, data)
		unknown = unknown || errors.Is(err, ErrUnavailable)
		return err
	})
	if !unknown || !errors.Is(err, ErrExists) {
		return err
	}
	there, getErr := c.get(ctx, name, 0, -1)
	if getErr != nil {
		return getErr
	}
	defer there.Release()
	if bytes.Equal(there.Bytes(), data) {
		return nil
	}
	return err
}

// maxWhole bounds an object that is read whole, so that a wrong one can't take the memory.
const maxWhole = 1 << 30

// get reads [off, off+n) of an object; n of -1 means to the end. It returns exactly n bytes, in a buffer that the caller releases.
func (c *storeClient) get(ctx context.Context, name string, off, n int64) (*buffer.Buffer, error) {
	if n < 0 {
		attrs, err := c.head(ctx, name)
		if err != nil {
			return nil, err
		}
		if n = attrs.Size - off; n < 0 || n > maxWhole {
			return nil, &CorruptError{Where: name, Offset: off, Reason: fmt.Sprintf("the object has %d bytes", attrs.Size)}
		}
	}
	var b *buffer.Buffer
	err := c.retry(ctx, "get", name, n, func(ctx context.Context) error {
		r, err := c.store.Get(ctx, name, off, n)
		if err != nil {
			return err
		}
		defer r.Close()
		b = buffer.Get(int(n))
		if err = readFull(ctx, r, b.Bytes()); err != nil {
			b.Release()
			b = nil
			return fmt.Errorf("%w: get %s: body: %w", ErrUnavailable, name, err)
		}
		return nil
	})
	return b, err
}

// readFull fills p, and does not outlast ctx even where the reader would: a body may stall after its headers came.
func readFull(ctx context.Context, r io.ReadCloser, p []byte) error {
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	_, err := io.ReadFull(r, p)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return err
}

func (c *storeClient) head(ctx context.Context, name string) (attrs ObjectAttrs, err error) {
	err = c.retry(ctx, "head", name, 0, func(ctx context.Context) error {
		attrs, err = c.store.Head(ctx, name)
		return err
	})
	return attrs, err
}

// list returns the objects whose name begins with prefix and that keep says to keep; nil keeps all. It is complete, or an error.
func (c *storeClient) list(ctx context.Context, prefix string, keep func(ObjectAttrs) bool) (all []ObjectAttrs, err error) {
	err = c.retry(ctx, "list", prefix, 0, func(ctx context.Context) error {
		all = all[:0]
		return c.store.List(ctx, prefix, func(a ObjectAttrs) bool {
			if keep == nil || keep(a) {
				all = append(all, a)
			}
			return true
		})
	})
	return all, err
}

func (c *storeClient) delete(ctx context.Context, names []string) error {
	return c.retry(ctx, "delete", fmt.Sprintf("%d objects", len(names)), 0, func(ctx context.Context) error {
		return c.store.Delete(ctx, names)
	})
}

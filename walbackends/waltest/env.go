package waltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headpond/headpond/engine"
)

// env is one check's log and helpers.
type env struct {
	h      Harness
	wal    engine.WAL
	spoilt bool // the check broke the handle: Close may say so
}

func (e *env) open(ctx context.Context, o engine.WALOptions) error {
	w, err := e.h.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	e.wal = w
	return nil
}

func (e *env) reopen(ctx context.Context) error {
	w := e.wal
	e.wal = nil
	if err := w.Close(); err != nil && !e.spoilt {
		return fmt.Errorf("close: %w", err)
	}
	e.spoilt = false
	return e.open(ctx, engine.WALOptions{})
}

func (e *env) crash(ctx context.Context) error {
	if err := e.h.Crash(); err != nil {
		return fmt.Errorf("crash: %w", err)
	}
	e.spoilt = true
	return e.reopen(ctx)
}

// entry is a record as a reader sees it.
type entry struct {
	at   engine.Position
	data []byte
}

// content is the n-th record: its number, then bytes that follow from it.
func content(n, size int) []byte {
	b := make([]byte, max(8, size))
	binary.BigEndian.PutUint64(b, uint64(n))
	for i := 8; i < len(b); i++ {
		b[i] = byte(n + i*i>>7)
	}
	return b
}

// cut splits a record into parts, an empty one among them.
func cut(b []byte) [][]byte { return [][]byte{b[:len(b)/3], nil, b[len(b)/3:]} }

// await returns what a completion said.
func await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("a completion did not fire: %w", ctx.Err())
	}
}

// append appends one record and waits until it is done.
func (e *env) append(ctx context.Context, r engine.Record) (engine.Position, error) {
	done := make(chan error, 1)
	p, err := e.wal.Append(r, func(err error) { done <- err })
	if err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	if err := await(ctx, done); err != nil {
		return 0, fmt.Errorf("append at %d ended with: %w", p, err)
	}
	return p, nil
}

// fill appends n records of a size and waits for all of them. When one is refused, it returns those before with the error.
func (e *env) fill(ctx context.Context, n, size int, internal bool) ([]entry, error) {
	var out []entry
	var refused error
	done := make(chan error, n)
	for i := range n {
		data := content(i, size)
		p, err := e.wal.Append(engine.Record{Parts: cut(data), Internal: internal}, func(err error) { done <- err })
		if err != nil {
			refused = fmt.Errorf("append %d: %w", i, err)
			break
		}
		out = append(out, entry{p, data})
	}
	for range out {
		if err := await(ctx, done); err != nil {
			return nil, err
		}
	}
	return out, refused
}

// read returns the records in (from, to].
func (e *env) read(ctx context.Context, from, to engine.Position) ([]entry, error) {
	var out []entry
	err := e.wal.Read(ctx, from, to, func(p engine.Position, b []byte) bool {
		out = append(out, entry{p, bytes.Clone(b)})
		return true
	})
	return out, err
}

func (e *env) replay(ctx context.Context) ([]entry, error) {
	var out []entry
	err := e.wal.Replay(ctx, func(p engine.Position, b []byte) error {
		out = append(out, entry{p, bytes.Clone(b)})
		return nil
	})
	return out, err
}

// same compares records.
func same(what string, got, want []entry) error {
	for i := range min(len(got), len(want)) {
		if got[i].at != want[i].at {
			return fmt.Errorf("%s: record %d is at position %d, not %d", what, i, got[i].at, want[i].at)
		}
		if !bytes.Equal(got[i].data, want[i].data) {
			return fmt.Errorf("%s: record %d of %d bytes is not the one of %d bytes that was appended",
				what, i, len(got[i].data), len(want[i].data))
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d records, not %d", what, len(got), len(want))
	}
	return nil
}

// holds checks that reading and, where the records were there at open, replay show exactly these.
func (e *env) holds(ctx context.Context, from engine.Position, want []entry) error {
	got, err := e.read(ctx, from, e.wal.Stats().Done)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return same("read", got, want)
}

// wants checks an error by its sentinel.
func wants(what string, err, sentinel error) error {
	if errors.Is(err, sentinel) {
		return nil
	}
	if err == nil {
		err = errors.New("no error")
	}
	return fmt.Errorf("%s should be %q, got: %w", what, sentinel, err)
}

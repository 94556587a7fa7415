// Package waltest certifies write-ahead logs: each sentence of the contract of [engine.WAL] that can be checked from
// outside is a named check that quotes it when it fails.
//
// A backend joins by a [Harness]. The package does not import testing: a Go test and a command are two runners of the
// same checks.
//
//	for _, c := range waltest.Checks() {
//		t.Run(c.Name, func(t *testing.T) {
//			if err := waltest.Run(t.Context(), harness(t), c); err != nil {
//				t.Error(err)
//			}
//		})
//	}
package waltest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/headpond/headpond/engine"
)

// Harness is what a check needs of the log under test. Each check gets a harness of its own, whose log is absent. The log
// must be able to hold 600 tiny records that are appended at once, whatever a record takes: 4 MiB are enough.
type Harness struct {
	// Open opens the log; always the same one.
	Open engine.WALOpener
	// Crash loses everything that is not durable in the log's domain, and with it the handle, which the check closes
	// afterwards. nil: the log cannot be crashed, and checks that need it do not apply.
	Crash func() error
	// Fail makes all writes fail from now on; Heal ends it. nil: writes cannot be made to fail, and checks that need it do
	// not apply.
	Fail, Heal func()
	// Seed of the random histories. It is part of their errors.
	Seed uint64
	// Histories is how many there are; 0 is 10.
	Histories int
	// MaxFill is the largest capacity in bytes that the checks fill; beyond it, checks of a full log do not apply.
	// 0 is 64 MiB.
	MaxFill int64
}

// Check is one sentence of the contract.
type Check struct {
	Name     string
	Sentence string // word for word from a doc comment of package engine
	Crashes  bool   // it needs [Harness].Crash
	Fails    bool   // it needs [Harness].Fail
	run      func(ctx context.Context, e *env) error
}

// ErrNotApplicable is what [Run] returns for a check that needs what the harness or the log lacks; it says what.
var ErrNotApplicable = errors.New("not applicable")

// Run runs one check on the log of the harness. An error quotes the sentence. The context ends a check that hangs; no
// check depends on time otherwise.
func Run(ctx context.Context, h Harness, c Check) error {
	switch {
	case c.Crashes && h.Crash == nil:
		return fmt.Errorf("%s: %w: the log cannot be crashed", c.Name, ErrNotApplicable)
	case c.Fails && h.Fail == nil:
		return fmt.Errorf("%s: %w: writes cannot be made to fail", c.Name, ErrNotApplicable)
	}
	if h.Histories <= 0 {
		h.Histories = 10
	}
	if h.MaxFill <= 0 {
		h.MaxFill = 64 << 20
	}
	e := &env{h: h}
	err := e.open(ctx, engine.WALOptions{Create: true})
	if err == nil {
		err = c.run(ctx, e)
	}
	if e.wal != nil {
		closeErr := e.wal.Close()
		if err == nil && !e.spoilt {
			err = closeErr
		}
	}
	switch {
	case errors.Is(err, ErrNotApplicable):
		return fmt.Errorf("%s: %w", c.Name, err)
	case err != nil:
		return fmt.Errorf("%s: %w\n\tcontract: %s", c.Name, err, c.Sentence)
	}
	return nil
}

// Checks returns all checks, in an order that puts the simple before what builds on it.
func Checks() []Check {
	return slices.Concat(appendChecks(), readChecks(), trimChecks(), handleChecks(), failureChecks(), historyChecks())
}

package objectrules_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/objectrules"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "a/b", "A.z_-9/.x/...", strings.Repeat("n", 512)} {
		if err := objectrules.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "/", "/a", "a/", "a//b", ".", "a/..", "../a", "a b", "a\\b", "ä", "a\x00", "a~", strings.Repeat("n", 513)} {
		if err := objectrules.CheckName(name); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		off, n, size, want int64
		bad                bool
	}{
		{0, 10, 10, 10, false}, {3, 4, 10, 4, false}, {3, 100, 10, 7, false}, {3, -1, 10, 7, false}, {3, 0, 10, 0, false},
		{10, 0, 10, 0, false}, {10, -1, 10, 0, false}, {0, -1, 0, 0, false}, {1, 1<<63 - 1, 10, 9, false},
		{10, 1, 10, 0, true}, {11, 0, 10, 0, true}, {11, -1, 10, 0, true}, {-1, 5, 10, 0, true}, {0, -2, 10, 0, true}, {0, 1, 0, 0, true},
	} {
		got, err := objectrules.Range(c.off, c.n, c.size)
		if got != c.want || errors.Is(err, engine.ErrInvalid) != c.bad {
			t.Errorf("%d from %d of %d: %d, %v", c.n, c.off, c.size, got, err)
		}
	}
}

func TestCopyTakesExactlyTheSize(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		r    io.Reader
		want error
	}{
		"exact":            {strings.NewReader("0123456789"), nil},
		"a byte at a time": {iotest.OneByteReader(strings.NewReader("0123456789")), nil},
		"short":            {strings.NewReader("012345678"), io.ErrUnexpectedEOF},
		"long":             {strings.NewReader("0123456789x"), engine.ErrInvalid},
		"fails":            {io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(broken)), broken},
		"fails at the end": {io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(broken)), broken},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			err := objectrules.Copy(t.Context(), c.r, 10, make([]byte, 3), func(p []byte) error { got.Write(p); return nil })
			if !errors.Is(err, c.want) || err == nil && got.String() != "0123456789" {
				t.Errorf("%q, %v", got.String(), err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := objectrules.Copy(ctx, strings.NewReader(""), 0, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

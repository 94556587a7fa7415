// Package objectrules holds what every object store of this module does alike: which names are legal, what a range
// means, and that a put reads exactly the size that it was told.
package objectrules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headpond/headpond/engine"
)

// MaxName is the length of the longest legal name in bytes.
const MaxName = 512

// CheckName refuses, with [engine.ErrInvalid], a name that the contract of [engine.ObjectStore] does not allow.
func CheckName(name string) error {
	if len(name) == 0 || len(name) > MaxName {
		return fmt.Errorf("%w: object name of %d bytes, 1 to %d are allowed", engine.ErrInvalid, len(name), MaxName)
	}
	for element := range strings.SplitSeq(name, "/") {
		if !legalElement(element) {
			return fmt.Errorf("%w: object name %q", engine.ErrInvalid, name)
		}
	}
	return nil
}

// legalElement reports whether s may stand between two slashes of a name.
func legalElement(s string) bool {
	if s == "" || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		if !legalByte(s[i]) {
			return false
		}
	}
	return true
}

func legalByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Range resolves the range of a get against the object's size: how many bytes to read from off. One that starts beyond
// the end, or at it and asks for more than nothing, is [engine.ErrInvalid].
//
//	[off, off+n) within size   n bytes
//	reaching beyond the end    what there is
//	n == -1                    to the end, which at the end is nothing
func Range(off, n, size int64) (int64, error) {
	if off < 0 || n < -1 || off > size || off == size && n > 0 {
		return 0, fmt.Errorf("%w: %d bytes from %d of %d", engine.ErrInvalid, n, off, size)
	}
	if n == -1 {
		return size - off, nil
	}
	return min(n, size-off), nil
}

// Copy passes exactly size bytes of r to write, in pieces of buf, and checks that r ends there. The context is looked
// at between pieces. A reader that ends early is [io.ErrUnexpectedEOF], one that goes on [engine.ErrInvalid].
func Copy(ctx context.Context, r io.Reader, size int64, buf []byte, write func([]byte) error) error {
	for left := size; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := buf[:min(left, int64(len(buf)))]
		n, err := io.ReadFull(r, piece)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("content ended at byte %d of %d: %w", size-left+int64(n), size, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return fmt.Errorf("content failed at byte %d of %d: %w", size-left+int64(n), size, err)
		}
		if err := write(piece); err != nil {
			return err
		}
		left -= int64(n)
	}
	var one [1]byte
	switch n, err := io.ReadFull(r, one[:]); {
	case n > 0:
		return fmt.Errorf("%w: content goes on beyond its size of %d", engine.ErrInvalid, size)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("content failed at its end, byte %d: %w", size, err)
	}
	return ctx.Err()
}

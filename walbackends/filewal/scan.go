package filewal

import (
	"errors"
	"fmt"
	"io"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/internal/vfs"
)

// readFull reads until b is full or the file ends; only other errors are returned.
func readFull(f vfs.File, b []byte, off int64) (int, error) {
	n, err := f.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// scanner reads the frames of one segment file through a window that it reuses. The bytes of a frame are valid until
// the next call.
type scanner struct {
	id      engine.ID
	file    vfs.File
	segment int64  // bytes
	lap     uint64 // 0: any
	ahead   int    // bytes to read at a time

	buf   []byte // the window
	start int64  // its offset in the file
}

// errHole says that there is no intact frame of this log and lap at an offset.
var errHole = errors.New("hole")

var errNoFrame = fmt.Errorf("%w: %w", errHole, frame.ErrNoFrame)

// at returns the frame at an offset and its bytes. Without an intact one the error is errHole, wrapped with why, and the
// header is what the bytes claim when they look like a torn frame of this lap; a failed read is [engine.ErrUnavailable].
func (s *scanner) at(off int64) (frame.Header, []byte, error) {
	var none frame.Header
	if off+sector > s.segment {
		return none, nil, fmt.Errorf("%w: end of segment", errHole)
	}
	b, err := s.window(off, frame.HeaderSize)
	if err != nil {
		return none, nil, err
	}
	h, err := frame.Parse(b)
	if err == frame.ErrNoFrame { // the common case of a search, without an allocation
		return none, nil, errNoFrame
	}
	if err != nil {
		return none, nil, fmt.Errorf("%w: %w", errHole, err)
	}
	switch {
	case h.WAL != s.id:
		return none, nil, fmt.Errorf("%w: a frame of another log, %x", errHole, h.WAL)
	case s.lap != 0 && h.Lap != s.lap:
		return none, nil, fmt.Errorf("%w: a frame of lap %d, not %d", errHole, h.Lap, s.lap)
	case h.Place != uint64(off):
		return none, nil, fmt.Errorf("%w: a frame that belongs at byte %d", errHole, h.Place)
	case int64(h.Size(sector)) > s.segment-off:
		return none, nil, fmt.Errorf("%w: a frame longer than its segment", errHole)
	}
	if b, err = s.window(off, h.Size(sector)); err != nil {
		return none, nil, err
	}
	if err := h.Verify(b, sector); err != nil {
		return h, nil, fmt.Errorf("%w: %w", errHole, err)
	}
	return h, b[:h.Size(sector)], nil
}

// window returns at least n bytes at off where the file has them, reading ahead.
func (s *scanner) window(off int64, n int) ([]byte, error) {
	if i := off - s.start; i >= 0 && i+int64(n) <= int64(len(s.buf)) {
		return s.buf[i:], nil
	}
	// What the window holds of the range stays: a frame that ends beyond the window is not read twice.
	kept := 0
	if i := off - s.start; i > 0 && i < int64(len(s.buf)) {
		kept = copy(s.buf, s.buf[i:])
	} else if i == 0 {
		kept = len(s.buf)
	}
	want := max(n, min(s.ahead, int(s.segment-off)))
	if cap(s.buf) < want {
		s.buf = append(make([]byte, 0, want), s.buf[:kept]...)
	}
	s.buf, s.start = s.buf[:want], off
	got, err := readFull(s.file, s.buf[kept:], off+int64(kept))
	s.buf = s.buf[:kept+got]
	if err != nil {
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("%w: read %d bytes of %s at %d: %w", engine.ErrUnavailable, want, s.file.Name(), off, err)
	}
	return s.buf, nil
}

// find returns the first intact frame at or beyond an offset for which match is true, at any sector.
// A found frame that does not match is skipped whole.
func (s *scanner) find(off int64, match func(*frame.Header) bool) (frame.Header, bool, error) {
	for off+sector <= s.segment {
		h, _, err := s.at(off)
		switch {
		case err == nil && match(&h):
			return h, true, nil
		case err == nil:
			off += int64(h.Size(sector))
		case errors.Is(err, errHole):
			off += sector
		default:
			return frame.Header{}, false, err
		}
	}
	return frame.Header{}, false, nil
}

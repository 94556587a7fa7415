package kafkaapi

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/codec"
)

// maxExpanded is how large a batch may become when its records must be looked at, in bytes. Few are looked at, and
// [Server.inspect] lets only so many at a time.
const (
	maxExpanded = 32 << 20
	inspectors  = 2
)

// admit applies what the topic's settings ask of a batch: timestamps within their limits, or those of the append, and keys
// where records are compacted. It returns the time of the append, or -1 where the records keep theirs.
func (s *Server) admit(t *topic, b recordbatch.Batch) (appendTime int64, err error) {
	appendTime = -1
	if t.LogAppendTime {
		appendTime = s.o.Now().UnixMilli()
		b.SetLogAppendTime(appendTime)
	} else if err := s.checkTime(t, b); err != nil {
		return -1, err
	}
	if t.Compact {
		return appendTime, s.checkKeys(b)
	}
	return appendTime, nil
}

func (s *Server) checkTime(t *topic, b recordbatch.Batch) error {
	latest, first := b.MaxTimestamp(), b.BaseTimestamp()
	if latest == recordbatch.NoTimestamp {
		return nil
	}
	now := s.o.Now().UnixMilli()
	if ahead := latest - now; t.TimestampAfter >= 0 && latest > now && ahead > t.TimestampAfter.Milliseconds() {
		return fmt.Errorf("%w: the largest, %d, is %d ms in the future, message.timestamp.after.max.ms allows %d", recordbatch.ErrInvalidTimestamp, latest, ahead, t.TimestampAfter.Milliseconds())
	}
	if first == recordbatch.NoTimestamp || first > now {
		return nil
	}
	if behind := now - first; t.TimestampBefore >= 0 && behind > t.TimestampBefore.Milliseconds() {
		return fmt.Errorf("%w: the first, %d, is %d ms in the past, message.timestamp.before.max.ms allows %d", recordbatch.ErrInvalidTimestamp, first, behind, t.TimestampBefore.Milliseconds())
	}
	return nil
}

// checkKeys refuses records without keys.
func (s *Server) checkKeys(b recordbatch.Batch) error {
	if b.Codec() != recordbatch.None {
		s.inspect <- struct{}{}
		defer func() { <-s.inspect }()
	}
	for r, err := range b.Records(codec.Decompressor{}, maxExpanded) {
		if err != nil {
			return err
		}
		if r.Key == nil {
			return fmt.Errorf("%w: the record with offset delta %d has no key, and the topic is compacted", recordbatch.ErrInvalidRecord, r.Offset-b.BaseOffset())
		}
	}
	return nil
}

// partitionMemory is what one topic or partition of a produce request takes once decoded, response included.
const partitionMemory = 256

// checkProduce walks over a produce request before it is decoded: a large one consists of records, so its number of
// partitions, for which memory is taken, must be known and not bounded by its size alone.
func checkProduce(r *request) error {
	if len(r.body) <= readBuffer {
		return nil
	}
	w := walker{b: r.body, flexible: r.flexible()}
	if r.version >= 3 {
		w.string()
	}
	w.take(2 + 4) // acks, timeout
	elements := 0
	for range w.array() {
		w.string()
		elements++
		for range w.array() {
			w.take(4)
			w.bytes()
			w.tags()
			elements++
		}
		w.tags()
	}
	w.tags()
	if w.bad {
		return fmt.Errorf("%w: Produce version %d with %d bytes is malformed", errProtocol, r.version, len(r.body))
	}
	if elements <= readBuffer/partitionMemory {
		return nil
	}
	return r.frame.share.grow(r.c.ctx, int64(elements)*partitionMemory)
}

// walker steps over the fields of a request. After the first that does not fit it is bad and every array is empty.
type walker struct {
	b        []byte
	flexible bool
	bad      bool
}

func (w *walker) take(n int) []byte {
	if w.bad || n < 0 || n > len(w.b) {
		w.bad = true
		return nil
	}
	taken := w.b[:n]
	w.b = w.b[n:]
	return taken
}

// length reads the length of a string, of bytes or of an array: width bytes, or a varint that is one more in flexible
// versions. Null is -1.
func (w *walker) length(width int) int {
	if w.flexible {
		n, width := binary.Uvarint(w.b)
		if w.bad || width <= 0 || n > math.MaxInt32 {
			w.bad = true
			return 0
		}
		w.b = w.b[width:]
		return int(n) - 1
	}
	b := w.take(width)
	switch {
	case b == nil:
		return 0
	case width == 2:
		return int(int16(uint16(b[0])<<8 | uint16(b[1])))
	}
	return int(int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])))
}

func (w *walker) string() { w.take(max(w.length(2), 0)) }
func (w *walker) bytes()  { w.take(max(w.length(4), 0)) }

// array returns the number of elements, or none when they cannot all be there.
func (w *walker) array() int {
	n := max(w.length(4), 0)
	if w.bad || n > len(w.b) {
		w.bad = true
		return 0
	}
	return n
}

func (w *walker) tags() {
	if w.bad || !w.flexible {
		return
	}
	rest, err := skipTags(w.b)
	if err != nil {
		w.bad = true
	}
	w.b = rest
}

package objectfile

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/headpond/headpond/internal/recordbatch"
)

// assembler checks batches against a layout and computes the blocks' checksums as they pass.
type assembler struct {
	layout   *Layout
	runs     []Run // the layout's, with sums; the layout is not changed, so that it serves a second try
	run      int
	block    int
	left     int32 // bytes that the current block still takes
	offset   int64 // the next batch's
	sum      uint32
	complete bool
}

func newAssembler(l *Layout) (*assembler, error) {
	if err := l.ready(); err != nil {
		return nil, err
	}
	a := &assembler{layout: l, runs: make([]Run, len(l.runs))}
	for i, r := range l.runs {
		r.Blocks = append([]Block(nil), r.Blocks...)
		a.runs[i] = r
	}
	a.begin()
	return a, nil
}

// begin readies the current block.
func (a *assembler) begin() {
	r := &a.runs[a.run]
	k := &r.Blocks[a.block]
	a.left, a.offset = k.Length, k.First
	a.sum = blockSeed(a.layout.meta.Cluster, r.Partition, k.First)
}

// add takes the next batch: it must be the one that was planned.
func (a *assembler) add(b recordbatch.Batch) error {
	if a.complete {
		return fmt.Errorf("a batch more than planned")
	}
	r := &a.runs[a.run]
	k := &r.Blocks[a.block]
	if len(b) < recordbatch.HeaderSize || b.Size() != len(b) || len(b) > int(a.left) {
		return fmt.Errorf("batch of %d bytes where the plan has room for %d", len(b), a.left)
	}
	a.left -= int32(len(b))
	if b.BaseOffset() != a.offset || b.LastOffset() > k.Last || (a.left == 0) != (b.LastOffset() == k.Last) {
		return fmt.Errorf("batch of offsets %d to %d where the plan has %d in a block to %d", b.BaseOffset(), b.LastOffset(), a.offset, k.Last)
	}
	a.offset = b.NextOffset()
	a.sum = crc32.Update(a.sum, castagnoli, b)
	if a.left > 0 {
		return nil
	}
	k.Sum = a.sum
	if a.block++; a.block == len(r.Blocks) {
		a.block = 0
		a.run++
	}
	if a.complete = a.run == len(a.runs); !a.complete {
		a.begin()
	}
	return nil
}

// tail is the index and the footer.
func (a *assembler) tail() []byte {
	b := make([]byte, 0, a.layout.indexSize+FooterSize)
	b = appendIndex(b, a.runs)
	return appendFooter(b, a.layout.meta, a.layout.end, b, len(a.runs))
}

func (a *assembler) index() Index {
	return Index{Meta: a.layout.meta, Size: a.layout.Size(), Runs: a.runs}
}

// Writer streams an object to an [io.Writer], a batch at a time.
type Writer struct {
	w   io.Writer
	a   *assembler
	err error
}

// NewWriter writes the header. The layout is complete, and stays unchanged; it may serve several writers.
func NewWriter(w io.Writer, l *Layout) (*Writer, error) {
	a, err := newAssembler(l)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(appendHeader(nil, l.meta)); err != nil {
		return nil, err
	}
	return &Writer{w: w, a: a}, nil
}

// Append writes the next batch of the plan. The batch is borrowed for the call. After an error the object is void.
func (w *Writer) Append(b recordbatch.Batch) error {
	if w.err == nil {
		w.err = w.a.add(b)
	}
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
	return w.err
}

// Finish writes index and footer, and returns what they say.
func (w *Writer) Finish() (Index, error) {
	if w.err == nil && !w.a.complete {
		w.err = fmt.Errorf("object with fewer batches than planned")
	}
	if w.err != nil {
		return Index{}, w.err
	}
	if _, w.err = w.w.Write(w.a.tail()); w.err != nil {
		return Index{}, w.err
	}
	w.err = fmt.Errorf("object is finished")
	return w.a.index(), nil
}

// Reader is an object as an [io.Reader] that pulls its batches, for stores that read what they put. It reads exactly
// [Layout.Size] bytes.
type Reader struct {
	a       *assembler
	next    func() (recordbatch.Batch, error)
	pending []byte
	done    bool
	err     error
}

// NewReader returns the object's bytes. next gives the planned batches in order; each is borrowed until next is called
// again or the object has been read. An error of next becomes the reader's.
func NewReader(l *Layout, next func() (recordbatch.Batch, error)) (*Reader, error) {
	a, err := newAssembler(l)
	if err != nil {
		return nil, err
	}
	return &Reader{a: a, next: next, pending: appendHeader(nil, l.meta)}, nil
}

// Read implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.pending) == 0 && !r.refill() {
			break
		}
		c := copy(p[n:], r.pending)
		r.pending = r.pending[c:]
		n += c
	}
	if n == 0 && len(p) > 0 {
		return 0, r.err
	}
	return n, nil
}

// refill gets more bytes, or sets the error that ends the object.
func (r *Reader) refill() bool {
	switch {
	case r.err != nil:
	case r.done:
		r.err = io.EOF
	case r.a.complete:
		r.pending, r.done = r.a.tail(), true
	default:
		var b recordbatch.Batch
		if b, r.err = r.next(); r.err == io.EOF {
			r.err = io.ErrUnexpectedEOF // the source's end is not the object's
		}
		if r.err == nil {
			r.err = r.a.add(b)
		}
		if r.err == nil {
			r.pending = b
		}
	}
	return r.err == nil
}

// Index is what the object says of itself. ok is false until all of it has been read.
func (r *Reader) Index() (index Index, ok bool) {
	if !r.done || len(r.pending) > 0 {
		return Index{}, false
	}
	return r.a.index(), true
}

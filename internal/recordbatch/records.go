package recordbatch

import (
	"fmt"
	"iter"
)

// Decompressor expands the records of a batch. It is passed in, so that this package needs no codecs.
type Decompressor interface {
	// Decompress returns the expanded bytes, which the caller owns. More than maxBytes is [ErrTooLarge], found without
	// holding more than that; bytes that do not expand are [ErrCorruptMessage]. Safe for concurrent use.
	Decompress(codec Codec, src []byte, maxBytes int) ([]byte, error)
}

// Record is one decoded record. Key, Value and Headers share the memory of the batch or of its expansion.
type Record struct {
	Offset    int64
	Timestamp int64  // milliseconds since 1970
	Key       []byte // nil is null
	Value     []byte // nil is null
	// headers are left as bytes: few callers look.
	headers []byte
	count   int
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte // nil is null
}

// Headers decodes the headers, in order, duplicates kept. They were checked when the record was.
func (r Record) Headers() []Header {
	d := decoder{p: r.headers}
	hs := make([]Header, 0, r.count)
	for range r.count {
		hs = append(hs, Header{Key: string(d.bytes()), Value: d.bytes()})
	}
	return hs
}

// Records decodes the batch's records in order. An uncompressed batch is decoded in place; a compressed one is expanded
// to at most maxBytes first. It yields one error at the end if the records cannot be decoded, or are not as many as the
// header says, and then stops. d may be nil if no batch is compressed.
func (b Batch) Records(d Decompressor, maxBytes int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		p := b.Payload()
		if c := b.Codec(); c != None {
			if d == nil || c > Zstd {
				yield(Record{}, fmt.Errorf("%w: codec %s", ErrUnsupportedCompression, c))
				return
			}
			var err error
			if p, err = d.Decompress(c, p, maxBytes); err != nil {
				yield(Record{}, err)
				return
			}
		}
		if b.Count() < 0 {
			yield(Record{}, fmt.Errorf("%w: %d records", ErrInvalidRecord, b.Count()))
			return
		}
		for i := range b.Count() {
			var r Record
			var err error
			if r, p, err = b.record(p); err != nil {
				yield(Record{}, fmt.Errorf("record %d of %d: %w", i, b.Count(), err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
		if len(p) > 0 {
			yield(Record{}, fmt.Errorf("%w: %d bytes after %d records", ErrInvalidRecord, len(p), b.Count()))
		}
	}
}

// record decodes the first record of p.
func (b Batch) record(p []byte) (Record, []byte, error) {
	n, width := varint(p)
	if width <= 0 || n < minRecord-1 || n > int64(len(p)-width) {
		return Record{}, nil, fmt.Errorf("%w: length %d of %d bytes left", ErrInvalidRecord, n, len(p))
	}
	d := decoder{p: p[width : width+int(n)]}
	d.skip(1) // attributes: none are defined
	time, delta := d.varint(), d.varint()
	r := Record{Offset: b.BaseOffset() + delta, Timestamp: b.BaseTimestamp() + time, Key: d.bytes(), Value: d.bytes()}
	if b.LogAppendTime() {
		r.Timestamp = b.MaxTimestamp()
	}
	headers := d.varint()
	if headers < 0 || headers > int64(len(d.p))/2 {
		d.bad = true // each takes two bytes at least
	}
	r.headers = d.p
	for i := int64(0); i < headers && !d.bad; i++ {
		if d.bytes() == nil { // a header's key is never null
			d.bad = true
		}
		d.bytes()
		r.count++
	}
	if d.bad || len(d.p) > 0 || delta < 0 || delta > int64(b.LastOffsetDelta()) {
		return Record{}, nil, fmt.Errorf("%w: malformed", ErrInvalidRecord)
	}
	return r, p[width+int(n):], nil
}

// FirstAtOrAfter finds the first record whose timestamp is t or later. It is absent when found is false. Batches whose
// records all bear the time of the append are answered without decoding.
func (b Batch) FirstAtOrAfter(t int64, d Decompressor, maxBytes int) (offset, timestamp int64, found bool, err error) {
	if b.MaxTimestamp() < t {
		return 0, 0, false, nil
	}
	if b.LogAppendTime() {
		return b.BaseOffset(), b.MaxTimestamp(), true, nil
	}
	for r, err := range b.Records(d, maxBytes) {
		if err != nil {
			return 0, 0, false, err
		}
		if r.Timestamp >= t {
			return r.Offset, r.Timestamp, true, nil
		}
	}
	return 0, 0, false, nil
}

// decoder reads a record's fields; after the first that does not fit it is bad and returns zeros.
type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) skip(n int) {
	if n > len(d.p) {
		d.bad, d.p = true, nil
		return
	}
	d.p = d.p[n:]
}

func (d *decoder) varint() int64 {
	v, width := varint(d.p)
	if width <= 0 {
		d.bad, d.p = true, nil
		return 0
	}
	d.p = d.p[width:]
	return v
}

// bytes reads a length and as many bytes; a length of -1 is null.
func (d *decoder) bytes() []byte {
	n := d.varint()
	if n == -1 {
		return nil
	}
	if d.bad || n < 0 || n > int64(len(d.p)) {
		d.bad, d.p = true, nil
		return nil
	}
	v := d.p[:n:n]
	d.p = d.p[n:]
	return v
}

package kafkaapi

import (
	"encoding/binary"
	"net"
)

// fetchEncoder writes fetch responses: headers of its own, and between them the batches where they lie. The layouts are
// those of the protocol's FetchResponse, versions 4 to 17. Its memory is used again.
type fetchEncoder struct {
	b     []byte     // all headers, one after the other
	cuts  []fetchCut // where batches go between them
	order []*fetchTopic
	bufs  net.Buffers
}

// fetchCut is where batches follow the headers' bytes up to at.
type fetchCut struct {
	at      int
	batches [][]byte
}

// keepHeaders is how much memory for headers is kept for the next response, in bytes.
const keepHeaders = 64 << 10

// write writes the response to a fetch of the session: of every partition when the session is fresh, else of those that
// have batches, an error, or other offsets than the client was told.
func (e *fetchEncoder) write(r *request, s *fetchSession) error {
	size := e.encode(r, s)
	r.answered(size)
	for _, t := range e.order {
		clear(t.emit)
		t.emit = t.emit[:0]
	}
	clear(e.order)
	e.order = e.order[:0]
	defer func() {
		clear(e.cuts)
		e.cuts = e.cuts[:0]
		if cap(e.b) > keepHeaders {
			*e = fetchEncoder{}
		}
	}()
	if err := r.c.out.waitIdle(); err != nil {
		return err
	}
	if len(e.cuts) == 0 {
		return r.c.write(e.b)
	}
	bufs, from := e.bufs[:0], 0
	for _, c := range e.cuts {
		bufs = append(append(bufs, e.b[from:c.at]), c.batches...)
		from = c.at
	}
	bufs = append(bufs, e.b[from:])
	e.bufs = bufs
	err := r.c.writev(&bufs, size)
	clear(e.bufs)
	return err
}

// encode makes the headers, and returns the size of the whole response.
func (e *fetchEncoder) encode(r *request, s *fetchSession) int {
	if s.fresh {
		for _, p := range s.all {
			e.include(p)
		}
	} else {
		for _, p := range s.ready {
			if p.out.bytes > 0 || p.out.code != 0 || p.out.diverging.Epoch >= 0 || p.out.offsets != p.told {
				e.include(p)
			}
		}
	}
	v, be := r.version, binary.BigEndian
	b := r.appendHeader(e.b[:0])
	b = be.AppendUint32(b, 0) // throttle time
	if v >= 7 {
		b = be.AppendUint16(b, 0)
		b = be.AppendUint32(b, uint32(s.id))
	}
	b = appendLength(b, len(e.order), r.flexible())
	size := 0
	for _, t := range e.order {
		switch {
		case v >= 13:
			b = append(b, t.id[:]...)
		case r.flexible():
			b = append(binary.AppendUvarint(b, uint64(len(t.name)+1)), t.name...)
		default:
			b = append(be.AppendUint16(b, uint16(len(t.name))), t.name...)
		}
		b = appendLength(b, len(t.emit), r.flexible())
		for _, p := range t.emit {
			b = e.appendPartition(b, r, p)
			size += p.out.bytes
			p.told = p.out.offsets
		}
		b = appendTags(b, r.flexible())
	}
	b = appendTags(b, r.flexible())
	size += len(b)
	finish(b, size)
	e.b = b
	return size
}

func (e *fetchEncoder) include(p *fetchPart) {
	if len(p.topic.emit) == 0 {
		e.order = append(e.order, p.topic)
	}
	p.topic.emit = append(p.topic.emit, p)
}

func (e *fetchEncoder) appendPartition(b []byte, r *request, p *fetchPart) []byte {
	v, be, out := r.version, binary.BigEndian, &p.out
	b = be.AppendUint32(b, uint32(p.index))
	b = be.AppendUint16(b, uint16(out.code))
	b = be.AppendUint64(b, uint64(out.offsets.HighWatermark))
	b = be.AppendUint64(b, uint64(out.offsets.HighWatermark)) // last stable offset: there are no transactions
	if v >= 5 {
		b = be.AppendUint64(b, uint64(out.offsets.LogStart))
	}
	aborted := -1 // null
	if r.c.poll.req.IsolationLevel == 1 {
		aborted = 0
	}
	b = appendLength(b, aborted, r.flexible())
	if v >= 11 {
		b = be.AppendUint32(b, 0xffff_ffff) // no preferred read replica
	}
	b = appendLength(b, out.bytes, r.flexible())
	if out.bytes > 0 {
		e.cuts = append(e.cuts, fetchCut{len(b), out.batches})
		r.c.s.ev.Fetched(p.name, out.bytes)
	}
	if r.flexible() && out.diverging.Epoch >= 0 {
		b = append(b, 1, 0, 13) // one tagged field: number 0, 13 bytes
		b = be.AppendUint32(b, uint32(out.diverging.Epoch))
		b = be.AppendUint64(b, uint64(out.diverging.End))
		return append(b, 0) // of the field itself
	}
	return appendTags(b, r.flexible())
}

// appendLength appends the length of an array or of bytes; -1 is null.
func appendLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(int32(n)))
}

// appendTags appends that there are no tagged fields.
func appendTags(b []byte, flexible bool) []byte {
	if flexible {
		return append(b, 0)
	}
	return b
}

package crashfs

import (
	"io"
	"io/fs"
	"maps"
	"syscall"
)

const (
	pageSize = 4096
	// SectorSize is the unit in which an unsynced write reaches the disk or does not.
	SectorSize = 512
)

type page = [pageSize]byte

// image is the content of a file. Pages are never changed once they are in it, so that a copy shares them.
type image struct {
	size  int64
	pages map[int64]*page // by number; an absent one is zero
}

func (m *image) clone() image { return image{m.size, maps.Clone(m.pages)} }

// write puts bytes at an offset and returns how many pages are new.
func (m *image) write(b []byte, off int64) {
	m.size = max(m.size, off+int64(len(b)))
	for len(b) > 0 {
		number, at := off/pageSize, off%pageSize
		var p page
		if old := m.pages[number]; old != nil {
			p = *old
		}
		n := copy(p[at:], b)
		m.pages[number] = &p
		b, off = b[n:], off+int64(n)
	}
}

func (m *image) read(b []byte, off int64) int {
	b = b[:max(0, min(int64(len(b)), m.size-off))]
	total := len(b)
	for len(b) > 0 {
		number, at := off/pageSize, off%pageSize
		var n int
		if p := m.pages[number]; p != nil {
			n = copy(b, p[at:])
		} else {
			n = min(len(b), int(pageSize-at))
			clear(b[:n])
		}
		b, off = b[n:], off+int64(n)
	}
	return total
}

func (m *image) truncate(size int64) {
	if size < m.size {
		for number, p := range m.pages {
			switch start := number * pageSize; {
			case start >= size:
				delete(m.pages, number)
			case start+pageSize > size:
				cut := *p
				clear(cut[size-start:])
				m.pages[number] = &cut
			}
		}
	}
	m.size = size
}

// node is a file, whatever its names.
type node struct {
	image            // as reads see it
	durable  image   // as synced
	pending  []write // since then, in order
	reserved int64   // bytes below which writes need no new room
}

// write is an unsynced change of a file.
type write struct {
	off  int64
	data []byte
	size int64 // when data is nil: a truncation to this size
}

func newNode() *node {
	return &node{image: image{pages: map[int64]*page{}}, durable: image{pages: map[int64]*page{}}}
}

func (n *node) allocated() int64 {
	sum := n.reserved
	for number := range n.pages {
		if number*pageSize >= n.reserved {
			sum += pageSize
		}
	}
	return sum
}

func (w *write) apply(m *image) {
	if w.data == nil {
		m.truncate(w.size)
	} else {
		m.write(w.data, w.off)
	}
}

type file struct {
	fs       *FS
	node     *node
	name     string
	writable bool
	closed   bool // guarded by fs.mu
}

func (h *file) Name() string { return h.name }

func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return pathErr("close", h.name, fs.ErrClosed)
	}
	h.closed = true
	return nil
}

// usableLocked says why the handle cannot do an operation, or nil.
func (h *file) usableLocked(op Op) error {
	switch {
	case h.closed:
		return pathErr(op.String(), h.name, fs.ErrClosed)
	case !h.writable && op != OpRead && op != OpSync:
		return pathErr(op.String(), h.name, syscall.EBADF)
	}
	return nil
}

func (h *file) ReadAt(b []byte, off int64) (int, error) {
	_, hit, err := h.fs.begin(OpRead, h.name)
	if err != nil {
		return 0, err
	}
	defer h.fs.mu.Unlock()
	if err := h.usableLocked(OpRead); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("read", h.name, syscall.EINVAL)
	}
	n := h.node.read(b, off)
	if hit != nil && hit.Flip && n > 0 {
		b[n/2] ^= 1
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *file) WriteAt(b []byte, off int64) (int, error) {
	crashing, hit, err := h.fs.begin(OpWrite, h.name)
	if err != nil {
		return 0, err
	}
	if err := h.usableLocked(OpWrite); err != nil {
		h.fs.mu.Unlock()
		return 0, err
	}
	short := hit != nil && hit.Short > 0
	if short {
		b = b[:min(len(b), hit.Short)]
	}
	if off < 0 {
		h.fs.mu.Unlock()
		return 0, pathErr("write", h.name, syscall.EINVAL)
	}
	if grow := h.growth(off + int64(len(b))); grow > 0 && h.fs.allocatedLocked()+grow > h.fs.limit {
		h.fs.mu.Unlock()
		return 0, pathErr("write", h.name, syscall.ENOSPC)
	}
	w := write{off: off, data: append([]byte{}, b...)}
	if len(b) > 0 {
		w.apply(&h.node.image)
		h.node.pending = append(h.node.pending, w)
	}
	if err := h.fs.end(OpWrite, h.name, crashing); err != nil {
		return 0, err
	}
	if short {
		err := hit.Err
		if err == nil {
			err = io.ErrShortWrite
		}
		return len(b), pathErr("write", h.name, err)
	}
	return len(b), nil
}

// growth bounds the bytes that a write up to an end allocates.
func (h *file) growth(end int64) int64 {
	have := max(h.node.reserved, (h.node.size+pageSize-1)/pageSize*pageSize)
	return max(0, end-have)
}

func (h *file) Size() (int64, error) {
	if _, _, err := h.fs.begin(OpOpen, h.name); err != nil {
		return 0, err
	}
	defer h.fs.mu.Unlock()
	return h.node.size, h.usableLocked(OpRead)
}

func (h *file) Truncate(size int64) error { return h.resize(OpTruncate, size) }

func (h *file) Preallocate(size int64) error { return h.resize(OpPreallocate, size) }

func (h *file) resize(op Op, size int64) error {
	crashing, _, err := h.fs.begin(op, h.name)
	if err != nil {
		return err
	}
	if err := h.usableLocked(op); err != nil {
		h.fs.mu.Unlock()
		return err
	}
	if op == OpPreallocate {
		if grow := h.growth(size); grow > 0 && h.fs.allocatedLocked()+grow > h.fs.limit {
			h.fs.mu.Unlock()
			return pathErr("fallocate", h.name, syscall.ENOSPC)
		}
		h.node.reserved = max(h.node.reserved, size)
		size = max(size, h.node.size)
	}
	if size != h.node.size {
		w := write{size: size}
		w.apply(&h.node.image)
		h.node.pending = append(h.node.pending, w)
	}
	if op == OpTruncate {
		h.node.reserved = min(h.node.reserved, size)
	}
	return h.fs.end(op, h.name, crashing)
}

func (h *file) Sync() error { return h.sync() }

func (h *file) SyncData() error { return h.sync() }

// sync makes the pending writes durable. When it fails, they are forgotten as if they were: Linux marks the pages of a
// failed write-back clean, so that the next fsync succeeds without them.
func (h *file) sync() error {
	crashing, hit, err := h.fs.begin(OpSync, h.name)
	if err != nil {
		return err
	}
	if err := h.usableLocked(OpSync); err != nil {
		h.fs.mu.Unlock()
		return err
	}
	switch {
	case crashing:
	case hit != nil && hit.Lie:
		return h.fs.end(OpSync, h.name, false)
	case hit != nil && hit.Err != nil:
		h.node.pending = nil
		h.fs.mu.Unlock()
		return pathErr("sync", h.name, hit.Err)
	default:
		for i := range h.node.pending {
			h.node.pending[i].apply(&h.node.durable)
		}
		h.node.pending = nil
	}
	return h.fs.end(OpSync, h.name, crashing)
}

package kafkaapi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/buffer"
)

const (
	readBuffer = 4 << 10 // of a connection, in bytes; most requests but produce fit

	// firstShare is how many bytes of a request are charged and allocated before any of them beyond the read buffer has
	// come, if the client has not yet sent one as large; each further step is at most stepFactor times what came.
	firstShare = 128 << 10
	stepFactor = 4
	trustCap   = 2 << 20 // a client is trusted with at most this by its earlier requests

	minRate = 64 << 10 // bytes per second that a client must keep up with
)

// errProtocol is a request that cannot be answered: the connection is closed.
var errProtocol = errors.New("protocol violation")

// frame is the bytes of one request after the length, and the hold on the memory for it.
type frame struct {
	buf   *buffer.Buffer
	share share
}

func (f *frame) bytes() []byte { return f.buf.Bytes() }

func (f *frame) release() {
	f.buf.Release()
	f.share.giveBack()
}

// readFrame waits for the next request and reads it whole. Until the whole of it is there, no more memory is charged than
// in proportion to what has come.
func (c *conn) readFrame() (*frame, error) {
	if err := c.awaitFrame(); err != nil {
		return nil, err
	}
	head, err := c.br.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int64(int32(binary.BigEndian.Uint32(head)))
	if n < minHeader || n > c.s.maxRequest {
		return nil, fmt.Errorf("%w: a request of %d bytes, the limit is %d", errProtocol, n, c.s.maxRequest)
	}
	c.br.Discard(4)
	if int64(c.br.Buffered()) < n && !c.first {
		c.setReadDeadline(c.s.o.StallTimeout + time.Duration(n/minRate)*time.Second)
	}
	if _, err := c.br.Peek(int(min(n, readBuffer))); err != nil {
		return nil, unexpectedEOF(err)
	}
	// Produce requests may wait long for room in the log. What others need must not wait with them.
	memory := c.s.requests
	if key, _ := c.br.Peek(2); kmsg.Key(binary.BigEndian.Uint16(key)) == kmsg.Produce {
		memory = c.s.produces
	}
	f := new(frame)
	if err := c.readBody(f, memory, int(n)); err != nil {
		f.share.giveBack()
		return nil, unexpectedEOF(err)
	}
	c.largest = max(c.largest, int(n))
	c.first = false
	return f, nil
}

// readBody reads n bytes into f.buf, for which it takes memory. After an error f.buf holds nothing.
func (c *conn) readBody(f *frame, memory *budget, n int) error {
	size := min(n, max(firstShare, min(c.largest, trustCap)))
	if err := f.share.begin(c.ctx, memory, pooled(size)); err != nil {
		return err
	}
	buf, have := buffer.Get(size), 0
	for {
		m, err := io.ReadFull(c.br, buf.Bytes()[have:])
		have += m
		if err != nil {
			buf.Release()
			return err
		}
		if have == n {
			f.buf = buf
			return nil
		}
		size = min(n, have*stepFactor)
		if err := f.share.grow(c.ctx, pooled(size)-pooled(have)); err != nil {
			buf.Release()
			return err
		}
		larger := buffer.Get(size)
		copy(larger.Bytes(), buf.Bytes())
		buf.Release()
		buf = larger
	}
}

// pooled is how many bytes a buffer of n takes; one of a byte at most is not asked for.
func pooled(n int) int64 {
	if n <= 1 {
		return int64(n)
	}
	return int64(buffer.SizeOf(n))
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// awaitFrame waits for the first byte of a request. The deadline for it is refreshed only when half of it has passed: an
// idle connection is then closed after between one and one and a half times the time it is given.
func (c *conn) awaitFrame() error {
	if c.br.Buffered() > 0 {
		return nil
	}
	idle := c.s.maxIdle
	if c.first {
		idle = 0 // the deadline for the first request stands
	}
	if idle > 0 && time.Until(c.readDeadline) < idle {
		c.setReadDeadline(idle + idle/2)
	}
	_, err := c.br.Peek(1)
	return err
}

// setReadDeadline lets reads wait for d from now on. The server's end interrupts them all the same: see [conn.interrupt].
func (c *conn) setReadDeadline(d time.Duration) {
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	c.readDeadline = time.Now().Add(d)
	if !c.interrupted {
		c.nc.SetReadDeadline(c.readDeadline)
	}
}

// interrupt ends the present and all later reads that would wait.
func (c *conn) interrupt() {
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	c.interrupted = true
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

package kafkaapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// minHeader is the shortest request: key, version, correlation id, client id.
const minHeader = 10

// conn is one client's connection. Its fields belong to the goroutine that serves it, save where they say otherwise.
type conn struct {
	s        *Server
	nc       net.Conn
	br       *bufio.Reader
	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	host     string
	clientID string // of the last request
	first    bool   // no request has come yet
	largest  int    // bytes of the largest request that came
	out      outbox
	poll     poller

	writeDeadline time.Time // belongs to whoever writes

	deadlineMu   sync.Mutex
	readDeadline time.Time // guarded by deadlineMu where others than the reader set it
	interrupted  bool      // guarded by deadlineMu
}

// request is one request that is being handled.
type request struct {
	c           *conn
	api         *api
	version     int16
	correlation int32
	body        []byte // after the header; shares the frame's memory
	frame       *frame // nil once somebody else releases it
	started     time.Time
}

func newConn(s *Server, nc net.Conn, host string) *conn {
	c := &conn{s: s, nc: nc, host: host, br: bufio.NewReaderSize(nc, readBuffer), first: true}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.out.init(c)
	return c
}

// serve runs the connection until it ends, and cleans up.
func (c *conn) serve() {
	defer c.s.finished(c)
	c.setReadDeadline(c.s.o.FirstRequest)
	err := c.serveRequests()
	if c.s.stopping() && errors.Is(err, os.ErrDeadlineExceeded) {
		c.out.waitIdle() // the client's requests are answered before its connection ends
	}
	c.cancel()
	c.nc.Close()
	c.out.close()
	c.poll.close()
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), c.s.stopping():
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.s.refused(c.host, "timeout", err)
	case errors.Is(err, errPanic):
		c.s.ev.Refused("panic")
		c.s.log.Error("a request failed in an unforeseen way, its connection is closed", "client", c.host, "client_id", c.clientID, "error", err)
	case errors.Is(err, errProtocol):
		c.s.ev.Refused("protocol")
		c.s.log.Warn("connection closed: the client does not keep to the protocol", "client", c.host, "client_id", c.clientID, "error", err)
	default:
		c.s.refused(c.host, "broken", err)
	}
}

func (c *conn) serveRequests() error {
	for !c.s.stopping() {
		f, err := c.readFrame()
		if err != nil {
			return err
		}
		if err := c.handle(f); err != nil {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// errPanic is a fault of ours in handling a request.
var errPanic = errors.New("panic")

// recovered turns a panic of the calling function into its error. It is deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
	}
}

// handle answers one request. It owns the frame. An error ends the connection.
func (c *conn) handle(f *frame) (err error) {
	r := &request{c: c, frame: f, started: time.Now()}
	defer func() {
		if r.frame != nil {
			r.frame.release()
		}
	}()
	defer recovered(&err)
	if err := r.parseHeader(f.bytes()); err != nil {
		return err
	}
	if r.api.parks {
		return c.park(r)
	}
	return r.api.handle(r)
}

// parseHeader finds out what the request is. A key or version that is not served is an error: no client could read an
// answer, so Kafka closes the connection, and so do we. The exception is ApiVersions (KIP-511).
func (r *request) parseHeader(b []byte) error {
	key, version := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	r.version, r.correlation = version, int32(binary.BigEndian.Uint32(b[4:]))
	r.api = apis.find(key)
	switch {
	case r.api == nil:
		return fmt.Errorf("%w: API key %d is not served", errProtocol, key)
	case version >= r.api.served && version <= r.api.max:
	case key == int16(kmsg.ApiVersions):
		r.version, r.body = -1, nil // answered as one that is too new
		return nil
	default:
		return fmt.Errorf("%w: %s version %d is not served, %d to %d are", errProtocol, r.api.name, version, r.api.served, r.api.max)
	}
	n, b := int(int16(binary.BigEndian.Uint16(b[8:]))), b[minHeader:]
	if n > len(b) {
		return fmt.Errorf("%w: the client id of %s is cut short", errProtocol, r.api.name)
	}
	if n = max(n, 0); string(b[:n]) != r.c.clientID { // compares without making a string
		r.c.clientID = string(b[:n])
	}
	b = b[n:]
	if r.flexible() {
		var err error
		if b, err = skipTags(b); err != nil {
			return fmt.Errorf("%w: header of %s: %w", errProtocol, r.api.name, err)
		}
	}
	r.body = b
	return nil
}

func (r *request) flexible() bool { return r.version >= r.api.flexible }

// maxTags is how many tagged fields a header or a produce request may have in one place. None are defined for them.
const maxTags = 64

// skipTags returns what follows the tagged fields (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > maxTags {
		return nil, errors.New("bad tagged fields")
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errors.New("bad tagged fields")
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, errors.New("bad tagged fields")
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// park handles a request that may wait long for others than the engine, while it watches for the client's end. The next
// request is not read before this one is answered.
func (c *conn) park(r *request) error {
	done := make(chan error, 1)
	c.setReadDeadline(farAway) // the handler keeps its own time
	c.s.wg.Go(func() {
		var err error
		defer func() {
			c.setReadDeadline(c.s.maxIdle + c.s.maxIdle/2)
			done <- err
		}()
		defer recovered(&err)
		err = r.api.handle(r)
	})
	_, gone := c.br.Peek(1)
	if gone != nil && !c.s.stopping() {
		c.cancel()
	}
	if err := <-done; err != nil {
		return err
	}
	return gone
}

const farAway = 365 * 24 * time.Hour

// beforeWrite sees to it that a write of n bytes ends. The deadline is moved only when it is near.
func (c *conn) beforeWrite(n int) {
	need := c.s.o.StallTimeout + time.Duration(n/minRate)*time.Second
	if now := time.Now(); c.writeDeadline.Sub(now) < need {
		c.writeDeadline = now.Add(need + c.s.o.StallTimeout)
		c.nc.SetWriteDeadline(c.writeDeadline)
	}
}

// write writes one buffer. The caller is the only writer.
func (c *conn) write(b []byte) error {
	c.beforeWrite(len(b))
	_, err := c.nc.Write(b)
	return err
}

// writev writes the buffers of n bytes together with as few copies as the connection allows. The caller is the only
// writer. The slice is consumed.
func (c *conn) writev(bufs *net.Buffers, n int) error {
	c.beforeWrite(n)
	_, err := bufs.WriteTo(c.nc)
	return err
}

package kafkaapi

import (
	"net"
	"sync"
	"time"
)

// maxInFlight is how many produce requests of a connection are handed over at once.
const maxInFlight = 256

// outbox keeps the responses of a connection in the order of its requests, where several are in flight: those of produce.
// Whoever completes the first one in the queue has it written, in a goroutine of its own, since completions come from the
// engine, which must not wait for a client. Every other response waits until the queue is empty and is written by the
// goroutine that handled the request.
type outbox struct {
	c *conn

	mu       sync.Mutex
	changed  sync.Cond  // the queue became shorter, or flushing ended
	queue    []*pending // oldest first
	flushing bool       // a goroutine writes
	err      error      // why nothing is written any more
	timer    *time.Timer
	armed    bool // timer will fire
}

// pending is a response that is due.
type pending struct {
	ready   bool   // guarded by the outbox's mutex
	bytes   []byte // the whole response, once ready
	expires time.Time
	expire  func() // makes it ready with what is known; called without the mutex
	written func() // called once the bytes are not needed any more, with the mutex held
}

func (o *outbox) init(c *conn) {
	o.c = c
	o.changed.L = &o.mu
}

// reserve puts a response into the queue, so that later ones come after it. It waits while there are too many.
func (o *outbox) reserve(p *pending) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) >= maxInFlight && o.err == nil {
		o.changed.Wait()
	}
	if o.err != nil {
		return o.err
	}
	o.queue = append(o.queue, p)
	if !o.armed {
		o.arm(p.expires)
	}
	return nil
}

// arm sets the timer for the oldest response. It fires at most once a response's timeout, however many there are.
func (o *outbox) arm(at time.Time) {
	o.armed = true
	d := time.Until(at)
	if o.timer == nil {
		o.timer = time.AfterFunc(d, o.expire)
		return
	}
	o.timer.Reset(d)
}

func (o *outbox) expire() {
	now := time.Now()
	var late []*pending
	o.mu.Lock()
	o.armed = false
	var next time.Time
	for _, p := range o.queue {
		switch {
		case p.ready:
		case !p.expires.After(now):
			late = append(late, p)
		case next.IsZero() || p.expires.Before(next):
			next = p.expires
		}
	}
	if !next.IsZero() && o.err == nil {
		o.arm(next)
	}
	o.mu.Unlock()
	for _, p := range late {
		p.expire()
	}
}

// complete makes a reserved response ready. It does not wait.
func (o *outbox) complete(p *pending, b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.ready, p.bytes = true, b
	if o.err != nil {
		p.written()
		return
	}
	if !o.flushing && len(o.queue) > 0 && o.queue[0] == p {
		o.flushing = true
		o.c.s.wg.Go(o.flush)
	}
}

// flush writes what is ready at the head of the queue until nothing is.
func (o *outbox) flush() {
	var done []*pending
	for {
		o.mu.Lock()
		for _, p := range done {
			p.written()
		}
		n := 0
		for n < len(o.queue) && o.queue[n].ready {
			n++
		}
		done = append(done[:0], o.queue[:n]...)
		o.queue = o.queue[n:]
		if n == 0 {
			o.flushing = false
		}
		failed := o.err != nil
		o.changed.Broadcast()
		o.mu.Unlock()
		if n == 0 {
			return
		}
		if failed {
			continue
		}
		var err error
		if n == 1 {
			err = o.c.write(done[0].bytes)
		} else {
			bufs, size := make(net.Buffers, 0, n), 0
			for _, p := range done {
				bufs, size = append(bufs, p.bytes), size+len(p.bytes)
			}
			err = o.c.writev(&bufs, size)
		}
		if err != nil {
			o.fail(err)
		}
	}
}

// waitIdle waits until every reserved response is written, so that the caller is the only writer until it reserves one.
func (o *outbox) waitIdle() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for (len(o.queue) > 0 || o.flushing) && o.err == nil {
		o.changed.Wait()
	}
	return o.err
}

// fail ends the connection: nothing is written any more.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.changed.Broadcast()
	o.mu.Unlock()
	o.c.cancel()
	o.c.nc.Close()
}

// close gives up what is not written. Responses that are still due are dropped as they become ready.
func (o *outbox) close() {
	o.fail(net.ErrClosed)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}

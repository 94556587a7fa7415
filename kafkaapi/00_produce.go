package kafkaapi

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
)

// Produce (key 0), versions 3 to 11; 0 to 2 are advertised and refused, as in Kafka 4 (KAFKA-18659): librdkafka before
// 2.11.1 takes a broker that does not list them for one without compression.
//
// One batch of format 2 a partition. A batch is checked, then handed to the engine, which makes it durable; acks=1 and
// acks=all are the same. acks=0 has no response, and an error closes the connection. Zstd from version 7 (KIP-110), from 8
// errors have a message. The records of a batch are looked at only where the topic's settings need it.
//
// Differences: limits on timestamps are checked by the batch's first and largest timestamps, not by each record's, so that
// batches need not be decompressed. Errors do not single out records. Transactional batches: INVALID_TXN_STATE.

// produce is one produce request that is handed over.
type produce struct {
	pending
	r   *request
	req kmsg.ProduceRequest

	mu       sync.Mutex
	resp     kmsg.ProduceResponse
	left     int // outcomes that are missing, and one while partitions are handed over
	answered bool
	pooled   *[]byte
}

// handOver bounds how long a partition's batch may wait for room: the engine's own limit, 5 s by default, or the
// client's timeout where that is shorter.
const handOver = 5 * time.Second

func handleProduce(r *request) error {
	p := &produce{r: r}
	p.req.Version = r.version
	if err := checkProduce(r); err != nil {
		return err
	}
	// Names share the frame's memory, which is held until the response is encoded.
	if err := p.req.UnsafeReadFrom(r.body); err != nil {
		return fmt.Errorf("%w: Produce version %d cannot be decoded: %w", errProtocol, r.version, err)
	}
	timeout := min(max(time.Duration(p.req.TimeoutMillis)*time.Millisecond, time.Second), 5*time.Minute)
	p.layOut()
	if p.req.Acks != 0 {
		p.expires, p.expire, p.pending.written = r.started.Add(timeout), p.timeOut, p.giveBack
		if err := r.c.out.reserve(&p.pending); err != nil {
			return err
		}
	}
	frame := r.frame
	r.frame = nil // it is released when the last outcome is known
	defer func() {
		if e := recover(); e != nil {
			frame.release()
			panic(e)
		}
	}()
	p.handOver(frame, timeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastLocked(frame)
	return nil
}

// layOut makes the response's topics and partitions, as the request has them.
func (p *produce) layOut() {
	p.resp.Version = p.req.Version
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(p.req.Topics))
	for i := range p.req.Topics {
		rt, out := &p.req.Topics[i], &p.resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			out.Partitions[j].Default()
			out.Partitions[j].Partition, out.Partitions[j].BaseOffset = rt.Partitions[j].Partition, -1
			out.Partitions[j].ErrorCode = unknown
		}
	}
}

// unknown marks an outcome that is not there yet. It is no error code of the protocol.
const unknown = -32768

// handOver gives each batch to the engine, in the request's order.
func (p *produce) handOver(f *frame, timeout time.Duration) {
	r, s := p.r, p.r.c.s
	ctx := r.c.ctx
	if timeout < handOver {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	p.mu.Lock()
	p.left = 1
	p.mu.Unlock()
	acks := p.req.Acks
	for i := range p.req.Topics {
		rt := &p.req.Topics[i]
		t, err := s.topic(rt.Topic)
		if err == nil && t.Internal {
			err = refuse(kerr.InvalidTopicException, fmt.Sprintf("topic %s is the broker's own", t.Name))
		}
		switch {
		case acks < -1 || acks > 1:
			err = refuse(kerr.InvalidRequiredAcks, fmt.Sprintf("acks is %d, not -1, 0 or 1", acks))
		case p.req.TransactionID != nil:
			err = refuse(kerr.InvalidTxnState, noTransactions)
		}
		for j := range rt.Partitions {
			perr := err
			if perr == nil {
				perr = p.appendBatch(ctx, f, t, i, j)
			}
			if perr != nil {
				p.refused(i, j, perr)
			}
		}
	}
}

// appendBatch checks one partition's batch and admits it, or says why not.
func (p *produce) appendBatch(ctx context.Context, f *frame, t *topic, i, j int) error {
	r, rp := p.r, &p.req.Topics[i].Partitions[j]
	h, err := r.c.s.partition(t.Topic, rp.Partition)
	if err != nil {
		return err
	}
	batch, err := recordbatch.Check(rp.Records, recordbatch.Limits{MaxBytes: max(t.MaxMessageBytes, 1), Zstd: r.version >= 7})
	if err != nil {
		return err
	}
	if batch.Transactional() {
		return refuse(kerr.InvalidTxnState, noTransactions)
	}
	appendTime, err := r.c.s.admit(t, batch)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.left++
	p.mu.Unlock()
	err = h.Append(ctx, engine.Batch{Data: batch, Buffer: f.buf}, func(a engine.Appended) {
		p.done(f, t, i, j, len(batch), appendTime, a)
	})
	if err != nil {
		p.mu.Lock()
		p.left--
		p.mu.Unlock()
	}
	return err
}

// done is told the outcome of one batch. It does not block.
func (p *produce) done(f *frame, t *topic, i, j, size int, appendTime int64, a engine.Appended) {
	if a.Err == nil {
		p.r.c.s.ev.Produced(t.Name, 1, size)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch out := &p.resp.Topics[i].Partitions[j]; {
	case p.answered: // too late
	case a.Err != nil:
		p.failLocked(out, a.Err, unsure)
	default:
		out.ErrorCode, out.BaseOffset, out.LogStartOffset, out.LogAppendTime = 0, a.BaseOffset, a.LogStart, appendTime
	}
	p.lastLocked(f)
}

func (p *produce) refused(i, j int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.failLocked(&p.resp.Topics[i].Partitions[j], err, refused)
	}
}

func (p *produce) failLocked(out *kmsg.ProduceResponseTopicPartition, err error, m moment) {
	out.ErrorCode, out.ErrorMessage = p.r.code(err, m), message(err)
	p.r.c.s.log.Debug("batch refused", "client_id", p.r.c.clientID, "partition", out.Partition, "error", err)
}

// timeOut answers with what is known.
func (p *produce) timeOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered || p.left == 0 {
		return
	}
	err := refuse(kerr.RequestTimedOut, "the log has not confirmed the batch within the request's timeout")
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			if out := &p.resp.Topics[i].Partitions[j]; out.ErrorCode == unknown {
				p.failLocked(out, err, unsure)
			}
		}
	}
	// The frame's memory is not given back: the hand-over may still be reading it. The last outcome does that.
	p.encodeLocked()
}

// lastLocked counts an outcome, or the end of the hand-over. The last one ends the request.
func (p *produce) lastLocked(f *frame) {
	if p.left--; p.left > 0 {
		return
	}
	defer f.release()
	if p.answered {
		return
	}
	if p.req.Acks != 0 {
		p.encodeLocked()
		return
	}
	p.answered = true
	p.r.answered(0)
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			if p.resp.Topics[i].Partitions[j].ErrorCode != 0 {
				p.r.c.out.fail(net.ErrClosed) // there is no other way to tell
			}
		}
	}
}

func (p *produce) encodeLocked() {
	p.answered = true
	p.pooled = responseBytes.Get().(*[]byte)
	b := p.r.encode(*p.pooled, &p.resp)
	p.r.answered(len(b))
	p.r.c.out.complete(&p.pending, b)
}

func (p *produce) giveBack() { giveBack(p.pooled, p.pending.bytes) }

package kafkaapi

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer.
//
// From 3 a producer may name the id and epoch that it had (KIP-360); without a transactional id it gets a new one all
// the same, as from Kafka. A transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which is final for all
// clients: transactions are not served.

const producerIDTimeout = 10 * time.Second

func initProducerID(r *request, req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = r.code(refuse(kerr.TransactionalIDAuthorizationFailed, noTransactions), refused)
		return resp
	}
	ctx, cancel := context.WithTimeout(r.c.ctx, producerIDTimeout)
	defer cancel()
	id, err := r.c.s.svc.ProducerID(ctx)
	if err != nil {
		// What Kafka says while it waits for ids: every client asks again, and none looks for a coordinator of transactions.
		r.c.s.log.Warn("cannot give out a producer id", "error", err)
		resp.ErrorCode = r.code(kerr.CoordinatorLoadInProgress, refused)
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}

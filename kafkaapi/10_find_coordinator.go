package kafkaapi

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group. There is one.
//
// From 1 the client says what it looks for, from 4 it asks for several at once. Transactions are not served: to be clear
// to clients that do not look at which keys are advertised, the answer is the one that all of them take for final,
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, with a message that says what is meant. Share groups: INVALID_REQUEST.

const (
	coordinatesGroup       = 0
	coordinatesTransaction = 1
)

const noTransactions = "transactions are not supported by this broker"

func findCoordinator(r *request, req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	var err error
	switch req.CoordinatorType {
	case coordinatesGroup:
	case coordinatesTransaction:
		err = refuse(kerr.TransactionalIDAuthorizationFailed, noTransactions)
	default:
		err = refuse(kerr.InvalidRequest, fmt.Sprintf("coordinators of type %d are not served", req.CoordinatorType))
	}
	code := r.code(err, refused)
	node, host, port := int32(-1), "", int32(-1)
	if err == nil {
		node = r.c.s.o.NodeID
		host, port = r.c.advertised()
	}
	resp.ErrorCode, resp.ErrorMessage = code, message(err)
	resp.NodeID, resp.Host, resp.Port = node, host, port
	for _, key := range req.CoordinatorKeys {
		one := kmsg.NewFindCoordinatorResponseCoordinator()
		one.Key, one.NodeID, one.Host, one.Port = key, node, host, port
		one.ErrorCode, one.ErrorMessage = code, message(err)
		resp.Coordinators = append(resp.Coordinators, one)
	}
	return resp
}

package kafkaapi

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch (key 1), versions 4 to 17: batches of partitions, from offsets on.
//
// From 7 there are fetch sessions (KIP-227): a client names its partitions once and afterwards only what changes; see
// fetchsession.go. From 9 the leader epoch is checked (KIP-320), from 12 the epoch of the last record that the client has
// (KIP-595): where the log went another way, the response says from where. From 13 topics are named by id.
//
// A fetch waits until there are min bytes, an error, or its time is over; see longpoll.go. The first batch is sent
// whatever its size. read_committed is read_uncommitted with an empty list of aborted transactions: there are none.
//
// Differences: a fetch waits at most FetchWait. A response is at most as large as FetchMemory/16, so that a client
// with a larger limit gets it in pieces. A client that says it is a replica, with an id of 0 or more, is refused with
// INVALID_REQUEST. There is no preferred read replica.

func handleFetch(r *request) error {
	req := &r.c.poll.req
	*req = kmsg.FetchRequest{Topics: req.Topics[:0], ForgottenTopics: req.ForgottenTopics[:0]}
	if err := r.decode(req); err != nil {
		return err
	}
	if req.ReplicaID >= 0 || req.ReplicaState.ID >= 0 {
		return r.refuseFetch(refuse(kerr.InvalidRequest, "there are no replicas"))
	}
	s, err := r.c.s.sessions.open(r, req)
	if err != nil {
		return r.refuseFetch(err)
	}
	defer r.c.s.sessions.leave(s)
	if err := s.apply(r, req); err != nil {
		return r.refuseFetch(err)
	}
	const few = 64
	if len(req.Topics) > few || len(req.ForgottenTopics) > few {
		req.Topics, req.ForgottenTopics = nil, nil // not kept for the next request
	}
	// The request's bytes are not needed while it waits.
	r.frame.release()
	r.frame = nil
	return r.c.poll.run(r, s)
}

// refuseFetch answers the whole request with an error. Before version 7 there is no place for one: the connection is
// closed, as for a malformed request.
func (r *request) refuseFetch(err error) error {
	if r.version < 7 {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.ErrorCode = r.code(err, reading)
	return r.respond(resp)
}

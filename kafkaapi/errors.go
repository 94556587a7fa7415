package kafkaapi

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
)

// moment is when an error occurred, as far as it decides what a client is told.
type moment int

const (
	refused moment = iota // nothing happened, nothing will
	unsure                // it may have happened
	reading               // nothing was to happen
)

// codes says what clients are told of which error. The first row that matches counts. Every code but the ones that speak
// of the request itself is one that clients retry, and none is UNKNOWN_SERVER_ERROR: producers of the Java client and of
// librdkafka treat that one as fatal for the batch, or write it twice.
var codes = []struct {
	err  error
	code [3]*kerr.Error // by moment
}{
	{engine.ErrOutOfOrderSequence, all(kerr.OutOfOrderSequenceNumber)},
	{engine.ErrProducerFenced, all(kerr.InvalidProducerEpoch)},
	{engine.ErrTooLarge, all(kerr.MessageTooLarge)},
	{engine.ErrOutOfRange, all(kerr.OffsetOutOfRange)},
	{engine.ErrNotFound, all(kerr.UnknownTopicOrPartition)},
	{engine.ErrExists, all(kerr.TopicAlreadyExists)},
	{engine.ErrFenced, all(kerr.NotLeaderForPartition)},
	{engine.ErrFull, [...]*kerr.Error{refused: kerr.NotEnoughReplicas, unsure: kerr.NotEnoughReplicas, reading: kerr.KafkaStorageError}},
	{engine.ErrPoisoned, all(kerr.KafkaStorageError)},
	{engine.ErrUnavailable, [...]*kerr.Error{refused: kerr.NotLeaderForPartition, unsure: kerr.RequestTimedOut, reading: kerr.NotLeaderForPartition}},
	{engine.ErrClosed, all(kerr.NotLeaderForPartition)},
	{engine.ErrCorrupt, all(kerr.KafkaStorageError)},
	{engine.ErrDenied, all(kerr.KafkaStorageError)},
	{context.DeadlineExceeded, all(kerr.RequestTimedOut)},
	{context.Canceled, all(kerr.RequestTimedOut)},
	{engine.ErrInvalid, all(kerr.InvalidRequest)},

	{recordbatch.ErrCorruptMessage, all(kerr.CorruptMessage)},
	{recordbatch.ErrInvalidRecord, all(kerr.InvalidRecord)},
	{recordbatch.ErrInvalidTimestamp, all(kerr.InvalidTimestamp)},
	{recordbatch.ErrUnsupportedCompression, all(kerr.UnsupportedCompressionType)},
	{recordbatch.ErrTooLarge, all(kerr.MessageTooLarge)},
}

func all(e *kerr.Error) [3]*kerr.Error { return [...]*kerr.Error{e, e, e} }

// code is the error code that tells a client of err. An error that the table does not know is a fault of ours: it is
// logged.
func (r *request) code(err error, m moment) int16 {
	if err == nil {
		return 0
	}
	var k *kerr.Error
	if !errors.As(err, &k) {
		for i := range codes {
			if errors.Is(err, codes[i].err) {
				k = codes[i].code[m]
				break
			}
		}
	}
	if k == nil {
		r.c.s.log.Error("an error without a code was answered as UNKNOWN_SERVER_ERROR", "api", r.api.name, "error", err)
		k = kerr.UnknownServerError
	}
	r.c.s.ev.Failed(r.api.name, k.Message)
	return k.Code
}

// refusal is an error with its code that says in our words what is wrong.
type refusal struct {
	code    *kerr.Error
	message string
}

func (e *refusal) Error() string { return e.message }
func (e *refusal) Unwrap() error { return e.code }

func refuse(code *kerr.Error, message string) error { return &refusal{code, message} }

// message is the text that goes with an error code; nil for none.
func message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}

package kafkaapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
)

func TestEveryForeseenErrorHasItsCode(t *testing.T) {
	var told []string
	s := &Server{log: slog.New(slog.DiscardHandler), ev: (&Events{Failed: func(api, code string) { told = append(told, api+" "+code) }}).withDefaults()}
	r := &request{c: &conn{s: s}, api: apis.find(0)}
	for _, c := range []struct {
		err                      error
		refused, unsure, reading *kerr.Error
	}{
		{engine.ErrFull, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas, kerr.KafkaStorageError},
		{engine.ErrUnavailable, kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotLeaderForPartition},
		{engine.ErrPoisoned, kerr.KafkaStorageError, kerr.KafkaStorageError, kerr.KafkaStorageError},
		{&engine.CorruptError{Where: "object"}, kerr.KafkaStorageError, kerr.KafkaStorageError, kerr.KafkaStorageError},
		{engine.ErrDenied, kerr.KafkaStorageError, kerr.KafkaStorageError, kerr.KafkaStorageError},
		{engine.ErrFenced, kerr.NotLeaderForPartition, kerr.NotLeaderForPartition, kerr.NotLeaderForPartition},
		{engine.ErrClosed, kerr.NotLeaderForPartition, kerr.NotLeaderForPartition, kerr.NotLeaderForPartition},
		{context.DeadlineExceeded, kerr.RequestTimedOut, kerr.RequestTimedOut, kerr.RequestTimedOut},
		{engine.ErrNotFound, kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition},
		{engine.ErrOutOfRange, kerr.OffsetOutOfRange, kerr.OffsetOutOfRange, kerr.OffsetOutOfRange},
		{engine.ErrTooLarge, kerr.MessageTooLarge, kerr.MessageTooLarge, kerr.MessageTooLarge},
		{engine.ErrInvalid, kerr.InvalidRequest, kerr.InvalidRequest, kerr.InvalidRequest},
		{engine.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber, kerr.OutOfOrderSequenceNumber, kerr.OutOfOrderSequenceNumber},
		{engine.ErrProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch},
		{recordbatch.ErrCorruptMessage, kerr.CorruptMessage, kerr.CorruptMessage, kerr.CorruptMessage},
		{refuse(kerr.InvalidTopicException, "bad name"), kerr.InvalidTopicException, kerr.InvalidTopicException, kerr.InvalidTopicException},
	} {
		for m, want := range []*kerr.Error{refused: c.refused, unsure: c.unsure, reading: c.reading} {
			told = nil
			if got := r.code(fmt.Errorf("append to t/0: %w", c.err), moment(m)); got != want.Code || len(told) != 1 || told[0] != "Produce "+want.Message {
				t.Errorf("%v at moment %d: code %d, want %v; told %v", c.err, m, got, want, told)
			}
		}
	}
	if got := r.code(errors.New("not foreseen"), refused); got != kerr.UnknownServerError.Code {
		t.Errorf("an error that nobody foresaw: %d", got)
	}
	if got := r.code(nil, refused); got != 0 {
		t.Errorf("no error: %d", got)
	}
}

package recordbatch_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

func three(codec recordbatch.Codec) recordbatch.Batch {
	return recordbatchtest.Build(recordbatchtest.Spec{
		LeaderEpoch: -1, Codec: codec, Idempotent: true, ProducerID: 7, ProducerEpoch: 2, BaseSequence: 40,
		Records: []recordbatchtest.Record{
			{Timestamp: 100, Key: []byte("k"), Value: []byte("one")},
			{Timestamp: 90, Value: nil, Headers: []recordbatch.Header{{Key: "h", Value: nil}, {Key: "h", Value: []byte("2")}}},
			{Timestamp: 120, Key: []byte{}, Value: []byte("three")},
		},
	})
}

func TestFieldsReadBackAsBuilt(t *testing.T) {
	b := three(recordbatch.Zstd)
	if got, err := recordbatch.Check(b, recordbatch.Limits{Zstd: true}); err != nil || len(got) != len(b) {
		t.Fatalf("Check: %d bytes, %v", len(got), err)
	}
	for name, pair := range map[string][2]int64{
		"base offset": {b.BaseOffset(), 0}, "last offset": {b.LastOffset(), 2}, "next offset": {b.NextOffset(), 3},
		"size": {int64(b.Size()), int64(len(b))}, "epoch": {int64(b.LeaderEpoch()), -1}, "count": {int64(b.Count()), 3},
		"base time": {b.BaseTimestamp(), 100}, "max time": {b.MaxTimestamp(), 120}, "codec": {int64(b.Codec()), 4},
		"producer": {b.ProducerID(), 7}, "producer epoch": {int64(b.ProducerEpoch()), 2},
		"sequence": {int64(b.BaseSequence()), 40}, "last sequence": {int64(b.LastSequence()), 42},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %d, want %d", name, pair[0], pair[1])
		}
	}
	if b.LogAppendTime() || b.Control() || b.Transactional() {
		t.Errorf("attributes %b", b.Attributes())
	}
}

func TestPatchingOffsetAndEpochKeepsTheChecksum(t *testing.T) {
	b := three(recordbatch.None)
	sum := b.CRC()
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(9)
	if b.CRC() != sum || b.Verify() != nil || b.LastOffset() != 1<<40+2 || b.LeaderEpoch() != 9 {
		t.Errorf("after the patch: checksum %08x (was %08x), %v, last offset %d", b.CRC(), sum, b.Verify(), b.LastOffset())
	}
}

func TestLogAppendTimeIsTheTimeOfEveryRecord(t *testing.T) {
	b := three(recordbatch.None)
	b.SetLogAppendTime(5000)
	if err := b.Verify(); err != nil {
		t.Fatal(err)
	}
	for r, err := range b.Records(nil, 0) {
		if err != nil || r.Timestamp != 5000 {
			t.Errorf("record %d: %d, %v", r.Offset, r.Timestamp, err)
		}
	}
	if offset, ts, found, err := b.FirstAtOrAfter(4000, nil, 0); offset != 0 || ts != 5000 || !found || err != nil {
		t.Errorf("FirstAtOrAfter: %d %d %t %v", offset, ts, found, err)
	}
}

func TestSequencesWrapToZero(t *testing.T) {
	b := three(recordbatch.None)
	binary.BigEndian.PutUint32(b[53:], math.MaxInt32-1)
	if got := b.LastSequence(); got != 0 {
		t.Errorf("two after 2^31-2 is %d, want 0", got)
	}
	binary.BigEndian.PutUint32(b[53:], math.MaxUint32)
	if got := b.LastSequence(); got != -1 {
		t.Errorf("no sequence gives %d, want -1", got)
	}
}

func TestCheckRefusesWithTheErrorOfTheProtocol(t *testing.T) {
	put16 := func(at int, v uint16) func(recordbatch.Batch) []byte {
		return func(b recordbatch.Batch) []byte {
			binary.BigEndian.PutUint16(b[at:], v)
			return recordbatchtest.Seal(b)
		}
	}
	put32 := func(at int, v uint32) func(recordbatch.Batch) []byte {
		return func(b recordbatch.Batch) []byte {
			binary.BigEndian.PutUint32(b[at:], v)
			return recordbatchtest.Seal(b)
		}
	}
	put64 := func(at int, v uint64) func(recordbatch.Batch) []byte {
		return func(b recordbatch.Batch) []byte {
			binary.BigEndian.PutUint64(b[at:], v)
			return recordbatchtest.Seal(b)
		}
	}
	raw := func(f func(b []byte) []byte) func(recordbatch.Batch) []byte {
		return func(b recordbatch.Batch) []byte { return f(b) }
	}
	negative := func(n int32) uint32 { return uint32(n) }
	for name, test := range map[string]struct {
		change func(recordbatch.Batch) []byte
		want   error
	}{
		"nothing":                    {raw(func([]byte) []byte { return nil }), recordbatch.ErrCorruptMessage},
		"half a header":              {raw(func(b []byte) []byte { return b[:40] }), recordbatch.ErrCorruptMessage},
		"old format":                 {raw(func(b []byte) []byte { b[16] = 1; return b }), recordbatch.ErrInvalidRecord},
		"cut":                        {raw(func(b []byte) []byte { return b[:len(b)-1] }), recordbatch.ErrCorruptMessage},
		"two batches":                {raw(func(b []byte) []byte { return slices.Concat(b, b) }), recordbatch.ErrInvalidRecord},
		"negative length":            {raw(func(b []byte) []byte { b[8] = 0xff; return b }), recordbatch.ErrCorruptMessage},
		"flipped bit in the records": {raw(func(b []byte) []byte { b[70] ^= 1; return b }), recordbatch.ErrCorruptMessage},
		"flipped bit in the header":  {raw(func(b []byte) []byte { b[30] ^= 1; return b }), recordbatch.ErrCorruptMessage},
		"codec 5":                    {put16(21, 5), recordbatch.ErrUnsupportedCompression},
		"zstd where not allowed":     {put16(21, 4), recordbatch.ErrUnsupportedCompression},
		"base offset 1":              {put64(0, 1), recordbatch.ErrInvalidRecord},
		"no records":                 {put32(57, 0), recordbatch.ErrInvalidRecord},
		"negative count":             {put32(57, negative(-3)), recordbatch.ErrInvalidRecord},
		"count more than offsets":    {put32(57, 4), recordbatch.ErrInvalidRecord},
		"negative offset delta":      {put32(23, negative(-1)), recordbatch.ErrInvalidRecord},
		"control":                    {put16(21, 1<<5), recordbatch.ErrInvalidRecord},
		"negative sequence":          {put32(53, negative(-1)), recordbatch.ErrInvalidRecord},
		"negative producer epoch":    {put16(51, 0xffff), recordbatch.ErrInvalidRecord},
		"producer id -2":             {put64(43, math.MaxUint64-1), recordbatch.ErrInvalidRecord},
		"log append time":            {put16(21, 1<<3), recordbatch.ErrInvalidTimestamp},
		"delete horizon":             {put16(21, 1<<6), recordbatch.ErrInvalidRecord},
		"transactional, no producer": {func(b recordbatch.Batch) []byte {
			binary.BigEndian.PutUint64(b[43:], math.MaxUint64)
			return put16(21, 1<<4)(b)
		}, recordbatch.ErrInvalidRecord},
		"count and delta both lie": {func(b recordbatch.Batch) []byte {
			binary.BigEndian.PutUint32(b[23:], 3)
			return put32(57, 4)(b)
		}, recordbatch.ErrInvalidRecord},
		"count and delta lie by a billion": {func(b recordbatch.Batch) []byte {
			binary.BigEndian.PutUint32(b[23:], 1<<30-1)
			return put32(57, 1<<30)(b)
		}, recordbatch.ErrInvalidRecord},
		"record length beyond the end": {func(b recordbatch.Batch) []byte {
			b[61] = 0x7e
			return recordbatchtest.Seal(b)
		}, recordbatch.ErrInvalidRecord},
	} {
		t.Run(name, func(t *testing.T) {
			b := test.change(three(recordbatch.None))
			if got, err := recordbatch.Check(b, recordbatch.Limits{}); !errors.Is(err, test.want) || got != nil {
				t.Errorf("Check: %v, want %v", err, test.want)
			}
		})
	}
}

func TestCheckLimitsSizeBeforeChecksum(t *testing.T) {
	b := three(recordbatch.None)
	if _, err := recordbatch.Check(b, recordbatch.Limits{MaxBytes: len(b)}); err != nil {
		t.Errorf("as large as the limit: %v", err)
	}
	b[len(b)-1] ^= 1
	if _, err := recordbatch.Check(b, recordbatch.Limits{MaxBytes: len(b) - 1}); !errors.Is(err, recordbatch.ErrTooLarge) {
		t.Errorf("one byte more than the limit: %v", err)
	}
	if _, err := recordbatch.Check(b, recordbatch.Limits{SkipCRC: true}); err != nil {
		t.Errorf("checksum skipped: %v", err)
	}
}

func TestNextWalksARunOfBatches(t *testing.T) {
	var run []byte
	offset := int64(10)
	for range 3 {
		b := three(recordbatch.LZ4)
		b.SetBaseOffset(offset)
		offset = b.NextOffset()
		run = append(run, b...)
	}
	var got []int64
	for rest := run; len(rest) > 0; {
		var b recordbatch.Batch
		var err error
		if b, rest, err = recordbatch.Next(rest); err != nil {
			t.Fatal(err)
		}
		got = append(got, b.BaseOffset())
	}
	if !slices.Equal(got, []int64{10, 13, 16}) {
		t.Errorf("base offsets %d", got)
	}
	if _, _, err := recordbatch.Next(run[:len(run)/3-1]); !errors.Is(err, recordbatch.ErrCorruptMessage) {
		t.Errorf("cut batch: %v", err)
	}
	if _, _, err := recordbatch.Next(nil); !errors.Is(err, recordbatch.ErrCorruptMessage) {
		t.Errorf("no bytes: %v", err)
	}
}

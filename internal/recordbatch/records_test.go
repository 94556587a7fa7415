package recordbatch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/codec"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

var codecs = []recordbatch.Codec{recordbatch.None, recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd}

// franz is what a client makes of the batches.
func franz(t testing.TB, raw []byte) ([]*kgo.Record, error) {
	t.Helper()
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.RecordBatches, rp.HighWatermark = raw, 1<<62
	o := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true}
	p, _ := kgo.ProcessFetchPartition(o, &rp, kgo.DefaultDecompressor(), nil)
	return p.Records, p.Err
}

func TestRecordsAreWhatAClientDecodes(t *testing.T) {
	const seed = 20261202
	r := rand.New(rand.NewPCG(seed, seed))
	random := func(most int) []byte {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			b[i] = byte(r.IntN(4)) // compresses
		}
		return b
	}
	for i := range 70 {
		s := recordbatchtest.Spec{BaseOffset: r.Int64N(1 << 40), Codec: codecs[i%len(codecs)], LeaderEpoch: 3, LogAppendTime: i%7 == 0}
		for range 1 + r.IntN(20) {
			rec := recordbatchtest.Record{Timestamp: 1_700_000_000_000 + r.Int64N(1000), Value: random(40_000 / (1 + i%50))}
			if r.IntN(2) == 0 {
				rec.Key = random(10)
			}
			if r.IntN(10) == 0 {
				rec.Value = nil
			}
			for range r.IntN(3) {
				rec.Headers = append(rec.Headers, recordbatch.Header{Key: string(random(5)), Value: random(9)})
			}
			s.Records = append(s.Records, rec)
		}
		b := recordbatchtest.Build(s)
		want, err := franz(t, b)
		if err != nil || len(want) != len(s.Records) {
			t.Fatalf("seed %d, batch %d (%s): the client read %d of %d records: %v", seed, i, s.Codec, len(want), len(s.Records), err)
		}
		n := 0
		for got, err := range b.Records(codec.Decompressor{}, 1<<20) {
			if err != nil {
				t.Fatalf("seed %d, batch %d (%s): %v", seed, i, s.Codec, err)
			}
			if diff := differ(got, want[n]); diff != "" {
				t.Errorf("seed %d, batch %d (%s), record %d: %s", seed, i, s.Codec, n, diff)
			}
			n++
		}
		if n != len(want) {
			t.Errorf("seed %d, batch %d: %d records, want %d", seed, i, n, len(want))
		}
	}
}

// differ says in what a record is not the one that the client decoded.
func differ(got recordbatch.Record, want *kgo.Record) string {
	if got.Offset != want.Offset || got.Timestamp != want.Timestamp.UnixMilli() {
		return fmt.Sprintf("offset %d and time %d, want %d and %d", got.Offset, got.Timestamp, want.Offset, want.Timestamp.UnixMilli())
	}
	if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) || (got.Key == nil) != (want.Key == nil) || (got.Value == nil) != (want.Value == nil) {
		return fmt.Sprintf("key %q and value of %d bytes, want %q and %d", got.Key, len(got.Value), want.Key, len(want.Value))
	}
	headers := got.Headers()
	if len(headers) != len(want.Headers) {
		return fmt.Sprintf("%d headers, want %d", len(headers), len(want.Headers))
	}
	for i, h := range headers {
		if h.Key != want.Headers[i].Key || !bytes.Equal(h.Value, want.Headers[i].Value) {
			return fmt.Sprintf("header %d is %q, want %q", i, h.Key, want.Headers[i].Key)
		}
	}
	return ""
}

func TestTimestampLookupFindsTheFirstAtOrAfter(t *testing.T) {
	for _, c := range codecs {
		b := three(c) // timestamps 100, 90, 120
		b.SetBaseOffset(50)
		for _, test := range []struct {
			at, offset, time int64
			found            bool
		}{{0, 50, 100, true}, {100, 50, 100, true}, {101, 52, 120, true}, {120, 52, 120, true}, {121, 0, 0, false}} {
			offset, ts, found, err := b.FirstAtOrAfter(test.at, codec.Decompressor{}, 1<<20)
			if err != nil || offset != test.offset || ts != test.time || found != test.found {
				t.Errorf("%s, at %d: offset %d, time %d, %t, %v", c, test.at, offset, ts, found, err)
			}
		}
	}
}

func TestExpansionIsBounded(t *testing.T) {
	bomb := make([]byte, 8<<20)
	for _, c := range codecs {
		b := recordbatchtest.Build(recordbatchtest.Spec{Codec: c, Records: []recordbatchtest.Record{{Value: bomb}}})
		if c == recordbatch.None {
			continue // nothing is expanded
		}
		var last error
		for _, err := range b.Records(codec.Decompressor{}, 1<<20) {
			last = err
		}
		if !errors.Is(last, recordbatch.ErrTooLarge) {
			t.Errorf("%s: %d bytes expand to %d under a bound of 1 MiB: %v", c, len(b), len(bomb), last)
		}
	}
}

func TestCompressedCountThatLiesIsFoundByDecoding(t *testing.T) {
	for _, c := range codecs {
		for _, count := range []uint32{2, 4} {
			b := three(c)
			binary.BigEndian.PutUint32(b[57:], count)
			binary.BigEndian.PutUint32(b[23:], count-1)
			recordbatchtest.Seal(b)
			var last error
			for _, err := range b.Records(codec.Decompressor{}, 1<<20) {
				last = err
			}
			if !errors.Is(last, recordbatch.ErrInvalidRecord) {
				t.Errorf("%s, 3 records said to be %d: %v", c, count, last)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, c := range codecs {
		f.Add([]byte(three(c)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = bytes.Clone(raw)
		// A fuzzer does not guess checksums: give it one, so that it gets past.
		if len(raw) >= recordbatch.HeaderSize && recordbatch.Batch(raw).Size() == len(raw) {
			recordbatchtest.Seal(raw)
		}
		b, err := recordbatch.Check(raw, recordbatch.Limits{Zstd: true, MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		if again, rest, err := recordbatch.Next(raw); err != nil || len(rest) != 0 || len(again) != len(b) {
			t.Fatalf("checked, and Next says %v with %d bytes left", err, len(rest))
		}
		n := 0
		for r, err := range b.Records(codec.Decompressor{}, 1<<20) {
			if err != nil {
				return
			}
			r.Headers()
			n++
		}
		if n != int(b.Count()) {
			t.Fatalf("%d records without an error, header says %d", n, b.Count())
		}
	})
}

func FuzzNext(f *testing.F) {
	f.Add([]byte(three(recordbatch.None)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for rest := raw; len(rest) > 0; {
			b, after, err := recordbatch.Next(rest)
			if err != nil {
				return
			}
			if len(b)+len(after) != len(rest) || b.NextOffset() <= b.BaseOffset() {
				t.Fatalf("%d bytes, %d after, of %d; offsets %d to %d", len(b), len(after), len(rest), b.BaseOffset(), b.LastOffset())
			}
			_ = b.Verify()
			rest = after
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	value := make([]byte, 64<<10)
	small := recordbatchtest.Spec{}
	for range 600 {
		small.Records = append(small.Records, recordbatchtest.Record{Value: value[:100]})
	}
	for name, batch := range map[string]recordbatch.Batch{
		"one of 64 KiB": recordbatchtest.Build(recordbatchtest.Spec{Records: []recordbatchtest.Record{{Value: value}}}),
		"600 of 100 B":  recordbatchtest.Build(small),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if _, err := recordbatch.Check(batch, recordbatch.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

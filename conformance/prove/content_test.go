package prove

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/load"
)

// value makes the incompressible value of a record: any reader can tell what it must be.
func value(seed uint64, partition int32, n int64, size int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(partition)<<40|uint64(n)))
	b := make([]byte, size)
	for i := 0; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b
}

var table = crc64.MakeTable(crc64.ECMA)

// sums are running checksums of the values of each partition.
type sums []struct {
	n   int64
	sum uint64
}

func (s sums) add(p int32, value []byte) {
	s[p].n++
	s[p].sum = crc64.Update(s[p].sum, table, value)
}

// write sends perPartition values to each partition and returns their checksums.
func write(t *testing.T, addr, topic string, partitions int32, perPartition int64, size int, seed uint64) sums {
	t.Helper()
	cl, err := load.Client(addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedBytes(64<<20), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := deadline(t)
	out := make(sums, partitions)
	failed := make(chan error, 1)
	for n := range perPartition {
		for p := range partitions {
			v := value(seed, p, n, size)
			out.add(p, v)
			cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: v}, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatalf("produce: %v", err)
	default:
	}
	return out
}

// read consumes what want says, from the beginning, and compares the checksums.
func read(ctx context.Context, addr, topic string, want sums) error {
	at := map[int32]kgo.Offset{}
	left := int64(0)
	for p, s := range want {
		if s.n > 0 {
			at[int32(p)] = kgo.NewOffset().At(0)
		}
		left += s.n
	}
	cl, err := load.Client(addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return err
	}
	defer cl.Close()
	got := make(sums, len(want))
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("%d records left: %w", left, err)
		}
		var wrong error
		fetches.EachRecord(func(r *kgo.Record) {
			switch n := got[r.Partition].n; {
			case r.Offset != n && n < want[r.Partition].n:
				wrong = fmt.Errorf("%s-%d: offset %d after %d records", topic, r.Partition, r.Offset, n)
			case n < want[r.Partition].n:
				got.add(r.Partition, r.Value)
				left--
			}
		})
		if wrong != nil {
			return wrong
		}
	}
	for p, w := range want {
		if got[p] != w {
			return fmt.Errorf("%s-%d: %d records with checksum %x, wrote %d with %x", topic, p, got[p].n, got[p].sum, w.n, w.sum)
		}
	}
	return nil
}

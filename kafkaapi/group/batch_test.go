package group

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBatchesAreKafkas(t *testing.T) {
	var records []record
	for i := range 200 {
		records = append(records, record{[]byte(fmt.Sprint("key ", i)), bytes.Repeat([]byte{byte(i)}, i*7)})
	}
	records = append(records, record{[]byte("gone"), nil}, record{nil, []byte{}})
	buf := encodeBatch(records, 1_700_000_000_000)
	defer buf.Release()
	b, err := recordbatch.Check(buf.Bytes(), recordbatch.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if b.Count() != int32(len(records)) {
		t.Errorf("%d records", b.Count())
	}

	// A client's own decoder, with its check of the checksum.
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.RecordBatches = buf.Bytes()
	rp.HighWatermark = int64(len(records))
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t"}, &rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil || len(fp.Records) != len(records) {
		t.Fatalf("a client reads %d records of %d: %v", len(fp.Records), len(records), fp.Err)
	}
	for i, r := range fp.Records {
		want := records[i]
		if !bytes.Equal(r.Key, want.key) || !bytes.Equal(r.Value, want.value) || (r.Value == nil) != (want.value == nil) {
			t.Errorf("record %d: key %q, value of %d bytes", i, r.Key, len(r.Value))
		}
		if r.Offset != int64(i) || r.Timestamp.UnixMilli() != 1_700_000_000_000 {
			t.Errorf("record %d: offset %d at %s", i, r.Offset, r.Timestamp)
		}
	}
}

func TestOffsetRecordsAreKafkas(t *testing.T) {
	o := offset{at: 42, leaderEpoch: 3, metadata: "hello", committed: 1_700_000_000_000, topicID: engine.ID{1, 2, 3}}
	r := offsetRecord("g", topicPartition{"lines", 7}, o)
	k, v := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
	if err := k.ReadFrom(r.key); err != nil || k.Version != 1 || k.Group != "g" || k.Topic != "lines" || k.Partition != 7 {
		t.Errorf("key %+v: %v", k, err)
	}
	if err := v.ReadFrom(r.value); err != nil || v.Offset != 42 || v.LeaderEpoch != 3 || v.Metadata != "hello" ||
		v.CommitTimestamp != o.committed || v.TopicID != o.topicID {
		t.Errorf("value %+v: %v", v, err)
	}
	img := image{}
	if known, err := img.apply(r.key, r.value); err != nil || !known {
		t.Fatal(known, err)
	}
	if got := img["g"].offsets[topicPartition{"lines", 7}]; got != o {
		t.Errorf("read back as %+v", got)
	}
	// Older values have no leader epoch and no topic id.
	v.Version = 1
	if _, err := img.apply(r.key, v.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	if got := img["g"].offsets[topicPartition{"lines", 7}]; got.leaderEpoch != -1 || got.topicID != (engine.ID{}) || got.at != 42 {
		t.Errorf("old value read as %+v", got)
	}
	if _, err := img.apply(r.key, nil); err != nil || len(img) != 0 {
		t.Errorf("%d groups after the deletion: %v", len(img), err)
	}
}

func TestUnknownRecordsAreSkippedAndDamagedOnesAreErrors(t *testing.T) {
	img := image{}
	if known, err := img.apply([]byte{0, 99, 1}, []byte{1}); known || err != nil {
		t.Errorf("known %t, %v", known, err)
	}
	for _, r := range []record{{[]byte{0}, nil}, {[]byte{0, 1, 0}, nil}, {offsetKey("g", topicPartition{"t", 0}), []byte{0, 3, 1}}} {
		if _, err := img.apply(r.key, r.value); err == nil {
			t.Errorf("key %x, value %x: no error", r.key, r.value)
		}
	}
}

func FuzzImage(f *testing.F) {
	r := offsetRecord("g", topicPartition{"lines", 7}, offset{at: 1})
	f.Add(r.key, r.value)
	f.Add(groupKey("g"), []byte{0, 3, 0, 0})
	f.Fuzz(func(_ *testing.T, key, value []byte) {
		img := image{}
		_, _ = img.apply(key, value)
		for id, g := range img {
			if g.meta != nil {
				s := newShard(&Coordinator{o: testOptions}, 0)
				_ = s.restore(id, g)
				s.abandon()
			}
		}
	})
}

func TestPartitionIsTheHashOfJava(t *testing.T) {
	for _, tt := range []struct {
		group string
		hash  int32 // what String.hashCode gives, made positive as Kafka does
	}{
		{"", 0}, {"a", 97}, {"hello", 99162322}, {"polygenelubricants", 0}, {"\U0001F600", 1772899},
		{"console-consumer", 648006740},
	} {
		for _, n := range []int32{1, 3, 50} {
			if got := PartitionFor(tt.group, n); got != tt.hash%n {
				t.Errorf("group %q is in partition %d of %d, want %d", tt.group, got, n, tt.hash%n)
			}
		}
	}
}

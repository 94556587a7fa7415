package objectfile_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/headpond/headpond/internal/objectfile"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// content is what goes into an object: partitions in order, each with batches.
type content struct {
	meta       objectfile.Meta
	blockBytes int
	partitions []objectfile.Partition
	batches    [][]recordbatch.Batch
}

func id(b byte) objectfile.ID { return objectfile.ID(bytes.Repeat([]byte{b}, 16)) }

// sample is an object of n partitions with some batches each, the same every time for one seed.
func sample(seed uint64, kind objectfile.Kind, n, blockBytes int) content {
	r := rand.New(rand.NewPCG(seed, seed))
	c := content{
		meta: objectfile.Meta{Kind: kind, Ordinal: 3, Cluster: id(0xc1), WAL: id(0xa1), Epoch: 7, Upload: 42, From: 1000, To: 9000},
		// Small, so that a few batches make several blocks.
		blockBytes: blockBytes,
	}
	for i := range n {
		c.partitions = append(c.partitions, objectfile.Partition{Topic: id(byte(1 + i/3)), Partition: int32(i % 3)})
		offset := r.Int64N(1 << 40)
		var batches []recordbatch.Batch
		for range 1 + r.IntN(8) {
			s := recordbatchtest.Spec{BaseOffset: offset, LeaderEpoch: int32(i)}
			for range 1 + r.IntN(4) {
				s.Records = append(s.Records, recordbatchtest.Record{Timestamp: 1_700_000_000_000 + r.Int64N(1000), Value: []byte(strings.Repeat("v", r.IntN(200)))})
			}
			b := recordbatchtest.Build(s)
			offset = b.NextOffset()
			batches = append(batches, b)
		}
		c.batches = append(c.batches, batches)
	}
	return c
}

func (c content) layout(t testing.TB) *objectfile.Layout {
	t.Helper()
	l, err := objectfile.NewLayout(c.meta, c.blockBytes)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range c.partitions {
		if err := l.Begin(p); err != nil {
			t.Fatal(err)
		}
		for _, b := range c.batches[i] {
			if err := l.Add(objectfile.Describe(b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l
}

// write returns the object and its index.
func (c content) write(t testing.TB) ([]byte, objectfile.Index) {
	t.Helper()
	l := c.layout(t)
	var out bytes.Buffer
	w, err := objectfile.NewWriter(&out, l)
	if err != nil {
		t.Fatal(err)
	}
	for _, batches := range c.batches {
		for _, b := range batches {
			if err := w.Append(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	index, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != l.Size() || index.Size != l.Size() {
		t.Fatalf("%d bytes, planned %d, index says %d", out.Len(), l.Size(), index.Size)
	}
	return out.Bytes(), index
}

func read(object []byte, key string) (objectfile.Index, error) {
	return objectfile.ReadIndex(key, int64(len(object)), func(off, n int64) ([]byte, error) {
		if off < 0 || n < 0 || off > int64(len(object))-n {
			return nil, fmt.Errorf("a read of %d bytes at %d of %d", n, off, len(object))
		}
		return object[off : off+n], nil
	})
}

func TestAnObjectReadsBackAsWritten(t *testing.T) {
	for seed := range uint64(40) {
		c := sample(seed, objectfile.Bundle, 1+int(seed), 300)
		object, wrote := c.write(t)
		got, err := read(object, c.meta.Key())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(got, wrote) || got.Meta != c.meta {
			t.Fatalf("seed %d: read %+v, wrote %+v", seed, got, wrote)
		}
		if m, err := objectfile.ReadHeader(object); err != nil || m != c.meta {
			t.Errorf("seed %d: header says %+v, %v", seed, m, err)
		}
		for i, run := range got.Runs {
			var bytesOfRun []byte
			var records int64
			for _, k := range run.Blocks {
				data := object[k.Position : k.Position+int64(k.Length)]
				if err := objectfile.VerifyBlock(got.Cluster, run.Partition, k, data); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				bytesOfRun = append(bytesOfRun, data...)
			}
			want := c.batches[i]
			for _, b := range want {
				records += int64(b.Count())
			}
			if !bytes.Equal(bytesOfRun, slices.Concat(want...)) || run.Length() != int64(len(bytesOfRun)) || run.Position() != run.Blocks[0].Position {
				t.Errorf("seed %d: run %d has other bytes", seed, i)
			}
			if run.First != want[0].BaseOffset() || run.Last != want[len(want)-1].LastOffset() || run.Records != records || run.LeaderEpoch != int32(i) {
				t.Errorf("seed %d: run %d is %+v", seed, i, run)
			}
		}
	}
}

func TestReaderGivesTheWritersBytesAndServesASecondTry(t *testing.T) {
	c := sample(5, objectfile.Bundle, 7, 300)
	want, index := c.write(t)
	l := c.layout(t)
	for range 2 {
		all := slices.Concat(c.batches...)
		r, err := objectfile.NewReader(l, func() (recordbatch.Batch, error) {
			b := all[0]
			all = all[1:]
			return b, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := r.Index(); ok {
			t.Error("an index before the object was read")
		}
		// TestReader reads in pieces of many sizes and compares.
		if err := iotest.TestReader(onlyReader{r}, want); err != nil {
			t.Fatal(err)
		}
		if got, ok := r.Index(); !ok || !reflect.DeepEqual(got, index) {
			t.Errorf("index %t %+v, want %+v", ok, got, index)
		}
	}
}

type onlyReader struct{ io.Reader }

func TestReaderPassesItsSourcesErrorOn(t *testing.T) {
	broken := errors.New("broken")
	for in, want := range map[error]error{broken: broken, io.EOF: io.ErrUnexpectedEOF} {
		r, err := objectfile.NewReader(sample(1, objectfile.Segment, 1, 0).layout(t), func() (recordbatch.Batch, error) { return nil, in })
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != want || int64(len(got)) != objectfile.HeaderSize {
			t.Errorf("source ends with %v: %d bytes, %v", in, len(got), err)
		}
	}
}

func TestWriterRefusesWhatWasNotPlanned(t *testing.T) {
	c := sample(2, objectfile.Segment, 1, 300)
	for len(c.batches[0]) < 3 {
		c = sample(2+uint64(len(c.batches[0])), objectfile.Segment, 1, 300)
	}
	batches := c.batches[0]
	bigger := recordbatchtest.Build(recordbatchtest.Spec{BaseOffset: batches[0].BaseOffset(), Records: []recordbatchtest.Record{{Value: make([]byte, 5000)}}})
	for name, feed := range map[string][]recordbatch.Batch{
		"skipped":    batches[1:],
		"repeated":   {batches[0], batches[0]},
		"other":      {bigger},
		"cut":        {batches[0][:70]},
		"too few":    batches[:len(batches)-1],
		"one more":   append(slices.Clone(batches), batches[0]),
		"none":       nil,
		"misordered": {batches[1], batches[0]},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := objectfile.NewWriter(io.Discard, c.layout(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range feed {
				_ = w.Append(b) // an error sticks
			}
			if _, err := w.Finish(); err == nil {
				t.Error("finished")
			}
		})
	}
}

func TestLayoutRefusesWhatIsNoObject(t *testing.T) {
	one := objectfile.Batch{Size: 100, First: 5, Last: 6, Records: 2}
	a, b := objectfile.Partition{Topic: id(1)}, objectfile.Partition{Topic: id(1), Partition: 1}
	for name, build := range map[string]func(l *objectfile.Layout) error{
		"batch without partition": func(l *objectfile.Layout) error { return l.Add(one) },
		"partitions out of order": func(l *objectfile.Layout) error { return errors.Join(l.Begin(b), l.Add(one), l.Begin(a)) },
		"partition twice":         func(l *objectfile.Layout) error { return errors.Join(l.Begin(a), l.Add(one), l.Begin(a)) },
		"empty partition":         func(l *objectfile.Layout) error { return errors.Join(l.Begin(a), l.Begin(b)) },
		"negative partition":      func(l *objectfile.Layout) error { return l.Begin(objectfile.Partition{Partition: -1}) },
		"gap in offsets": func(l *objectfile.Layout) error {
			return errors.Join(l.Begin(a), l.Add(one), l.Add(objectfile.Batch{Size: 1, First: 8, Last: 8, Records: 1}))
		},
		"no bytes":   func(l *objectfile.Layout) error { return errors.Join(l.Begin(a), l.Add(objectfile.Batch{Records: 1})) },
		"no records": func(l *objectfile.Layout) error { return errors.Join(l.Begin(a), l.Add(objectfile.Batch{Size: 1})) },
		"many records": func(l *objectfile.Layout) error {
			return errors.Join(l.Begin(a), l.Add(objectfile.Batch{Size: 1, Records: 2}))
		},
		"nothing": func(l *objectfile.Layout) error {
			_, err := objectfile.NewWriter(io.Discard, l)
			return err
		},
		"last partition empty": func(l *objectfile.Layout) error {
			if err := l.Begin(a); err != nil {
				t.Fatal(err)
			}
			_, err := objectfile.NewWriter(io.Discard, l)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := objectfile.NewLayout(objectfile.Meta{Kind: objectfile.Bundle}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if build(l) == nil {
				t.Error("taken")
			}
		})
	}
	l, err := objectfile.NewLayout(objectfile.Meta{Kind: objectfile.Segment}, 0)
	if err := errors.Join(err, l.Begin(a), l.Add(one)); err != nil {
		t.Fatal(err)
	}
	if l.Begin(b) == nil {
		t.Error("a segment took a second partition")
	}
	for _, m := range []objectfile.Meta{{}, {Kind: 3}, {Kind: objectfile.Bundle, From: 2, To: 1}} {
		if _, err := objectfile.NewLayout(m, 0); err == nil {
			t.Errorf("%+v: taken", m)
		}
	}
}

func TestABlockHoldsItsTargetOrOneBatch(t *testing.T) {
	l, err := objectfile.NewLayout(objectfile.Meta{Kind: objectfile.Segment}, 1000)
	if err := errors.Join(err, l.Begin(objectfile.Partition{})); err != nil {
		t.Fatal(err)
	}
	var batches []recordbatch.Batch
	offset := int64(0)
	for _, size := range []int{300, 300, 300, 300, 5000, 10} {
		b := recordbatchtest.Build(recordbatchtest.Spec{BaseOffset: offset, Records: []recordbatchtest.Record{{Value: make([]byte, size)}}})
		offset = b.NextOffset()
		batches = append(batches, b)
		if err := l.Add(objectfile.Describe(b)); err != nil {
			t.Fatal(err)
		}
	}
	w, err := objectfile.NewWriter(io.Discard, l)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	index, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, k := range index.Runs[0].Blocks {
		got = append(got, k.Last-k.First+1)
	}
	if !slices.Equal(got, []int64{2, 2, 1, 1}) {
		t.Errorf("batches in blocks: %d", got)
	}
}

func TestKeys(t *testing.T) {
	m := objectfile.Meta{Kind: objectfile.Segment, Ordinal: 12345, Cluster: id(0xc1), WAL: id(0xa1), Epoch: 1 << 63, Upload: 42}
	for _, want := range []objectfile.Meta{m, {Kind: objectfile.Bundle}} {
		if got, ok := objectfile.ParseKey(want.Key()); !ok || got != want {
			t.Errorf("%s: %t, %+v", want.Key(), ok, got)
		}
	}
	key := m.Key()
	if !strings.HasSuffix(key, "/"+strings.Repeat("c1", 16)+"/"+strings.Repeat("a1", 16)+"/8000000000000000-000000000000002a-12345.segment") {
		t.Errorf("key %s", key)
	}
	for _, bad := range []string{
		"", key + "x", "x" + key, key[3:], strings.ToUpper(key), strings.Replace(key, "segment", "bundle", 1),
		strings.Replace(key, "-12345", "-012345", 1), strings.Replace(key, "-12345", "--12345", 1), strings.Replace(key, ".segment", "", 1),
	} {
		if m, ok := objectfile.ParseKey(bad); ok {
			t.Errorf("%q: %+v", bad, m)
		}
	}
}

func TestGoldenObjectsAreWrittenAndReadTheSame(t *testing.T) {
	for name, c := range map[string]content{
		"v1.bundle":  sample(1, objectfile.Bundle, 4, 300),
		"v1.segment": sample(2, objectfile.Segment, 1, 300),
	} {
		path := filepath.Join("testdata", name)
		object, wrote := c.write(t)
		if *update {
			if err := os.WriteFile(path, object, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(object, golden) {
			t.Errorf("%s is written differently now", name)
		}
		if got, err := read(golden, c.meta.Key()); err != nil || !reflect.DeepEqual(got, wrote) {
			t.Errorf("%s is read differently now: %v", name, err)
		}
	}
}

package objectfile_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/headpond/headpond/internal/objectfile"
)

func TestEveryFlippedBitIsFound(t *testing.T) {
	c := sample(9, objectfile.Bundle, 3, 300)
	object, index := c.write(t)
	for at := range object {
		bad := bytes.Clone(object)
		bad[at] ^= 1 << (at % 8)
		_, headerErr := objectfile.ReadHeader(bad)
		got, err := read(bad, c.meta.Key())
		if err == nil {
			for _, run := range index.Runs {
				for _, k := range run.Blocks {
					err = errors.Join(err, objectfile.VerifyBlock(got.Cluster, run.Partition, k, bad[k.Position:k.Position+int64(k.Length)]))
				}
			}
		}
		var where *objectfile.CorruptError
		if !errors.As(errors.Join(headerErr, err), &where) {
			t.Errorf("byte %d flipped: header %v, rest %v", at, headerErr, err)
		} else if where.Offset > int64(at) {
			t.Errorf("byte %d flipped, found at %d", at, where.Offset)
		}
	}
}

func TestEveryCutIsFound(t *testing.T) {
	c := sample(9, objectfile.Bundle, 3, 300)
	object, _ := c.write(t)
	var where *objectfile.CorruptError
	for n := range object {
		if _, err := read(object[:n], c.meta.Key()); !errors.As(err, &where) {
			t.Fatalf("cut to %d of %d: %v", n, len(object), err)
		}
		if _, err := read(slices.Delete(bytes.Clone(object), n, n+1), c.meta.Key()); !errors.As(err, &where) {
			t.Fatalf("without byte %d of %d: %v", n, len(object), err)
		}
	}
}

func TestABlockOfAnotherPlaceIsFound(t *testing.T) {
	c := sample(9, objectfile.Segment, 1, 0)
	object, index := c.write(t)
	run := index.Runs[0]
	k := run.Blocks[0]
	data := object[k.Position : k.Position+int64(k.Length)]
	other, moved := run.Partition, k
	other.Partition++
	moved.First++
	elsewhere := run.Partition
	elsewhere.Topic = id(0xee)
	for name, err := range map[string]error{
		"cluster":   objectfile.VerifyBlock(id(0xee), run.Partition, k, data),
		"partition": objectfile.VerifyBlock(index.Cluster, other, k, data),
		"topic":     objectfile.VerifyBlock(index.Cluster, elsewhere, k, data),
		"offset":    objectfile.VerifyBlock(index.Cluster, run.Partition, moved, data),
		"length":    objectfile.VerifyBlock(index.Cluster, run.Partition, k, data[1:]),
	} {
		var where *objectfile.CorruptError
		if !errors.As(err, &where) || where.Offset != k.Position {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestAnObjectUnderAnothersNameIsFound(t *testing.T) {
	c := sample(9, objectfile.Segment, 1, 0)
	object, _ := c.write(t)
	other := c.meta
	other.Upload++
	var where *objectfile.CorruptError
	if _, err := read(object, other.Key()); !errors.As(err, &where) {
		t.Errorf("read as %s: %v", other.Key(), err)
	}
}

func TestALongIndexTakesASecondRead(t *testing.T) {
	c := sample(3, objectfile.Bundle, 700, 300)
	object, wrote := c.write(t)
	reads := 0
	got, err := objectfile.ReadIndex(c.meta.Key(), int64(len(object)), func(off, n int64) ([]byte, error) {
		reads++
		return object[off : off+n], nil
	})
	if err != nil || reads != 2 || !reflect.DeepEqual(got, wrote) {
		t.Errorf("%d reads, %v", reads, err)
	}
	broken := errors.New("broken")
	if _, err := objectfile.ReadIndex(c.meta.Key(), 1000, func(int64, int64) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("the fetch failed: %v", err)
	}
}

func FuzzReadIndex(f *testing.F) {
	for seed := range uint64(3) {
		object, _ := sample(seed, objectfile.Bundle, 1+int(seed), 300).write(f)
		f.Add(object)
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		object = bytes.Clone(object)
		objectfile.Reseal(object) // a fuzzer does not guess checksums
		if _, err := objectfile.ReadHeader(object); err != nil {
			_ = err.Error()
		}
		key := objectfile.FooterKey(object)
		index, err := read(object, key)
		if err != nil {
			return
		}
		end := objectfile.HeaderSize
		for _, r := range index.Runs {
			if r.Position() != end || r.Length() <= 0 {
				t.Fatalf("run at %d of %d bytes, the one before ended at %d", r.Position(), r.Length(), end)
			}
			end += r.Length()
		}
		if end >= index.Size {
			t.Fatalf("runs end at %d of %d", end, index.Size)
		}
	})
}

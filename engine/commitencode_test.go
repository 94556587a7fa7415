package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/headpond/headpond/engine"
)

var writeGolden = flag.Bool("write-golden", false, "write the golden files of new format versions")

// sampleCommit has every section, and every kind of value in each.
func sampleCommit() *engine.Commit {
	topic := engine.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	p0, p1 := engine.PartitionID{Topic: topic}, engine.PartitionID{Topic: topic, Partition: math.MaxInt32}
	return &engine.Commit{
		Seq: 7, Prev: 0xdeadbeef, WAL: engine.ID{0xaa, 0xbb}, Epoch: 3, Through: 1 << 40,
		Added: []engine.Object{
			{Name: "0f/c/w/1-2-3.bundle", Size: 1 << 33, Runs: []engine.Run{
				{
					PartitionID: p0, FirstOffset: 0, LastOffset: 9, MaxTimestamp: 1700000000000, Object: "0f/c/w/1-2-3.bundle",
					Blocks: []engine.Block{
						{Pos: 64, Len: 100, FirstOffset: 0, LastOffset: 4, MaxTimestamp: -1, Sum: 1},
						{Pos: 164, Len: 200, FirstOffset: 5, LastOffset: 9, MaxTimestamp: 1700000000000, Sum: math.MaxUint32},
					},
				},
				{
					PartitionID: p1, FirstOffset: math.MaxInt64 - 1, LastOffset: math.MaxInt64, MaxTimestamp: -1, Object: "0f/c/w/1-2-3.bundle",
					Blocks: []engine.Block{{Pos: 1 << 32, Len: math.MaxInt32, FirstOffset: math.MaxInt64 - 1, LastOffset: math.MaxInt64, MaxTimestamp: -1}},
				},
			}},
			{Name: "empty"},
		},
		Deleted:   []string{"00/gone.bundle", "01/gone.segment"},
		LogStarts: []engine.LogStart{{PartitionID: p0, Offset: 5}},
		Dropped:   []engine.PartitionID{p1},
		Producers: []engine.ProducerSnapshot{{PartitionID: p0, Offset: 10, State: []byte("state")}, {PartitionID: p1, Offset: 0}},
		Epochs:    []engine.EpochStart{{PartitionID: p0, Epoch: 4, Offset: 10}},
		Meta: []engine.MetaChange{
			{Key: "topic/a", Rev: 7, Value: []byte("{}")},
			{Key: "topic/b", Rev: 7, Value: []byte{}},
			{Key: "topic/c", Rev: 7},
		},
	}
}

func TestCommitSurvivesEncoding(t *testing.T) {
	for name, c := range map[string]*engine.Commit{
		"every section": sampleCommit(),
		"no section":    {Seq: 1},
		"metadata only": {Seq: 2, Prev: 9, Meta: []engine.MetaChange{{Key: "k", Rev: 2, Value: []byte("v")}}},
	} {
		prefix := []byte("before")
		encoded := c.AppendTo(prefix)[len(prefix):]
		got, err := engine.DecodeCommit(encoded)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, c) {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, c)
		}
		if sum := engine.CommitSum(encoded); sum != c.Sum() || sum != binary.LittleEndian.Uint32(encoded[len(encoded)-4:]) {
			t.Errorf("%s: sum of encoding %08x, of commit %08x, stored %08x", name, sum, c.Sum(), encoded[len(encoded)-4:])
		}
	}
}

// The residue of a CRC over data that end in their own CRC is a constant: a chain of such sums would link anything.
func TestCommitSumTellsCommitsApart(t *testing.T) {
	a, b := &engine.Commit{Seq: 1}, &engine.Commit{Seq: 2}
	if a.Sum() == b.Sum() {
		t.Errorf("both sums are %08x", a.Sum())
	}
}

func TestCommitEncodingIsTheGoldenOne(t *testing.T) {
	path := filepath.Join("testdata", "commit-v1.golden")
	got := sampleCommit().AppendTo(nil)
	if *writeGolden {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the encoding of version 1 changed:\n%x, want\n%x", got, want)
	}
	c, err := engine.DecodeCommit(want)
	if err != nil || !reflect.DeepEqual(c, sampleCommit()) {
		t.Errorf("golden file reads as %+v, %v", c, err)
	}
}

func TestDamagedCommitIsFoundOut(t *testing.T) {
	encoded := sampleCommit().AppendTo(nil)
	for i := range encoded {
		for bit := range 8 {
			b := bytes.Clone(encoded)
			b[i] ^= 1 << bit
			if _, err := engine.DecodeCommit(b); !errors.Is(err, engine.ErrCorrupt) {
				t.Fatalf("bit %d of byte %d flipped: %v, want ErrCorrupt", bit, i, err)
			}
		}
	}
	for n := range encoded {
		if _, err := engine.DecodeCommit(encoded[:n]); !errors.Is(err, engine.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
}

// resum gives altered bytes a matching checksum, as a writer with a fault or of another version would.
func resum(b []byte) []byte {
	end := len(b) - 4
	return binary.LittleEndian.AppendUint32(b[:end:end], crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)))
}

func TestCommitOfNewerProgramIsRefusedByName(t *testing.T) {
	version := sampleCommit().AppendTo(nil)
	version[4] = 2
	section := (&engine.Commit{Seq: 1, Deleted: []string{"x"}}).AppendTo(nil)
	section[56] = 99
	for name, b := range map[string][]byte{"version 2": version, "section 99": section} {
		_, err := engine.DecodeCommit(resum(b))
		if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want ErrInvalid that names it", name, err)
		}
	}
}

func TestCommitThatLiesIsCorruptAndAllocatesLittle(t *testing.T) {
	base := (&engine.Commit{Seq: 1, Deleted: []string{"name"}}).AppendTo(nil)
	for name, at := range map[string]int{"section length": 64, "element count": 60, "string length": 72, "section count": 6, "reserved": 20} {
		b := bytes.Clone(base)
		b[at+1] = 0xff
		b = resum(b)
		if _, err := engine.DecodeCommit(b); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		if n := testing.AllocsPerRun(10, func() { _, _ = engine.DecodeCommit(b) }); n > 20 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestDecodedCommitSharesNoMemoryWithInput(t *testing.T) {
	encoded := sampleCommit().AppendTo(nil)
	c, err := engine.DecodeCommit(encoded)
	if err != nil {
		t.Fatal(err)
	}
	for i := range encoded {
		encoded[i] = 0xee
	}
	if !reflect.DeepEqual(c, sampleCommit()) {
		t.Error("overwriting the input changed the commit")
	}
}

func FuzzDecodeCommit(f *testing.F) {
	f.Add(sampleCommit().AppendTo(nil))
	f.Add((&engine.Commit{Seq: 1}).AppendTo(nil))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := sampleCommit().AppendTo(nil)
		b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		b = resum(b) // else nothing but the checksum would be tried
		c, err := engine.DecodeCommit(b)
		if err != nil {
			if !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrInvalid) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if again := c.AppendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("read and written again:\n%x, was\n%x", again, b)
		}
	})
}

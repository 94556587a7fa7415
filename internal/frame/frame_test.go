package frame_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
)

var update = flag.Bool("update", false, "write the golden file")

func build(kind frame.Kind, sector int, records ...string) (frame.Header, []byte) {
	var b frame.Builder
	for _, r := range records {
		b.Add([][]byte{[]byte(r[:len(r)/2]), nil, []byte(r[len(r)/2:])}, len(r))
	}
	h := frame.Header{
		Kind: kind, WAL: engine.ID{1, 2, 3, 0xfe}, Epoch: 7, Sequence: 1 << 40, Lap: 9, Place: 81920,
		First: 1000, Mark: 900, Trim: 500, Previous: 0xdeadbeef,
	}
	out := b.Seal(&h, sector)
	return h, out
}

func TestFrameComesBack(t *testing.T) {
	for _, records := range [][]string{nil, {""}, {"a"}, {"one", "", "three"}, {string(make([]byte, 100_000)), "end"}} {
		kind := frame.Records
		if records == nil {
			kind = frame.Owner
		}
		for _, sector := range []int{512, 4096} {
			want, b := build(kind, sector, records...)
			if len(b)%sector != 0 || len(b) != want.Size(sector) {
				t.Fatalf("%d bytes for %q", len(b), records)
			}
			h, err := frame.Parse(b)
			if err != nil || h != want {
				t.Fatalf("parsed %+v, %v; want %+v", h, err, want)
			}
			if err := h.Verify(append(b, "what follows"...), sector); err != nil {
				t.Fatal(err)
			}
			at, n := h.First, 0
			h.Each(b, func(p engine.Position, r []byte) bool {
				at += engine.Position(frame.RecordHeader + len(records[n]))
				if p != at || string(r) != records[n] {
					t.Fatalf("record %d: %q at %d", n, r, p)
				}
				n++
				return true
			})
			if n != len(records) || at != h.End() {
				t.Fatalf("%d records up to %d", n, at)
			}
		}
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	want, b := build(frame.Records, 512, "some record", "", "and another")
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			h, err := frame.Parse(b)
			if err == nil {
				err = h.Verify(b, 512)
			}
			if err == nil {
				t.Fatalf("flip of bit %d of byte %d is not found", bit, i)
			}
			b[i] ^= 1 << bit
		}
	}
	if h, err := frame.Parse(b); err != nil || h != want {
		t.Fatal(err)
	}
}

func TestTornFrameIsNotIntact(t *testing.T) {
	_, b := build(frame.Records, 4096, string(bytes.Repeat([]byte("x"), 9000)))
	for cut := 512; cut < 104+4+9000; cut += 512 {
		torn := append(bytes.Clone(b[:cut]), make([]byte, len(b)-cut)...)
		h, err := frame.Parse(torn)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Verify(torn, 4096); !errors.Is(err, frame.ErrChecksum) {
			t.Errorf("torn at %d: %v", cut, err)
		}
		if err := h.Verify(b[:cut], 4096); !errors.Is(err, frame.ErrShort) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

func TestOldBytesInPaddingAreFound(t *testing.T) {
	h, b := build(frame.Records, 4096, "short")
	b[4000] = 'x'
	if err := h.Verify(b, 4096); !errors.Is(err, frame.ErrPadding) {
		t.Error(err)
	}
}

func TestBuilderIsReusedWithoutTraces(t *testing.T) {
	var b frame.Builder
	b.Grow(8192, 4096, 512)
	b.Add([][]byte{bytes.Repeat([]byte("secret"), 1000)}, 6000)
	b.Seal(&frame.Header{Kind: frame.Records}, 512)
	b.Reset()
	b.Add([][]byte{[]byte("x")}, 1)
	h := frame.Header{Kind: frame.Records}
	out := b.Seal(&h, 512)
	if len(out) != 512 || bytes.Contains(out, []byte("secret")) {
		t.Errorf("%d bytes: %q", len(out), out)
	}
	if err := h.Verify(out, 512); err != nil {
		t.Error(err)
	}
}

// The golden file owns the format of version 1: it must be read for ever.
func TestGoldenFrame(t *testing.T) {
	want, b := build(frame.Records, 512, "first record", "", "third")
	const name = "testdata/frame-v1.hex"
	if *update {
		if err := os.WriteFile(name, []byte(hex.Dump(b)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != hex.Dump(b) {
		t.Errorf("the format has changed:\n%s", hex.Dump(b))
	}
	if h, err := frame.Parse(b); err != nil || h != want {
		t.Error(err)
	}
}

func TestLaterVersionIsNamed(t *testing.T) {
	_, b := build(frame.Owner, 512)
	b[8] = 2
	if _, err := frame.Parse(b); !errors.Is(err, frame.ErrVersion) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, records := range [][]string{nil, {""}, {"one", "two"}} {
		kind := frame.Records
		if records == nil {
			kind = frame.Closing
		}
		_, b := build(kind, 512, records...)
		f.Add(b)
		f.Add(b[:frame.HeaderSize])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := frame.Parse(b)
		if err != nil {
			return
		}
		if h.Payload > frame.MaxPayload || h.Size(512) < frame.HeaderSize {
			t.Fatalf("unbounded: %+v", h)
		}
		if h.Verify(b, 512) != nil {
			return
		}
		n := 0
		h.Each(b, func(p engine.Position, r []byte) bool {
			n++
			if p > h.End() {
				t.Fatalf("record at %d in %+v", p, h)
			}
			return true
		})
		if n != int(h.Records) {
			t.Fatalf("%d records in %+v", n, h)
		}
	})
}

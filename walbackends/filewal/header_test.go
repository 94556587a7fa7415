package filewal

import (
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/headpond/headpond/engine"
)

var update = flag.Bool("update", false, "write the golden files")

// The golden file owns the format of version 1: it must be read for ever.
func TestGoldenHeader(t *testing.T) {
	want := header{id: engine.ID{1, 2, 3, 0xfe}, segment: 64 << 20, slots: 17}
	b := want.encode()
	const name = "testdata/header-v1.hex"
	if *update {
		if err := os.WriteFile(name, []byte(hex.Dump(b[:headerLength])), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != hex.Dump(b[:headerLength]) {
		t.Errorf("the format has changed:\n%s", hex.Dump(b[:headerLength]))
	}
	for _, half := range [][]byte{b[:headerCopy], b[headerCopy:]} {
		if h, err := decodeHeader(half); err != nil || h != want {
			t.Errorf("%+v, %v", h, err)
		}
	}
	b[8] = 2
	if _, err := decodeHeader(b); !errors.Is(err, errHeaderCopy) {
		t.Errorf("a version that the checksum does not cover: %v", err)
	}
}

func FuzzDecodeHeader(f *testing.F) {
	f.Add(header{segment: minSegment, slots: 4}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHeader(b); err == nil && (h.segment < minSegment || h.slots < 1 || h.slots > 1<<20) {
			t.Fatalf("%+v", h)
		}
	})
}

package producerstate_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/headpond/headpond/internal/producerstate"
)

var writeGolden = flag.Bool("write-golden", false, "write the golden files of new format versions")

func sample() *producerstate.Table {
	t := producerstate.New(0)
	for i := range int32(7) {
		t.Append(1, 3, i*10, 10, 1000+int64(i)*10, 1700000000000+int64(i))
	}
	t.Append(math.MaxInt64, math.MaxInt16, math.MaxInt32, 2, 1<<40, -1)
	t.Append(0, 0, 0, 1, 1<<40+2, math.MaxInt64)
	return t
}

func TestEncodingIsTheGoldenOne(t *testing.T) {
	path := filepath.Join("testdata", "producerstate-v1.golden")
	got := sample().AppendTo(nil)
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
	table, err := producerstate.Decode(want, 0)
	if err != nil {
		t.Fatal(err)
	}
	if table.Len() != 3 || !bytes.Equal(table.AppendTo(nil), want) {
		t.Error("the golden file reads as another state")
	}
}

func TestEmptyTableIsNoBytes(t *testing.T) {
	if b := producerstate.New(0).AppendTo(nil); len(b) != 0 {
		t.Errorf("%x", b)
	}
	if table, err := producerstate.Decode(nil, 0); err != nil || table.Len() != 0 {
		t.Errorf("%v", err)
	}
}

func TestDecodeKeepsTheLastProducersUnderTheCap(t *testing.T) {
	table, err := producerstate.Decode(sample().AppendTo(nil), 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Check(1, 0, 0, 1); err != nil || table.Len() != 2 {
		t.Errorf("%d producers, producer 1: %v; want it forgotten", table.Len(), err)
	}
}

func TestDecodeRefusesWhatIsNotAState(t *testing.T) {
	good := sample().AppendTo(nil)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for name, b := range map[string][]byte{
		"cut in the header":    good[:5],
		"cut in a batch":       good[:len(good)-1],
		"byte left over":       append(bytes.Clone(good), 0),
		"too many producers":   change(7, 0xff),
		"too few producers":    change(4, 2),
		"no producer":          change(4, 0),
		"reserved bytes":       change(2, 1),
		"negative producer id": change(8+7, 0x80),
		"negative epoch":       change(8+9, 0x80),
		"six batches":          change(8+10, 6),
		"no batch":             change(8+10, 0),
		"negative sequence":    change(8+12+3, 0x80),
		"negative count":       change(8+12+7, 0x80),
		"offsets going back":   change(8+12+8+2, 1),
	} {
		if _, err := producerstate.Decode(b, 0); !errors.Is(err, producerstate.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	if _, err := producerstate.Decode(change(0, 2), 0); !errors.Is(err, producerstate.ErrVersion) {
		t.Errorf("version 2: %v, want ErrVersion", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample().AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := producerstate.Decode(b, math.MaxInt32)
		if err != nil {
			if !errors.Is(err, producerstate.ErrCorrupt) && !errors.Is(err, producerstate.ErrVersion) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if again := table.AppendTo(nil); !bytes.Equal(again, b) && !(len(b) == 0 && len(again) == 0) {
			t.Fatalf("read and written again:\n%x, was\n%x", again, b)
		}
	})
}

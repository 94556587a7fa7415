package disk

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func content(d *data) []byte {
	p := make([]byte, d.size)
	d.read(p, 0)
	return p
}

func TestContentIsWhatWasWritten(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var d data
		var now, durable []byte // models of the content, and of what survives with keep 0
		grow := func(b []byte, n int) []byte { return append(b, make([]byte, max(0, n-len(b)))...) }
		for range 100 {
			off, n := rng.IntN(3*blockSize), rng.IntN(2*blockSize)
			p := make([]byte, n)
			if rng.IntN(4) > 0 {
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
			}
			switch rng.IntN(6) {
			case 0, 1:
				d.write(p, int64(off), false)
				now = grow(now, off+n)
				copy(now[off:], p)
			case 2:
				d.sync()
				durable = bytes.Clone(now)
			case 3:
				d.truncate(int64(off))
				now = grow(now[:min(off, len(now))], off)
			case 4:
				d.zero(int64(off), int64(n))
				if off < len(now) {
					clear(now[off:min(len(now), off+n)])
				}
			case 5:
				if rng.IntN(3) == 0 {
					d.lose(rng, 0)
					now = bytes.Clone(durable)
				}
			}
			if !bytes.Equal(content(&d), now) {
				t.Fatal("content differs from the model")
			}
		}
	}
}

func TestDurableWritesSurviveAmongOthersThatDoNot(t *testing.T) {
	var d data
	d.write(bytes.Repeat([]byte{1}, blockSize), 0, false)
	d.sync()
	d.write(bytes.Repeat([]byte{2}, 100), 0, false)
	d.write(bytes.Repeat([]byte{3}, 100), 200, true)
	d.write(bytes.Repeat([]byte{4}, 100), blockSize, true)
	d.lose(rand.New(rand.NewPCG(1, 1)), 0)
	want := bytes.Repeat([]byte{1}, blockSize+100)
	copy(want[200:], bytes.Repeat([]byte{3}, 100))
	copy(want[blockSize:], bytes.Repeat([]byte{4}, 100))
	if !bytes.Equal(content(&d), want) {
		t.Fatalf("got %v", content(&d))
	}
}

func TestUnsyncedSectorsTearIndependently(t *testing.T) {
	outcomes := map[string]bool{}
	for seed := range uint64(100) {
		var d data
		d.write(bytes.Repeat([]byte{1}, 2*sectorSize), 0, false)
		d.sync()
		d.write(bytes.Repeat([]byte{2}, 2*sectorSize), 0, false)
		d.lose(rand.New(rand.NewPCG(seed, 0)), 0.5)
		got := content(&d)
		for s := range 2 {
			if sector := got[s*sectorSize:][:sectorSize]; bytes.Count(sector, sector[:1]) != sectorSize {
				t.Fatal("a sector is torn")
			}
		}
		outcomes[string([]byte{got[0], got[sectorSize]})] = true
	}
	if len(outcomes) != 4 {
		t.Fatalf("%d of 4 combinations seen", len(outcomes))
	}
}

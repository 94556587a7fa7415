package size

import (
	"math/rand/v2"
	"testing"
)

func TestSizesAreReadExactly(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "512": 512, "7B": 7, "2GiB": 2 * GiB, "125MB": 125 * MB, "1.5GiB": 3 * GiB / 2, "0.125KiB": 128,
		"1.25KB": 1250, " 64 mib ": 64 * MiB, "1kb": KB, "8589934590GiB": 8589934590 * GiB,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is read as %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestWhatIsNoSizeIsRefusedInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                           `"" is not a size: it begins with no number`,
		"GiB":                        `"GiB" is not a size: it begins with no number`,
		"12Q":                        `"12Q" is not a size: write a number and KiB, MiB, GiB, KB, MB or GB`,
		"-1KiB":                      `"-1KiB" is not a size: write a number and KiB, MiB, GiB, KB, MB or GB`,
		"1.GiB":                      `"1.GiB" is not a size: it begins with no number`,
		"1.2.3MB":                    `"1.2.3MB" is not a size: it begins with no number`,
		"0.3KiB":                     `"0.3KiB" is not a whole number of bytes`,
		"0.1":                        `"0.1" is not a whole number of bytes`,
		"8589934592GiB":              `"8589934592GiB" is larger than any size`,
		"99999999999999999999999999": `"99999999999999999999999999" is larger than any size`,
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestWrittenSizesReadBackTheSame(t *testing.T) {
	for text, s := range map[string]Size{"0": 0, "2GiB": 2 * GiB, "1536MiB": 3 * GiB / 2, "125MB": 125 * MB, "7B": 7} {
		if s.String() != text {
			t.Errorf("%d is written %s, want %s", int64(s), s, text)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		s := Size(r.Int64N(1<<62) >> r.IntN(62))
		if got, err := Parse(s.String()); err != nil || got != s {
			t.Fatalf("%d is written %s and read as %d, %v", int64(s), s, got, err)
		}
	}
}

// Package size reads and writes sizes in bytes as people write them: 2GiB, 64MiB, 125MB, 512.
package size

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Size is a number of bytes, never negative.
type Size int64

// The units that sizes are written in.
const (
	KB  Size = 1000
	MB  Size = 1000 * KB
	GB  Size = 1000 * MB
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// units are tried in this order when a size is written: the largest binary unit that divides it.
var units = []struct {
	name string
	size Size
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"GB", GB}, {"MB", MB}, {"KB", KB}, {"B", 1}, {"", 1}}

// Parse reads a number and a unit: KiB, MiB, GiB (powers of 1024), KB, MB, GB (powers of 1000), B or none for bytes.
// The number may have a fraction where the result is whole bytes: 1.5GiB. Letters may be of either case.
func Parse(s string) (Size, error) {
	text := strings.TrimSpace(s)
	cut := len(text) - len(strings.TrimLeft(text, "0123456789."))
	number, unit := text[:cut], strings.TrimSpace(text[cut:])
	for _, u := range units {
		if !strings.EqualFold(u.name, unit) {
			continue
		}
		n, err := multiply(number, u.size)
		if err != nil {
			return 0, fmt.Errorf("%q %w", s, err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("%q is not a size: write a number and KiB, MiB, GiB, KB, MB or GB", s)
}

// multiply reads digits with at most one point and multiplies exactly.
func multiply(number string, unit Size) (Size, error) {
	whole, fraction, point := strings.Cut(number, ".")
	if whole == "" || point && fraction == "" || strings.Contains(fraction, ".") {
		return 0, errors.New("is not a size: it begins with no number")
	}
	var n Size
	for _, d := range []byte(whole) {
		if n > (math.MaxInt64-9)/10 {
			return 0, errTooLarge
		}
		n = n*10 + Size(d-'0')
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > 9 {
		return 0, errNotWhole
	}
	var part, scale Size = 0, 1
	for _, d := range []byte(fraction) {
		part, scale = part*10+Size(d-'0'), scale*10
	}
	// part is below 1e9 and unit at most 2^30, so that their product fits.
	if part*unit%scale != 0 {
		return 0, errNotWhole
	}
	if n > (math.MaxInt64-unit)/unit {
		return 0, errTooLarge
	}
	return n*unit + part*unit/scale, nil
}

var (
	errTooLarge = errors.New("is larger than any size")
	errNotWhole = errors.New("is not a whole number of bytes")
)

// String writes the size exactly, in the largest unit that divides it.
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	for _, u := range units {
		if s%u.size == 0 {
			return fmt.Sprintf("%d%s", s/u.size, u.name)
		}
	}
	return fmt.Sprint(int64(s))
}

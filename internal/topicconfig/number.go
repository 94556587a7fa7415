package topicconfig

import (
	"fmt"
	"math"
	"strings"
)

// parseInt reads a decimal number of 64 bits. Errors are for people: they say what is wrong with the text.
func parseInt(value string) (int64, error) {
	digits, negative := strings.CutPrefix(value, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a whole number", value)
	}
	var n uint64
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	for _, d := range []byte(digits) {
		digit := uint64(d - '0')
		if n > (limit-digit)/10 {
			return 0, fmt.Errorf("%s does not fit in 64 bits", value)
		}
		n = n*10 + digit
	}
	if negative {
		return -int64(n), nil
	}
	return int64(n), nil
}

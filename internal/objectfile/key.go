package objectfile

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Key is the object's name.
func (m Meta) Key() string {
	rest := fmt.Sprintf("%x/%x/%016x-%016x-%04d.%s", m.Cluster, m.WAL, m.Epoch, m.Upload, m.Ordinal, m.Kind)
	return fmt.Sprintf("%02x/%s", byte(crc32.Checksum([]byte(rest), castagnoli)), rest)
}

// ParseKey returns what a name says: all of Meta but the range of the log. ok is false for a name that [Meta.Key]
// would not give, such as a foreign object's.
func ParseKey(key string) (m Meta, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 {
		return Meta{}, false
	}
	name, kind, _ := strings.Cut(parts[3], ".")
	for _, k := range []Kind{Bundle, Segment} {
		if kind == k.String() {
			m.Kind = k
		}
	}
	numbers := strings.Split(name, "-")
	if m.Kind == 0 || len(numbers) != 3 || !parseID(&m.Cluster, parts[1]) || !parseID(&m.WAL, parts[2]) {
		return Meta{}, false
	}
	var errs [3]error
	var ordinal uint64
	m.Epoch, errs[0] = strconv.ParseUint(numbers[0], 16, 64)
	m.Upload, errs[1] = strconv.ParseUint(numbers[1], 16, 64)
	ordinal, errs[2] = strconv.ParseUint(numbers[2], 10, 32)
	m.Ordinal = uint32(ordinal)
	// The last comparison settles the rest: hash, case, leading zeros.
	if errs != [3]error{} || m.Key() != key {
		return Meta{}, false
	}
	return m, true
}

func parseID(id *ID, s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && copy(id[:], b) == len(id) && len(b) == len(id)
}

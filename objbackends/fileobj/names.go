package fileobj

import (
	"path/filepath"
	"strings"

	"github.com/headpond/headpond/internal/objectrules"
)

const (
	objectMark = "@" // ends the file of an object
	splitMark  = "~" // ends a directory that holds the beginning of an element only
	elementMax = 200 // bytes of a file name, without marks: file systems take 255
)

// encode gives the file of an object, relative to the root. Elements longer than elementMax become several
// directories, of which the last has the full length, so that it is never "." or "..":
//
//	a/b          a/b@
//	<450 x>/b    <50 x>~/<200 x>~/<200 x>/b@
func encode(name string) string {
	elements := strings.Split(name, "/")
	var parts []string
	for _, e := range elements {
		for len(e) > elementMax {
			cut := len(e) % elementMax
			if cut == 0 {
				cut = elementMax
			}
			parts = append(parts, e[:cut]+splitMark)
			e = e[cut:]
		}
		parts = append(parts, e)
	}
	return filepath.Join(parts...) + objectMark
}

// extend gives the beginning of a name that a directory entry stands for, below a directory that stands for parent.
// ok is false for an entry that is not the store's.
func extend(parent, entry string, dir bool) (name string, ok bool) {
	if dir {
		if part, split := strings.CutSuffix(entry, splitMark); split {
			return parent + part, legalPart(part)
		}
		return parent + entry + "/", legalPart(entry)
	}
	part, marked := strings.CutSuffix(entry, objectMark)
	return parent + part, marked && legalPart(part)
}

// legalPart reports whether s holds only what names may. The whole name is checked once it is known.
func legalPart(s string) bool {
	return objectrules.CheckName("x"+s) == nil && !strings.Contains(s, "/")
}

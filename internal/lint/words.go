package lint

import (
	"bytes"
	"fmt"
	"regexp"
)

// private are words that mean something only where somebody happened to work: paths of a machine, notes that are not
// in the repository. A reader elsewhere can do nothing with them. They are written in pieces, so that this file
// passes its own rule.
var private = regexp.MustCompile(`/wor` + `k/(main|shared)|/tm` + `p/hp\b|/hom` + `e/[a-z]+/|` +
	`\b(STYLE|FAULTS|PERFORMANCE|ECOSYSTEM|KAFKA)(\.m` + `d|,? (row|part|section) [0-9])|` +
	`\bDESIGN(\.md)?,? (section )?§?[0-9]+\b|\bissues` + ` show\b|\bClau` + `de\b|\bAnthrop` + `ic\b`)

// Words names the lines that speak of somebody's workplace instead of the project.
func Words(f File) []string {
	var bad []string
	for i, line := range bytes.Split(f.Content, []byte("\n")) {
		if m := private.Find(line); m != nil {
			bad = append(bad, fmt.Sprintf("%s:%d: %q means nothing to a reader of the repository", f.Path, i+1, m))
		}
	}
	return bad
}

package history

import (
	"fmt"
	"strings"
)

// AnomalyKind names what a broker must never do.
type AnomalyKind string

// The anomalies. Each breaks a promise of the broker, whatever failed.
const (
	Lost         AnomalyKind = "lost acknowledged"  // told that it is durable, and it is not there
	Phantom      AnomalyKind = "phantom"            // there, and nobody sent it there, or it was refused
	Altered      AnomalyKind = "altered"            // there with other bytes than were sent
	Duplicate    AnomalyKind = "duplicate"          // there at two offsets
	Reordered    AnomalyKind = "reordered"          // two records of one producer in another order than sent
	TwoValues    AnomalyKind = "two values"         // one offset gave different records at different times
	WrongOffset  AnomalyKind = "wrong offset"       // there at another offset than its producer was told
	Gap          AnomalyKind = "gap"                // a reader was led past an offset
	WentBack     AnomalyKind = "non-monotonic read" // a reader was given an offset that it had passed
	Fell         AnomalyKind = "watermark fell"     // a high watermark below what was known before
	StartFell    AnomalyKind = "log start fell"     // a log start below what was known before
	Inconsistent AnomalyKind = "bad history"        // the history contradicts itself: a fault of the client or its log
)

// Anomaly is one broken promise.
type Anomaly struct {
	Kind      AnomalyKind
	Partition Partition
	Offset    int64 // where, or -1
	Detail    string
}

// String is one line for people.
func (a Anomaly) String() string {
	return fmt.Sprintf("%s: %s at %d: %s", a.Kind, a.Partition, a.Offset, a.Detail)
}

// Report is what a check found.
type Report struct {
	Sent, Acked, Read, Partitions int
	// Anomalies are the first of each kind, in no order that matters; Count has all of them.
	Anomalies []Anomaly
	Count     map[AnomalyKind]int
}

// maxShown bounds how many anomalies of a kind a report spells out: one fault often shows in thousands of records.
const maxShown = 10

func (r *Report) add(kind AnomalyKind, p Partition, offset int64, format string, args ...any) {
	r.Count[kind]++
	if r.Count[kind] <= maxShown {
		r.Anomalies = append(r.Anomalies, Anomaly{kind, p, offset, fmt.Sprintf(format, args...)})
	}
}

// OK says that no promise was broken.
func (r Report) OK() bool { return len(r.Anomalies) == 0 }

// String is a summary, and a line for each anomaly.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sent, %d acknowledged, %d read, %d partitions: ", r.Sent, r.Acked, r.Read, r.Partitions)
	if r.OK() {
		b.WriteString("no anomaly")
		return b.String()
	}
	for kind, n := range r.Count {
		fmt.Fprintf(&b, "%d %s; ", n, kind)
	}
	for _, a := range r.Anomalies {
		b.WriteString("\n  " + a.String())
	}
	return b.String()
}

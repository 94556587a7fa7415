package bench

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headpond/headpond/conformance/process"
)

var (
	measure = flag.Bool("measure", false, "measure; without it the package's tests do nothing")
	turns   = flag.Int("turns", 5, "how often each contender runs")
	turn    = flag.Duration("turn", 2*time.Second, "how long a contender runs in a turn")
)

func TestMain(m *testing.M) { process.Main(m) }

// result is what a contender did in one turn.
type result struct {
	bytes   int64
	ops     int64
	elapsed time.Duration
	latency []time.Duration // of each operation, where it is one at a time
}

// contender runs for about so long. limit names the contender that it is compared with, or is empty for a limit.
type contender struct {
	name, limit string
	run         func(d time.Duration) result
}

type row struct {
	contender
	rates, ops, means, p99s []float64
}

// compare runs the contenders in turns and prints a table.
func compare(t *testing.T, title string, contenders []contender) {
	t.Helper()
	rows := make([]row, len(contenders))
	for i, c := range contenders {
		rows[i].contender = c
	}
	for range *turns {
		for i := range rows {
			r := rows[i].run(*turn)
			if t.Failed() {
				t.FailNow()
			}
			s := r.elapsed.Seconds()
			rows[i].rates = append(rows[i].rates, float64(r.bytes)/s/1e6)
			rows[i].ops = append(rows[i].ops, float64(r.ops)/s)
			if n := len(r.latency); n > 0 {
				slices.Sort(r.latency)
				var sum time.Duration
				for _, l := range r.latency {
					sum += l
				}
				rows[i].means = append(rows[i].means, float64(sum)/float64(n)/1e6)
				rows[i].p99s = append(rows[i].p99s, float64(r.latency[n*99/100])/1e6)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: medians of %d turns of %v\n", title, *turns, *turn)
	fmt.Fprintf(&b, "| %-44s | %9s | %9s | %9s | %9s | %-34s |\n", "", "MB/s", "ops/s", "mean ms", "p99 ms", "ratio")
	fmt.Fprintf(&b, "|-%s-|-%s-|-%s-|-%s-|-%s-|-%s-|\n", dashes(44), dashes(9), dashes(9), dashes(9), dashes(9), dashes(34))
	for _, r := range rows {
		ratio := "a limit of the machine"
		if r.limit != "" {
			l := rows[slices.IndexFunc(rows, func(o row) bool { return o.name == r.limit })]
			if len(r.means) > 0 {
				ratio = fmt.Sprintf("%.2f x the time of %s", median(r.means)/median(l.means), r.limit)
			} else {
				ratio = fmt.Sprintf("%.2f of %s", median(r.rates)/median(l.rates), r.limit)
			}
		}
		mean, p99 := "", ""
		if len(r.means) > 0 {
			mean, p99 = fmt.Sprintf("%.3f", median(r.means)), fmt.Sprintf("%.3f", median(r.p99s))
		}
		fmt.Fprintf(&b, "| %-44s | %9.1f | %9.0f | %9s | %9s | %-34s |\n", r.name, median(r.rates), median(r.ops), mean, p99, ratio)
	}
	fmt.Println(b.String())
}

func dashes(n int) string { return strings.Repeat("-", n) }

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// during calls op until the time is up, and times each call if asked to.
func during(d time.Duration, timed bool, size int, op func()) result {
	var r result
	begin := time.Now()
	for now := begin; now.Sub(begin) < d; {
		op()
		next := time.Now()
		if timed {
			r.latency = append(r.latency, next.Sub(now))
		}
		now = next
		r.ops++
		r.bytes += int64(size)
	}
	r.elapsed = time.Since(begin)
	return r
}

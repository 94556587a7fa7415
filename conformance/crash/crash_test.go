package crash

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKillsUnderLoadLoseNothing(t *testing.T) {
	killRounds(t, config{})
}

func TestKillsOfARaceBuildLoseNothing(t *testing.T) {
	killRounds(t, config{race: true})
}

// killRounds kills the broker again and again. Between some kills the index is taken away, or an older copy of it
// is put in its place: it is a cache of the truth, and must come back the same.
func killRounds(t *testing.T, c config) {
	r := start(t, c)
	old := filepath.Join(t.TempDir(), "old-index")
	for n := range *rounds {
		r.run()
		tamper := func() {}
		switch n % 5 {
		case 1:
			tamper = func() { r.copyIndex(r.path("index"), old) }
		case 2:
			tamper = func() { r.must(os.RemoveAll(r.path("index"))) }
		case 4:
			tamper = func() { r.copyIndex(old, r.path("index")) }
		}
		r.kill(tamper)
		r.broker.Start()
		r.judgeRound(n)
	}
	r.finish()
}

// On a disk that loses at each kill what was not synced, every promise holds as well: nothing is acknowledged before it is
// synced, with its name in its directory, and nothing is trimmed from the log before what replaces it is.
func TestPowerFailuresUnderLoadLoseNothing(t *testing.T) {
	r := start(t, config{onDisk: true})
	for n := range *rounds {
		r.run()
		down := r.powerFail
		if n%5 == 3 {
			down = func() {
				r.powerFail()
				r.must(os.RemoveAll(r.path("index")))
			}
		}
		r.kill(down)
		r.broker.Start()
		r.judgeRound(n)
	}
	r.finish()
}

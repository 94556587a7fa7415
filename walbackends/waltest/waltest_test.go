package waltest_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/headpond/headpond/walbackends/memwal"
	"github.com/headpond/headpond/walbackends/waltest"
)

func TestSentencesStandInTheContract(t *testing.T) {
	b, err := os.ReadFile("../../engine/wal.go")
	if err != nil {
		t.Fatal(err)
	}
	contract := regexp.MustCompile(`\n\s*// ?`).ReplaceAllString(string(b), " ")
	names := map[string]bool{}
	for _, c := range waltest.Checks() {
		if !strings.Contains(contract, c.Sentence) {
			t.Errorf("%s quotes what does not stand in the contract: %s", c.Name, c.Sentence)
		}
		if names[c.Name] {
			t.Errorf("two checks are named %s", c.Name)
		}
		names[c.Name] = true
	}
}

// small is a log that the checks of a full one can fill.
func small() (*memwal.Disk, waltest.Harness) {
	disk := memwal.New(memwal.Options{Capacity: 1 << 20})
	return disk, waltest.Harness{
		Open:  disk.Open,
		Crash: func() error { disk.Crash(); return nil },
		Fail:  func() { disk.FailNext(errors.New("injected")) },
		Heal:  func() { disk.FailNext(nil) },
		Seed:  1,
	}
}

func TestMemWALKeepsTheContract(t *testing.T) {
	for _, c := range waltest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			_, h := small()
			if err := waltest.Run(t.Context(), h, c); err != nil {
				t.Error(err)
			}
		})
	}
}

package objtest_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/objbackends/objtest"
)

func TestSentencesStandInTheContract(t *testing.T) {
	var contract string
	for _, file := range []string{"objectstore.go", "errors.go"} {
		b, err := os.ReadFile("../../engine/" + file)
		if err != nil {
			t.Fatal(err)
		}
		contract += string(b)
	}
	contract = regexp.MustCompile(`\n\s*// ?`).ReplaceAllString(contract, " ")
	names := map[string]bool{}
	for _, c := range objtest.Checks() {
		if !strings.Contains(contract, c.Sentence) {
			t.Errorf("%s quotes what does not stand in the contract: %s", c.Name, c.Sentence)
		}
		if names[c.Name] {
			t.Errorf("two checks are named %s", c.Name)
		}
		names[c.Name] = true
	}
}

// TestEachCheckCatchesABrokenStore runs every check on every broken store: the named ones fail, and no others.
func TestEachCheckCatchesABrokenStore(t *testing.T) {
	caught := map[string]bool{}
	for _, b := range objtest.Breakages() {
		t.Run(b.Behaviour, func(t *testing.T) {
			for _, c := range objtest.Checks() {
				var bucket memobj.Bucket
				h := b.Break(objtest.Harness{
					Open:  func(context.Context) (engine.ObjectStore, error) { return bucket.Open(), nil },
					Crash: func() error { return nil },
					Many:  310,
					Piece: 4 << 10,
				})
				err := objtest.Run(t.Context(), h, c)
				if named := slices.Contains(b.Caught, c.Name); (err != nil) != named {
					t.Errorf("check %s: named %t, error %v", c.Name, named, err)
				}
			}
			for _, name := range b.Caught {
				caught[name] = true
			}
		})
	}
	for _, c := range objtest.Checks() {
		if !caught[c.Name] {
			t.Errorf("no broken store is caught by %s", c.Name)
		}
	}
}

package objtest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

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

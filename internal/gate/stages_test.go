package gate

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestStageListParses(t *testing.T) {
	f, err := os.Open("../../mk/stages")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stages, err := ParseStages(f)
	if err != nil {
		t.Fatal(err)
	}
	check, err := Select(stages, "check")
	if err != nil {
		t.Fatal(err)
	}
	if check[0].Name != "lint" || check[1].Name != "unit" {
		t.Fatalf("the gate begins with %s and %s, want lint and unit", check[0].Name, check[1].Name)
	}
	for _, s := range stages {
		for _, p := range s.Packages {
			if p == Rest {
				continue
			}
			if _, err := os.Stat("../../" + p); err != nil {
				t.Errorf("stage %s names a package that is not there: %v", s.Name, err)
			}
		}
	}
}

func TestBadStageLinesAreRefusedByNumber(t *testing.T) {
	for name, list := range map[string]string{
		"columns":   "# fine\na | ./a",
		"twice":     "a | ./a | | | check\na | ./b | | | check",
		"last word": "\na | ./a | | | maybe",
		"nothing":   "\na | | | | check",
	} {
		_, err := ParseStages(strings.NewReader(list))
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: error %v, want one that names line 2", name, err)
		}
	}
}

func TestRestIsWhatNoStageNames(t *testing.T) {
	stages, err := ParseStages(strings.NewReader("rest | @rest | -race | cc=gcc | check\nlong | ./c ./d | | kcat |"))
	if err != nil {
		t.Fatal(err)
	}
	got := ExpandRest(stages[0], stages, "m", []string{"m/a", "m/b", "m/c", "m/d"})
	if want := []string{"m/a", "m/b"}; !slices.Equal(got, want) {
		t.Fatalf("rest is %v, want %v", got, want)
	}
	if want := (Tool{"cc", "gcc"}); stages[0].Tools[0] != want {
		t.Fatalf("tool is %v, want %v", stages[0].Tools[0], want)
	}
}

package gate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeGate records commands; fail says how often each command line that contains a word fails.
func fakeGate(t *testing.T, fail map[string]int) (*Gate, *[]string, *bytes.Buffer) {
	t.Helper()
	var commands []string
	var out bytes.Buffer
	g := &Gate{Dir: t.TempDir(), Out: &out}
	g.Command = func(_ context.Context, _ []string, name string, args ...string) error {
		line := name + " " + strings.Join(args, " ")
		commands = append(commands, line)
		for word, n := range fail {
			if strings.Contains(line, word) && n > 0 {
				fail[word]--
				return errors.New("exit status 1")
			}
		}
		return nil
	}
	g.Pause = func(context.Context, time.Duration) {}
	return g, &commands, &out
}

func TestFailedStageFailsTheGateAndTheNextRunsAllTheSame(t *testing.T) {
	stages := []Stage{{Name: "a", Packages: []string{"./a"}}, {Name: "b", Packages: []string{"./b"}, Flags: []string{"-v", "-args", "-rounds=9"}}}
	g, commands, out := fakeGate(t, map[string]int{"test ./a": 1})
	err := g.Run(t.Context(), stages, stages, filepath.Join(t.TempDir(), "list"))
	if err == nil || err.Error() != "failed: a" {
		t.Fatalf("error %v", err)
	}
	if last := (*commands)[len(*commands)-1]; last != "go test -v ./b -args -rounds=9" {
		t.Fatalf("last command is %q", last)
	}
	if !strings.Contains(out.String(), "a                 0.0  FAILED: exit status 1") {
		t.Fatalf("no row for the failed stage:\n%s", out)
	}
}

func TestDownloadIsTriedAgain(t *testing.T) {
	stages := []Stage{{Name: "a", Packages: []string{"./a"}}}
	g, _, _ := fakeGate(t, map[string]int{"mod download": 3})
	if err := g.Run(t.Context(), stages, stages, filepath.Join(t.TempDir(), "list")); err != nil {
		t.Fatal(err)
	}
	g, commands, _ := fakeGate(t, map[string]int{"mod download": 5})
	if err := g.Run(t.Context(), stages, stages, filepath.Join(t.TempDir(), "list")); err == nil {
		t.Fatal("a download that never succeeds passed")
	}
	for _, c := range *commands {
		if strings.HasPrefix(c, "go test") {
			t.Fatal("stages ran without their modules")
		}
	}
}

func TestMissingToolIsInstalledOnlyWhereStrict(t *testing.T) {
	stages := []Stage{{Name: "a", Packages: []string{"./a"}, Tools: []Tool{{"no-such-program-here", "its-package"}}}}
	for _, strict := range []bool{false, true} {
		g, commands, _ := fakeGate(t, nil)
		g.Strict = strict
		if err := g.Run(t.Context(), stages, stages, filepath.Join(t.TempDir(), "list")); err != nil {
			t.Fatal(err)
		}
		installed := strings.Contains(strings.Join(*commands, "\n"), "apt-get install -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends its-package")
		if installed != strict {
			t.Fatalf("strict %v, installed %v", strict, installed)
		}
	}
}

func TestWhatDidNotRunIsListedAndFailsOnlyWhereStrict(t *testing.T) {
	stages := []Stage{{Name: "a", Packages: []string{"./a"}}}
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("TestX: kcat is not installed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, _, out := fakeGate(t, nil)
	if err := g.Run(t.Context(), stages, stages, list); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "not run:\nTestX: kcat is not installed\n") {
		t.Fatalf("the list is not last:\n%s", out)
	}
	g, _, _ = fakeGate(t, nil)
	g.Strict = true
	if err := g.Run(t.Context(), stages, stages, list); err == nil {
		t.Fatal("a check that did not run passed where strict")
	}
}

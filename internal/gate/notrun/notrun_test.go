package notrun

import (
	"os"
	"path/filepath"
	"testing"
)

type fake struct{ skipped, failed string }

func (f *fake) Helper()        {}
func (f *fake) Name() string   { return "TestX" }
func (f *fake) Skip(a ...any)  { f.skipped = a[0].(string) }
func (f *fake) Fatal(a ...any) { f.failed = a[0].(string) }

func TestSkipIsListedAndFailsOnlyInCI(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	t.Setenv(File, list)
	t.Setenv("CI", "")
	var f fake
	Program(&f, "no-such-program-here")
	if f.skipped != "NOT RUN: no-such-program-here is not installed" || f.failed != "" {
		t.Fatalf("skipped %q, failed %q", f.skipped, f.failed)
	}
	if got, _ := os.ReadFile(list); string(got) != "TestX: no-such-program-here is not installed\n" {
		t.Fatalf("list is %q", got)
	}
	t.Setenv("CI", "true")
	f = fake{}
	Skip(&f, "no reason")
	if f.failed == "" {
		t.Fatal("a check that did not run passed in CI")
	}
}

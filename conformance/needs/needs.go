// Package needs says what a check needs of the machine, and records checks that could not run.
//
// On a user's machine a check whose tool is missing is skipped, and a line about it is appended to the file that the
// environment variable HEADPOND_NOT_RUN names, so that the run can end with the list of what did not run. Where CI=true
// a missing tool is a failure: nothing is skipped in silence there.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Command skips the test, or fails it in CI, unless the command is installed. It returns the command's path.
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		NotRun(t, fmt.Sprintf("%s is not installed", name))
	}
	return path
}

// Nil skips the test, or fails it in CI, when err is not nil: it says what is missing.
func Nil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		NotRun(t, err.Error())
	}
}

// NotRun ends the test as not run, for the reason given, or as failed in CI.
func NotRun(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("not run in CI: %s", reason)
	}
	if path := os.Getenv("HEADPOND_NOT_RUN"); path != "" {
		if err := note(path, t.Name()+": "+reason); err != nil {
			t.Errorf("record that the test did not run: %v", err)
		}
	}
	t.Skipf("NOT RUN: %s", reason)
}

func note(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

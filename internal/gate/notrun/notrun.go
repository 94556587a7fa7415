// Package notrun is how a test says that it cannot run here: it is skipped and put on the list that `make check`
// prints at its end. Where CI=true, a check that did not run is a failure.
package notrun

import (
	"fmt"
	"os"
	"os/exec"
)

// File is the environment variable that names the file which collects what did not run, a line each.
const File = "HEADPOND_NOT_RUN"

// T is the part of testing.T that is needed.
type T interface {
	Helper()
	Name() string
	Skip(args ...any)
	Fatal(args ...any)
}

// Strict says whether a check that does not run is a failure: where CI is set.
func Strict() bool {
	v := os.Getenv("CI")
	return v == "true" || v == "1"
}

// Skip ends the test: as not run for the reason, or failed where that counts as a failure.
func Skip(t T, reason string) {
	t.Helper()
	if Strict() {
		t.Fatal("did not run: " + reason)
	}
	if err := Note(t.Name(), reason); err != nil {
		t.Fatal(err)
	}
	t.Skip("NOT RUN: " + reason)
}

// Program returns the path of a program that the test needs, or ends the test as Skip does.
func Program(t T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(t, name+" is not installed")
	}
	return path
}

// Note puts a line on the list, when one is kept.
func Note(what, reason string) error {
	name := os.Getenv(File)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note what did not run: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s: %s\n", what, reason)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

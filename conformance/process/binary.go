package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// binaries are built on first use; Main removes them.
var binaries struct {
	mu   sync.Mutex
	dir  string
	path map[string]string // by build: "" or "race"
}

// Main runs a package's tests and cleans up behind them. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	killAll()
	binaries.mu.Lock()
	if binaries.dir != "" {
		os.RemoveAll(binaries.dir)
	}
	os.Exit(code)
}

// Binary returns the path of the broker's binary, built from this module without cgo as it is released.
// HEADPOND_BINARY names one to use instead.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("HEADPOND_BINARY"); path != "" {
		return path
	}
	return build(t, "", []string{"CGO_ENABLED=0"})
}

// RaceBinary returns the path of the broker's binary built with the race detector, which ends the process at the first race.
func RaceBinary(t testing.TB) string {
	t.Helper()
	return build(t, "race", []string{"CGO_ENABLED=1"}, "-race")
}

func build(t testing.TB, kind string, env []string, flags ...string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if path := binaries.path[kind]; path != "" {
		return path
	}
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "headpond-binary-")
		if err != nil {
			t.Fatal(err)
		}
		binaries.dir, binaries.path = dir, map[string]string{}
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(binaries.dir, strings.TrimSuffix("headpond-"+kind, "-"))
	args := append([]string{"build", "-buildvcs=false", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "./cmd/headpond")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the broker: %v\n%s", err, out)
	}
	binaries.path[kind] = path
	return path
}

// Root is the directory of this module, found upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}

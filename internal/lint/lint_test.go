package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func TestRepositoryKeepsItsRules(t *testing.T) {
	files, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range map[string]func(File) []string{
		"format": Format, "imports": Imports, "sleeps": Sleeps, "words": Words,
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				for _, finding := range rule(f) {
					t.Error(finding)
				}
			}
		})
	}
}

func TestGoVet(t *testing.T) {
	run(t, root, nil, "go", "vet", "./...")
}

// The block device is Linux only; everything else builds on macOS too, tests included.
func TestGoVetForMacOS(t *testing.T) {
	run(t, root, []string{"GOOS=darwin", "GOARCH=arm64"}, "go", "vet", "./...")
}

func TestStaticcheck(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(root, "tools"), nil, "go", "build", "-o", dir, "honnef.co/go/tools/cmd/staticcheck")
	run(t, root, nil, filepath.Join(dir, "staticcheck"), "./...")
}

func run(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	// As the binary is built: what is compiled here is not compiled again for it.
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

package lint

import (
	"fmt"
	"strings"
)

// Module is the path of this module.
const Module = "github.com/headpond/headpond"

// leaves are the folders whose packages hang on engine and know nothing of each other.
var leaves = []string{"walbackends", "objbackends", "index", "kafkaapi"}

// homes says which folders may import a dependency outside of tests. One that is not listed may be imported anywhere
// but in engine.
var homes = []struct {
	dependency string
	folders    []string
}{
	{"github.com/cockroachdb/", []string{"index"}},
	{"github.com/twmb/franz-go", []string{"kafkaapi", "cmd", "conformance"}},
	{"github.com/Azure/", []string{"walbackends", "objbackends"}},
	{"github.com/aws/", []string{"walbackends", "objbackends"}},
	{"github.com/minio/", []string{"walbackends", "objbackends"}},
	{"github.com/prometheus/", []string{"internal/metrics", "cmd"}},
	{"github.com/spf13/", []string{"cmd", "internal/config"}},
	{"github.com/IBM/sarama", []string{"conformance"}},
	{"github.com/hanwen/go-fuse", []string{"conformance"}},
}

// Imports checks the direction of imports: every arrow points at engine, which imports the standard library,
// golang.org/x/sync and this module's internal packages; leaf packages do not import each other; large dependencies
// stay in their homes; only tests, conformance itself and the command import conformance. Test files and packages
// whose name ends in "test" may import what they like, save that conformance stays out of what they exercise.
func Imports(f File) []string {
	pkg := f.Package()
	test := f.Test() || strings.HasSuffix(pkg, "test")
	if strings.HasPrefix(f.Path, "tools/") {
		return nil
	}
	var bad []string
	f.imports(func(target, where string) {
		if why := forbidden(pkg, target, test); why != "" {
			bad = append(bad, fmt.Sprintf("%s: %s imports %s: %s", where, pkg, target, why))
		}
	})
	return bad
}

func forbidden(pkg, target string, test bool) string {
	if test {
		return ""
	}
	ours, inModule := strings.CutPrefix(target, Module+"/")
	if !inModule && standard(target) {
		return ""
	}
	if under(pkg, "engine") && !under(ours, "internal") && !under(ours, "engine") && !under(target, "golang.org/x/sync") {
		return "engine imports only the standard library, golang.org/x/sync and internal packages"
	}
	if inModule {
		return forbiddenInModule(pkg, ours)
	}
	for _, h := range homes {
		if strings.HasPrefix(target, h.dependency) && !underAny(pkg, h.folders) {
			return fmt.Sprintf("it belongs in %s", strings.Join(h.folders, ", "))
		}
	}
	return ""
}

func forbiddenInModule(pkg, target string) string {
	switch {
	case under(target, "cmd"):
		return "nothing imports the command"
	case under(target, "conformance") && !underAny(pkg, []string{"conformance", "cmd"}):
		return "only tests and the command import conformance"
	case underAny(target, leaves) && underAny(pkg, leaves) && !same(pkg, target):
		return "leaf packages do not import each other"
	case underAny(target, leaves) && under(pkg, "internal"):
		return "internal packages do not import leaf packages"
	}
	return ""
}

// same says whether two leaf packages are one backend: index/x and index are, walbackends/a and walbackends/b are not.
func same(a, b string) bool { return leaf(a) == leaf(b) }

func leaf(pkg string) string {
	parts := strings.Split(pkg, "/")
	n := 1
	if parts[0] == "walbackends" || parts[0] == "objbackends" {
		n = 2
	}
	return strings.Join(parts[:min(n, len(parts))], "/")
}

func standard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

func under(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func underAny(pkg string, folders []string) bool {
	for _, f := range folders {
		if under(pkg, f) {
			return true
		}
	}
	return false
}

package lint

import (
	"strings"
	"testing"
)

// Each rule catches what it is for, and leaves its neighbours alone.
func TestRulesCatchWhatTheyAreFor(t *testing.T) {
	imp := func(target string) string { return "package p\n\nimport _ \"" + target + "\"\n" }
	for _, c := range []struct {
		name, path, content string
		rule                func(File) []string
		bad                 bool
	}{
		{"engine imports a leaf", "engine/x.go", imp(Module + "/index"), Imports, true},
		{"engine imports Pebble", "engine/x.go", imp("github.com/cockroachdb/pebble/v2"), Imports, true},
		{"engine imports any other dependency", "engine/x.go", imp("golang.org/x/sys/unix"), Imports, true},
		{"engine imports x/sync", "engine/x.go", imp("golang.org/x/sync/errgroup"), Imports, false},
		{"engine imports internal", "engine/x.go", imp(Module + "/internal/recordbatch"), Imports, false},
		{"engine imports std", "engine/x.go", imp("encoding/binary"), Imports, false},
		{"engine's test imports a leaf", "engine/x_test.go", imp(Module + "/walbackends/memwal"), Imports, false},
		{"leaf imports leaf", "kafkaapi/x.go", imp(Module + "/index"), Imports, true},
		{"WAL imports WAL", "walbackends/filewal/x.go", imp(Module + "/walbackends/memwal"), Imports, true},
		{"leaf imports its own part", "index/x.go", imp(Module + "/index/keys"), Imports, false},
		{"contract checks import the reference", "walbackends/waltest/x.go", imp(Module + "/walbackends/memwal"), Imports, false},
		{"internal imports a leaf", "internal/config/x.go", imp(Module + "/kafkaapi"), Imports, true},
		{"leaf imports conformance", "index/x.go", imp(Module + "/conformance"), Imports, true},
		{"command imports conformance", "cmd/headpond/x.go", imp(Module + "/conformance"), Imports, false},
		{"kmsg outside its home", "index/x.go", imp("github.com/twmb/franz-go/pkg/kmsg"), Imports, true},
		{"kmsg at home", "kafkaapi/x.go", imp("github.com/twmb/franz-go/pkg/kmsg"), Imports, false},
		{"something imports the command", "index/x.go", imp(Module + "/cmd/headpond"), Imports, true},

		{"sleep in a test", "a/x_test.go", "package a\n\nfunc f() { time.Sleep(1) }\n", Sleeps, true},
		{"sleep as a value", "a/x_test.go", "package a\n\nvar f = time.Sleep\n", Sleeps, true},
		{"sleep in simulated time", "a/x_test.go", "package a\n\nfunc f() { synctest.Test(t, func() { time.Sleep(1) }) }\n", Sleeps, false},
		{"sleep outside tests", "a/x.go", "package a\n\nfunc f() { time.Sleep(1) }\n", Sleeps, false},

		{"unformatted", "a/x.go", "package a\nfunc  f() {}\n", Format, true},
		{"formatted", "a/x.go", "package a\n\nfunc f() {}\n", Format, false},

		{"machine path", "README.md", "see /wor" + "k/shared/x", Words, true},
		{"note that is not here", "a/x.go", "package a // FAULTS" + ".md 7\n", Words, true},
		{"section of a design note", "a/x.go", "package a // DESIGN" + " section 5\n", Words, true},
		{"the project's own design", "README.md", "see DESIGN.md, \"Write path\"", Words, false},
		{"ordinary words", "a/x.go", "package a // a fetch session of kafka.md\n", Words, false},
	} {
		f, err := Parse(c.path, []byte(c.content))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := c.rule(f); (len(got) > 0) != c.bad {
			t.Errorf("%s: findings %v, want some: %v", c.name, strings.Join(got, "; "), c.bad)
		}
	}
}

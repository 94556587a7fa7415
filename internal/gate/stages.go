// Package gate runs the stages of `make check` and of the long runs: each stage is one `go test`, and the list of
// stages is data, in mk/stages.
package gate

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rest stands in a stage's packages for every package of the module that no stage names.
const Rest = "@rest"

// Stage is one line of the stage list.
type Stage struct {
	Name     string
	Packages []string // import patterns relative to the module, or Rest
	Flags    []string // flags of go test
	Tools    []Tool   // programs that its tests run
	Target   string   // what else it is part of: check, prove or bench; empty for nothing
}

// Tool is a program that tests run, and the Debian package that brings it.
type Tool struct{ Program, Package string }

// ParseStages reads a stage list: five columns separated by '|' (name, packages, flags, tools, target);
// empty lines and lines that begin with # are skipped. Errors name the line.
func ParseStages(r io.Reader) ([]Stage, error) {
	var stages []Stage
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parseStage(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if slices.ContainsFunc(stages, func(o Stage) bool { return o.Name == s.Name }) {
			return nil, fmt.Errorf("line %d: stage %s is there twice", n, s.Name)
		}
		stages = append(stages, s)
	}
	return stages, in.Err()
}

func parseStage(line string) (Stage, error) {
	columns := strings.Split(line, "|")
	if len(columns) != 5 {
		return Stage{}, fmt.Errorf("%d columns, not 5", len(columns))
	}
	s := Stage{
		Name:     strings.TrimSpace(columns[0]),
		Packages: strings.Fields(columns[1]),
		Flags:    strings.Fields(columns[2]),
	}
	for _, t := range strings.Fields(columns[3]) {
		program, pkg, found := strings.Cut(t, "=")
		if !found {
			pkg = program
		}
		s.Tools = append(s.Tools, Tool{Program: program, Package: pkg})
	}
	s.Target = strings.TrimSpace(columns[4])
	if s.Target != "" && !slices.Contains([]string{"check", "prove", "bench"}, s.Target) {
		return Stage{}, fmt.Errorf("the target is %q, not check, prove, bench or empty", s.Target)
	}
	if s.Name == "" || len(s.Packages) == 0 {
		return Stage{}, fmt.Errorf("a stage needs a name and packages")
	}
	return s, nil
}

// Select returns the stages of a target, in the list's order: those that are part of it, and the one of that name.
func Select(stages []Stage, target string) ([]Stage, error) {
	var selected []Stage
	for _, s := range stages {
		if s.Name == target || s.Target == target {
			selected = append(selected, s)
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("there is no stage or target %q", target)
	}
	return selected, nil
}

// ExpandRest replaces Rest in a stage's packages: all is every package of the module as an import path, module its
// path. A package that any stage names is not in the rest.
func ExpandRest(s Stage, stages []Stage, module string, all []string) []string {
	named := map[string]bool{}
	for _, o := range stages {
		for _, p := range o.Packages {
			named[module+strings.TrimPrefix(p, ".")] = true
		}
	}
	var packages []string
	for _, p := range s.Packages {
		if p != Rest {
			packages = append(packages, p)
			continue
		}
		for _, q := range all {
			if !named[q] {
				packages = append(packages, q)
			}
		}
	}
	return packages
}

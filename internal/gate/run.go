package gate

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/headpond/headpond/internal/gate/notrun"
)

// Gate runs stages in a module.
type Gate struct {
	Dir    string    // root of the module
	Out    io.Writer // what stages print, and the summary
	Strict bool      // tools are installed, and a check that does not run is a failure
	// Command runs a program in Dir with additional environment; its output goes to Out.
	Command func(ctx context.Context, env []string, name string, args ...string) error
	// Pause waits between tries of a download.
	Pause func(ctx context.Context, d time.Duration)
}

type result struct {
	stage   string
	elapsed time.Duration
	err     error
}

// Run runs the stages one after the other; a failed one does not keep the next from running. It ends with a table of
// minutes and the list of what did not run, and returns an error if anything failed.
func (g *Gate) Run(ctx context.Context, selected, all []Stage, listFile string) error {
	var results []result
	step := func(name string, f func() error) {
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(g.Out, "=== stage %s\n", name)
		start := time.Now()
		err := f()
		results = append(results, result{name, time.Since(start), err})
		if err != nil {
			fmt.Fprintf(g.Out, "=== stage %s: %v\n", name, err)
		}
	}
	step("prepare", func() error { return g.prepare(ctx, selected) })
	if len(results) > 0 && results[0].err == nil {
		for _, s := range selected {
			step(s.Name, func() error { return g.stage(ctx, s, all, listFile) })
		}
	}
	return g.summary(ctx, results, listFile)
}

func (g *Gate) stage(ctx context.Context, s Stage, all []Stage, listFile string) error {
	packages := s.Packages
	if slices.Contains(packages, Rest) {
		list, err := g.packages(ctx)
		if err != nil {
			return err
		}
		packages = ExpandRest(s, all, list[0], list[1:])
	}
	env := []string{notrun.File + "=" + listFile}
	flags := s.Flags
	if _, err := exec.LookPath("cc"); err != nil && slices.Contains(flags, "-race") {
		// The race detector needs cgo.
		if g.Strict {
			return fmt.Errorf("the race detector needs a C compiler, and there is none")
		}
		flags = slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == "-race" })
		if err := notrun.Note("stage "+s.Name, "race detector: no C compiler; ran without it"); err != nil {
			return err
		}
	}
	if !slices.Contains(flags, "-race") {
		// As the binary is built, so that little is compiled twice.
		env = append(env, "CGO_ENABLED=0")
	}
	var own []string // flags of the tests themselves, which go test wants last
	if i := slices.Index(flags, "-args"); i >= 0 {
		flags, own = flags[:i], flags[i:]
	}
	args := slices.Concat([]string{"test"}, flags, packages, own)
	return g.Command(ctx, env, "go", args...)
}

// packages lists the module's path and then every package's.
func (g *Gate) packages(ctx context.Context) ([]string, error) {
	var list []string
	for _, args := range [][]string{{"list", "-m"}, {"list", "./..."}} {
		c := exec.CommandContext(ctx, "go", args...)
		c.Dir, c.Stderr = g.Dir, os.Stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
		list = append(list, strings.Fields(string(out))...)
	}
	return list, nil
}

func (g *Gate) summary(ctx context.Context, results []result, listFile string) error {
	var failed []string
	fmt.Fprintf(g.Out, "\n%-12s %8s  %s\n", "stage", "minutes", "result")
	var total time.Duration
	for _, r := range results {
		word := "ok"
		if r.err != nil {
			word = "FAILED: " + r.err.Error()
			failed = append(failed, r.stage)
		}
		total += r.elapsed
		fmt.Fprintf(g.Out, "%-12s %8.1f  %s\n", r.stage, r.elapsed.Minutes(), word)
	}
	fmt.Fprintf(g.Out, "%-12s %8.1f\n", "all", total.Minutes())

	list, err := os.ReadFile(listFile)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read the list of what did not run: %w", err)
	}
	if len(list) > 0 {
		fmt.Fprintf(g.Out, "\nnot run:\n%s", list)
		if g.Strict {
			failed = append(failed, "checks that did not run")
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

package gate

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// prepare fetches what the stages need: Go modules, and where Strict the Debian packages of missing tools.
// Each download is tried again a few times, since a machine's first minutes are when its network is worst.
func (g *Gate) prepare(ctx context.Context, selected []Stage) error {
	modules := [][]string{{"mod", "download"}}
	if slices.ContainsFunc(selected, func(s Stage) bool { return s.Name == "lint" }) {
		modules = append(modules, []string{"-C", "tools", "mod", "download"})
	}
	for _, args := range modules {
		if err := g.retry(ctx, func() error { return g.Command(ctx, nil, "go", args...) }); err != nil {
			return fmt.Errorf("download Go modules: %w", err)
		}
	}
	if !g.Strict {
		return nil
	}
	var missing []string
	for _, s := range selected {
		for _, t := range s.Tools {
			if _, err := exec.LookPath(t.Program); err != nil && !slices.Contains(missing, t.Package) {
				missing = append(missing, t.Package)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	install := append([]string{"install", "-qq", "-y", "-o", "Dpkg::Use-Pty=0", "--no-install-recommends"}, missing...)
	err := g.retry(ctx, func() error {
		if err := g.Command(ctx, env, "apt-get", "update", "-qq"); err != nil {
			return err
		}
		return g.Command(ctx, env, "apt-get", install...)
	})
	if err != nil {
		return fmt.Errorf("install %v: %w", missing, err)
	}
	return nil
}

func (g *Gate) retry(ctx context.Context, f func() error) error {
	pause := 2 * time.Second
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == 5 || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(g.Out, "try %d failed: %v\n", try, err)
		g.Pause(ctx, pause)
		pause *= 2
	}
}

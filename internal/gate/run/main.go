// Command run runs the stages of mk/stages: `run check` those of the gate, `run NAME` one of them. It is what the
// Makefile's targets call, from the root of the module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/headpond/headpond/internal/gate"
	"github.com/headpond/headpond/internal/gate/notrun"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: run check|STAGE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Printf("\n%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	fmt.Printf("\n%s: ok\n", os.Args[1])
}

func run(ctx context.Context, target string) error {
	f, err := os.Open("mk/stages")
	if err != nil {
		return fmt.Errorf("run from the root of the module: %w", err)
	}
	all, err := gate.ParseStages(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("mk/stages: %w", err)
	}
	selected, err := gate.Select(all, target)
	if err != nil {
		return err
	}
	list, err := os.CreateTemp("", "headpond-not-run-")
	if err != nil {
		return err
	}
	list.Close()
	defer os.Remove(list.Name())
	// Stages that lack something say so through the environment, the runner itself included.
	if err := os.Setenv(notrun.File, list.Name()); err != nil {
		return err
	}
	g := &gate.Gate{Dir: ".", Out: os.Stdout, Strict: notrun.Strict(), Command: command, Pause: pause}
	return g.Run(ctx, selected, all, list.Name())
}

func command(ctx context.Context, env []string, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), env...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	// An interrupt lets the tests clean up after themselves before they are ended.
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	return c.Run()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Command headpond is a broker that Kafka clients talk to, and the tools to look after it.
//
// Exit codes: 0 fine, 1 failed, 2 wrong usage or configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/topicconfig"
)

func main() {
	p := process{stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), patience: exitPatience}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// process is what a command sees of its surroundings.
type process struct {
	stdout, stderr io.Writer
	environ        []string
	patience       time.Duration // how long to wait for a data directory that a broker has
}

// usageError is a fault in how a command was called.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run runs one command and returns the exit code. What went wrong is the last line that it prints.
func (p process) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(p.stderr, "headpond: %s\n", oneLine(err))
	var usage usageError
	if errors.As(err, &usage) || errors.Is(err, config.ErrUsage) {
		return 2
	}
	return 1
}

// oneLine keeps an error on the last line, whatever is in it.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (p process) root() *cobra.Command {
	root := parent(&cobra.Command{
		Use:   "headpond",
		Short: "A stream store that Kafka clients talk to",
		Long: `Headpond is a stream store that Kafka clients talk to. A write-ahead log makes records durable before they are
acknowledged, object storage keeps them.

  headpond serve                                     start a broker; no other set-up is needed
  kcat -b 127.0.0.1:9092 -t lines -P -l some.log     write a file's lines
  kcat -b 127.0.0.1:9092 -t lines -C -e              read them back`,
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%s%s; see %s --help", strings.TrimSuffix(err.Error(), "."), nearestFlag(c, err), c.CommandPath())
	})
	root.AddCommand(p.serveCommand(), p.topicCommand(), p.groupCommand(), p.walCommand(), p.objectCommand(), p.indexCommand(), p.configCommand(), p.versionCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Print a script that completes commands in your shell"
			parent(c)
		}
	}
	return root
}

// nearestFlag is a hint at the flag that a mistyped one may have been meant to be.
func nearestFlag(c *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := topicconfig.Nearest(unknown.GetSpecifiedName(), names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean --%s?)", near)
}

// parent makes a command that only has others below it refuse what is none of them, with code 2.
func parent(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			c.SetOut(c.ErrOrStderr())
			if err := c.Help(); err != nil {
				return err
			}
			return usagef("%s needs a command", c.CommandPath())
		}
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf(" (did you mean %s?)", near[0])
		}
		return usagef("there is no command %q%s; see %s --help", strings.Join(append(strings.Fields(c.CommandPath())[1:], args[0]), " "), hint, c.CommandPath())
	}
	return c
}

// exactly checks the arguments: one for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s needs %s; see %s --help", c.CommandPath(), names[len(args)], c.CommandPath())
		case len(args) > len(names):
			return usagef("%s takes no argument %q; see %s --help", c.CommandPath(), args[len(names)], c.CommandPath())
		}
		return nil
	}
}

func (p process) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.stdout, "headpond %s\n", versionName())
			return err
		},
	}
}

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headpond/headpond/internal/config"
)

func (p process) configCommand() *cobra.Command {
	c := parent(&cobra.Command{Use: "config", Short: "Look at the configuration"})
	show := &cobra.Command{
		Use: "show", Short: "Print every setting as serve would resolve it", Args: exactly(),
		Long: `Print every setting as serve would resolve it from the same flags, environment and file: a flag beats the environment,
the environment beats the file, the file beats the default.`,
	}
	config.AddFlags(show.Flags())
	origin := show.Flags().Bool("origin", false, "say where each value comes from")
	show.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(config.Sources{Flags: c.Flags(), Environ: p.environ})
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
		for _, s := range cfg.Show() {
			if *origin {
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Value, s.Origin)
			} else {
				fmt.Fprintf(w, "%s\t%s\n", s.Name, s.Value)
			}
		}
		return w.Flush()
	}
	c.AddCommand(show)
	return c
}

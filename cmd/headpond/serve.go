package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/headpond/headpond/internal/config"
)

func (p process) serveCommand() *cobra.Command {
	c := &cobra.Command{Use: "serve", Short: "Run a broker", Args: exactly()}
	config.AddFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		_, err := config.Load(config.Sources{Flags: c.Flags(), Environ: p.environ})
		if err != nil {
			return err
		}
		return errors.New("not there yet")
	}
	return c
}

package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/topicconfig"
)

func (p process) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Run a broker", Args: exactly(),
		Long: `Run a broker until it is told to stop by SIGTERM or SIGINT: it then stops accepting, finishes what is in flight and
closes; a second signal ends it at once, which loses nothing that was acknowledged.

Every flag is also an environment variable (--data-dir: HEADPOND_DATA_DIR) and a key of the YAML file (data-dir:). Kafka's
broker settings have Kafka's names, below broker: in the file, or with --broker NAME=VALUE.`,
	}
	config.AddFlags(c.Flags())
	completeSettings(c, "broker", topicconfig.BrokerKeys(), "=")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(config.Sources{Flags: c.Flags(), Environ: p.environ})
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		log := newLogger(p.stderr, cfg)
		// After the first signal the next one has its usual effect.
		notSignalled := context.AfterFunc(ctx, func() {
			stop()
			log.Info("stopping; another signal ends the process at once")
		})
		defer notSignalled() // before stop, which would look like a signal: the error of a failed start is the last line
		limitMemory(cfg, p.environ)
		if cfg.LogFormat == "text" {
			printBanner(p.stderr, cfg)
		} else {
			logBanner(log, cfg)
		}
		b := newBroker(cfg, log)
		b.patience = p.patience
		return b.serve(ctx)
	}
	return c
}

// limitMemory makes the collector work harder as the process nears --memory; below it, it works as usual. The engine and
// the front end budget their buffers so that what lives stays well below. GOMEMLIMIT and GOGC win where they are set.
func limitMemory(cfg *config.Config, environ []string) {
	if !isSet(environ, "GOMEMLIMIT") {
		debug.SetMemoryLimit(int64(cfg.Memory))
	}
}

func isSet(environ []string, name string) bool {
	for _, e := range environ {
		if len(e) > len(name)+1 && e[:len(name)] == name && e[len(name)] == '=' {
			return true
		}
	}
	return false
}

func newLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"text/tabwriter"

	"github.com/headpond/headpond/internal/config"
)

// worthShowing are the broker's own settings, and of Kafka's those that somebody set.
func worthShowing(cfg *config.Config) []config.Shown {
	var worth []config.Shown
	for _, s := range cfg.Show() {
		if s.Value != "" && (!strings.HasPrefix(s.Name, "broker.") || s.Origin != "default") {
			worth = append(worth, s)
		}
	}
	return worth
}

func printBanner(out io.Writer, cfg *config.Config) {
	fmt.Fprintf(out, "headpond %s\n", versionName())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range worthShowing(cfg) {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", s.Name, s.Value, s.Origin)
	}
	w.Flush()
}

func logBanner(log *slog.Logger, cfg *config.Config) {
	attrs := []any{"version", versionName()}
	for _, s := range worthShowing(cfg) {
		attrs = append(attrs, s.Name, s.Value)
	}
	log.Info("starting", attrs...)
}

// warnOfRisks says what an operator may not have meant.
func warnOfRisks(log *slog.Logger, cfg *config.Config, listen net.Addr) {
	if a, ok := listen.(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		log.Warn("ANYBODY WHO CAN REACH THE LISTENER CAN READ, WRITE AND DELETE EVERYTHING: it is not on loopback, and this version has no authentication",
			"listen", listen)
	}
	if cfg.WAL.Scheme == "mem" {
		log.Warn("the log is in memory: what is not uploaded when the process ends without being told to is lost", "wal", cfg.WAL)
	}
	if cfg.Objects.Scheme == "mem" {
		log.Warn("the objects are in memory: they are lost when the process ends", "objects", cfg.Objects)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/datadir"
)

func (p process) indexCommand() *cobra.Command {
	c := parent(&cobra.Command{
		Use: "index", Short: "Check or rebuild the index of a stopped broker",
		Long: `Check or rebuild the index of a stopped broker. It holds nothing that the log and the objects do not: removing it is always
safe, and the next start rebuilds it.`,
	})
	check := &cobra.Command{
		Use: "check", Short: "Compare the index with the log and the objects", Args: exactly(),
		Long: "Compare the index with the log and the objects. Exit code 1 says that they differ.",
	}
	rebuild := &cobra.Command{Use: "rebuild", Short: "Make the index anew from the log and the objects", Args: exactly()}
	for _, sub := range []*cobra.Command{check, rebuild} {
		config.AddFlags(sub.Flags(), "data-dir", "wal", "objects")
		c.AddCommand(sub)
	}
	check.RunE = func(c *cobra.Command, _ []string) error { return p.withStopped(c, p.checkIndex) }
	rebuild.RunE = func(c *cobra.Command, _ []string) error { return p.withStopped(c, p.rebuildIndex) }
	return c
}

// withStopped locks the data directory of a broker that does not run, and opens its parts.
func (p process) withStopped(c *cobra.Command, fn func(context.Context, *datadir.Dir, engine.Options) error) error {
	cfg, err := config.Load(config.Sources{Flags: c.Flags(), Environ: p.environ})
	if err != nil {
		return err
	}
	if cfg.WAL.Scheme != "file" || cfg.Objects.Scheme != "file" {
		return usagef("wal %s and objects %s: what is in memory is their broker's alone", cfg.WAL, cfg.Objects)
	}
	waiting := func(err error) { fmt.Fprintf(p.stderr, "waiting up to %s: %v\n", p.patience, err) }
	dir, err := untilUnlocked(c.Context(), p.patience, waiting, func() (*datadir.Dir, error) { return datadir.OpenExisting(cfg.DataDir) })
	if err != nil {
		var held *datadir.InUseError
		if errors.As(err, &held) {
			return fmt.Errorf("%w; stop that broker first", err)
		}
		return err
	}
	o := engine.Options{Batches: batchReader{}}
	if o.OpenWAL, o.WALURL, err = openWAL(cfg.WAL, 0); err == nil {
		o.Store, err = openExistingObjects(cfg.Objects)
	}
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	return errors.Join(fn(c.Context(), dir, o), o.Store.Close(), dir.Close())
}

func (p process) checkIndex(ctx context.Context, dir *datadir.Dir, o engine.Options) (err error) {
	if _, err := os.Stat(dir.Index()); err != nil {
		return fmt.Errorf("there is no index to check: %w; the next start builds it", err)
	}
	ix, err := index.Open(dir.Index(), index.Options{})
	if err != nil {
		return fmt.Errorf("open the index: %w", err)
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	scratch, clean, err := scratchIndex(dir, "check")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean()) }()
	o.Index = ix
	report, err := engine.CheckIndex(ctx, o, scratch)
	if err != nil {
		return fmt.Errorf("check the index: %w", err)
	}
	fmt.Fprintf(p.stdout, "cluster %x, WAL %x: %s, %s, up to commit %d\n",
		report.Cluster, report.WAL, count(report.Objects, "object"), count(report.Runs, "run"), report.Commit)
	for _, d := range report.Differences {
		fmt.Fprintf(p.stdout, "%s\n", d)
	}
	if n := len(report.Differences); n > 0 {
		return fmt.Errorf("the index has at least %s; headpond index rebuild makes it anew", count(n, "difference"))
	}
	_, err = fmt.Fprintln(p.stdout, "the index agrees with the log and the objects")
	return err
}

// scratchIndex makes an empty index beside the real one, and a function that removes it.
func scratchIndex(dir *datadir.Dir, suffix string) (engine.Index, func() error, error) {
	path := dir.Index() + "." + suffix
	if err := os.RemoveAll(path); err != nil {
		return nil, nil, err
	}
	ix, err := index.Open(path, index.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("begin an index in %s: %w", path, err)
	}
	return ix, func() error { return errors.Join(ix.Close(), os.RemoveAll(path)) }, nil
}

func (p process) rebuildIndex(ctx context.Context, dir *datadir.Dir, o engine.Options) error {
	scratch, clean, err := scratchIndex(dir, "new")
	if err != nil {
		return err
	}
	o.Index = scratch
	state, err := engine.RebuildIndex(ctx, o, scratch)
	if err != nil {
		return errors.Join(fmt.Errorf("rebuild the index: %w", err), clean())
	}
	if err := scratch.Close(); err != nil {
		return errors.Join(fmt.Errorf("rebuild the index: %w", err), clean())
	}
	// Between the two steps there is no index, which a start takes as well as this one.
	if err := os.RemoveAll(dir.Index()); err != nil {
		return fmt.Errorf("replace the index: %w", err)
	}
	if err := os.Rename(dir.Index()+".new", dir.Index()); err != nil {
		return fmt.Errorf("replace the index: %w", err)
	}
	_, err = fmt.Fprintf(p.stdout, "rebuilt the index of cluster %x up to commit %d\n", state.Cluster, state.Seq)
	return err
}

package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/walbackends/filewal"
)

func (p process) walCommand() *cobra.Command {
	c := parent(&cobra.Command{Use: "wal", Short: "Look at a write-ahead log"})
	c.AddCommand(p.walInspect())
	return c
}

func (p process) walInspect() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect URL", Short: "Print what a log holds and whether it is intact; it changes nothing", Args: exactly("URL"),
		Long:    "Print what a log holds and whether it is intact. It changes nothing, and works while a broker writes to the log, too.",
		Example: "  headpond wal inspect file:headpond-data/wal",
	}
	frames := c.Flags().Bool("frames", false, "print every frame")
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		b, err := config.ParseWAL(args[0])
		if err != nil {
			return usagef("%w", err)
		}
		if b.Scheme != "file" {
			return usagef("%s: a log in memory is its broker's alone", b.Scheme)
		}
		return p.inspectWAL(c.Context(), b.Path, *frames, *asJSON)
	}
	return c
}

func (p process) inspectWAL(ctx context.Context, path string, frames, asJSON bool) error {
	var visit func(filewal.FrameReport)
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	if frames && !asJSON {
		fmt.Fprintln(w, "FILE\tOFFSET\tBYTES\tKIND\tEPOCH\tSEQUENCE\tLAP\tFIRST\tMARK\tRECORDS")
		visit = func(f filewal.FrameReport) {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n",
				f.File, f.Offset, f.Bytes, f.Kind, f.Epoch, f.Sequence, f.Lap, f.First, f.Mark, f.Records)
		}
	}
	r, err := filewal.Inspect(ctx, path, nil, visit)
	if err != nil {
		return err
	}
	if asJSON {
		why := ""
		if r.Err != nil {
			why = r.Err.Error()
		}
		if err := printJSON(p.stdout, map[string]any{
			"id": fmt.Sprintf("%x", r.ID), "segment_bytes": r.SegmentBytes, "files": r.Files, "segments": r.Segments, "epochs": r.Epochs,
			"frames": r.Frames, "trim": r.Trim, "end": r.End, "used_bytes": r.UsedBytes, "cut_bytes": r.CutBytes,
			"replay_records": r.ReplayRecords, "replay_bytes": r.ReplayBytes, "error": why,
		}); err != nil {
			return err
		}
	} else {
		if err := w.Flush(); err != nil {
			return err
		}
		p.printWAL(r)
	}
	if r.Err != nil {
		return fmt.Errorf("the log cannot be opened: %w", r.Err)
	}
	return nil
}

func (p process) printWAL(r filewal.Report) {
	fmt.Fprintf(p.stdout, "log %x: %s of %d bytes, %d of them in use\n", r.ID, count(r.Files, "segment file"), r.SegmentBytes, len(r.Segments))
	fmt.Fprintf(p.stdout, "positions: trimmed up to %d, end at %d; %s in %d bytes\n", r.Trim, r.End, count(r.Frames, "frame"), r.UsedBytes)
	fmt.Fprintf(p.stdout, "a replay delivers %s of %d bytes\n", count(int(r.ReplayRecords), "record"), r.ReplayBytes)
	if r.CutBytes > 0 {
		fmt.Fprintf(p.stdout, "the next opening drops a torn tail of %d bytes, none of it acknowledged\n", r.CutBytes)
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nEPOCH\tFRAMES\tRECORDS\tFIRST")
	for _, e := range r.Epochs {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\n", e.Epoch, e.Frames, e.Records, e.First)
	}
	fmt.Fprintln(w, "\nSEGMENT\tLAP\tFIRST\tBYTES")
	for _, s := range r.Segments {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", s.File, s.Lap, s.First, s.Bytes)
	}
	w.Flush()
	if r.Err == nil {
		fmt.Fprintln(p.stdout, "\nthe log is intact")
	}
}

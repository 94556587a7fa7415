package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/objectfile"
)

func (p process) objectCommand() *cobra.Command {
	c := parent(&cobra.Command{Use: "object", Short: "Look at an object store"})
	c.AddCommand(p.objectList(), p.objectInspect())
	return c
}

// withStore opens the store of a URL, which must be there, for reading.
func withStore(rawURL string, fn func(engine.ObjectStore) error) error {
	b, err := config.ParseObjects(rawURL)
	if err != nil {
		return usagef("%w", err)
	}
	if b.Scheme != "file" {
		return usagef("%s: objects in memory are their broker's alone", b.Scheme)
	}
	store, err := openExistingObjects(b)
	if err != nil {
		return err
	}
	return errors.Join(fn(store), store.Close())
}

func (p process) objectList() *cobra.Command {
	c := &cobra.Command{
		Use: "list URL", Short: "List the objects of a store, by name", Args: exactly("URL"),
		Example: "  headpond object list file:headpond-data/objects",
	}
	prefix := c.Flags().String("prefix", "", "only names that begin so")
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return withStore(args[0], func(store engine.ObjectStore) error {
			objects := []engine.ObjectAttrs{}
			err := store.List(c.Context(), *prefix, func(a engine.ObjectAttrs) bool {
				objects = append(objects, a)
				return true
			})
			if err != nil {
				return fmt.Errorf("list: %w", err)
			}
			slices.SortFunc(objects, func(a, b engine.ObjectAttrs) int { return cmp.Compare(a.Name, b.Name) })
			if *asJSON {
				return printJSON(p.stdout, objects)
			}
			var total int64
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			for _, a := range objects {
				total += a.Size
				fmt.Fprintf(w, "%d\t%s\n", a.Size, a.Name)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "%s, %d bytes\n", count(len(objects), "object"), total)
			return err
		})
	}
	return c
}

func (p process) objectInspect() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect URL KEY", Short: "Print what an object says of itself, and check all of its bytes", Args: exactly("URL", "KEY"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return withStore(args[0], func(store engine.ObjectStore) error {
			return inspectObject(c.Context(), p.stdout, store, args[1])
		})
	}
	return c
}

func inspectObject(ctx context.Context, out io.Writer, store engine.ObjectStore, key string) error {
	attrs, err := store.Head(ctx, key)
	if errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("there is no object %s; headpond object list names those that there are", key)
	}
	if err != nil {
		return fmt.Errorf("object %s: %w", key, err)
	}
	if _, ours := objectfile.ParseKey(key); !ours {
		return inspectOther(ctx, out, store, attrs)
	}
	get := func(off, n int64) ([]byte, error) { return read(ctx, store, key, off, n) }
	ix, err := objectfile.ReadIndex(key, attrs.Size, get)
	if err != nil {
		return damaged(key, err)
	}
	fmt.Fprintf(out, "%s of %d bytes, written by WAL %x, epoch %d, upload %d, object %d, from positions (%d, %d]\ncluster %x\n\n",
		ix.Kind, ix.Size, ix.WAL, ix.Epoch, ix.Upload, ix.Ordinal, ix.From, ix.To, ix.Cluster)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC ID\tPARTITION\tFIRST\tLAST\tRECORDS\tEPOCH\tBYTES\tBLOCKS\tUP TO")
	for i := range ix.Runs {
		r := &ix.Runs[i]
		newest := "-"
		if r.MaxTimestamp >= 0 {
			newest = time.UnixMilli(r.MaxTimestamp).UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%x\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n",
			r.Topic, r.Partition.Partition, r.First, r.Last, r.Records, r.LeaderEpoch, r.Length(), len(r.Blocks), newest)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range ix.Runs {
		r := &ix.Runs[i]
		for _, b := range r.Blocks {
			data, err := get(b.Position, int64(b.Length))
			if err == nil {
				err = objectfile.VerifyBlock(ix.Cluster, r.Partition, b, data)
			}
			if err != nil {
				return damaged(key, err)
			}
		}
	}
	_, err = fmt.Fprintln(out, "\nall checksums are right")
	return err
}

func damaged(key string, err error) error {
	var c *objectfile.CorruptError
	if errors.As(err, &c) {
		return &engine.CorruptError{Where: key, Offset: c.Offset, Reason: c.Reason}
	}
	return fmt.Errorf("object %s: %w", key, err)
}

// inspectOther prints an object that holds no batches: the small ones are text, commits are told by number.
func inspectOther(ctx context.Context, out io.Writer, store engine.ObjectStore, attrs engine.ObjectAttrs) error {
	const most = 64 << 20
	if attrs.Size > most {
		return fmt.Errorf("object %s is none of ours: its name says nothing, and it has %d bytes", attrs.Name, attrs.Size)
	}
	data, err := read(ctx, store, attrs.Name, 0, -1)
	if err != nil {
		return fmt.Errorf("object %s: %w", attrs.Name, err)
	}
	if !bytes.HasPrefix(data, []byte(commitLogMagic)) {
		_, err := fmt.Fprintf(out, "%s", data)
		return err
	}
	commits, err := readCommits(attrs.Name, data)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMMIT\tEPOCH\tTHROUGH\tADDED\tRUNS\tDELETED\tLOG STARTS\tDROPPED\tPRODUCERS\tEPOCHS\tMETADATA")
	for _, c := range commits {
		runs := 0
		for _, o := range c.Added {
			runs += len(o.Runs)
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", c.Seq, c.Epoch, c.Through, len(c.Added), runs, len(c.Deleted),
			len(c.LogStarts), len(c.Dropped), len(c.Producers), len(c.Epochs), len(c.Meta))
	}
	return w.Flush()
}

const commitLogMagic = "HPcl"

// readCommits decodes a commit-log object; docs/format/commitobject.md describes it.
func readCommits(name string, data []byte) ([]*engine.Commit, error) {
	const header, entry = 8, 8
	damage := func(at int, reason string) error {
		return &engine.CorruptError{Where: name, Offset: int64(at), Reason: reason}
	}
	if len(data) < header {
		return nil, damage(0, "it ends within its header")
	}
	if v := binary.LittleEndian.Uint32(data[len(commitLogMagic):]); v != 1 {
		return nil, fmt.Errorf("%w: %s has version %d, and this program knows 1", engine.ErrInvalid, name, v)
	}
	var commits []*engine.Commit
	for at := header; at < len(data); {
		if len(data)-at < entry {
			return nil, damage(at, "it ends within a commit's header")
		}
		n := int64(binary.LittleEndian.Uint32(data[at:]))
		sum := binary.LittleEndian.Uint32(data[at+4:])
		if n > int64(len(data)-at-entry) {
			return nil, damage(at, fmt.Sprintf("a commit of %d bytes does not fit", n))
		}
		encoded := data[at+entry:][:n]
		if crc32.Checksum(encoded, crc32.MakeTable(crc32.Castagnoli)) != sum {
			return nil, damage(at, "wrong checksum of a commit")
		}
		c, err := engine.DecodeCommit(encoded)
		if err != nil {
			return nil, fmt.Errorf("%s at byte %d: %w", name, at, err)
		}
		commits = append(commits, c)
		at += entry + int(n)
	}
	return commits, nil
}

func read(ctx context.Context, store engine.ObjectStore, key string, off, n int64) ([]byte, error) {
	r, err := store.Get(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

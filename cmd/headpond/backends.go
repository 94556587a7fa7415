package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/codec"
	"github.com/headpond/headpond/objbackends/fileobj"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/walbackends/filewal"
	"github.com/headpond/headpond/walbackends/memwal"
)

// openWAL returns the opener of a WAL and the URL that it is registered by.
func openWAL(b config.Backend, frame int) (engine.WALOpener, string, error) {
	if b.Scheme == "mem" {
		return memwal.New(memwal.Options{Capacity: int64(b.Capacity)}).Open, "mem:", nil
	}
	path, err := filepath.Abs(b.Path)
	if err != nil {
		return nil, "", fmt.Errorf("wal %s: %w", b, err)
	}
	open, err := filewal.Opener(path, filewal.Options{Capacity: int64(b.Capacity), FrameBytes: frame})
	return open, fileURL(path), err
}

// openRegistered returns the opener of the WAL that an earlier start registered.
func openRegistered(url string) (engine.WALOpener, error) {
	path, ok := strings.CutPrefix(url, fileURL(""))
	if !ok {
		return nil, fmt.Errorf("%w: this version does not know how to open %s", engine.ErrInvalid, url)
	}
	return filewal.Opener(path, filewal.Options{})
}

// fileURL is how WALs and object stores in files name themselves.
func fileURL(path string) string { return "file://" + path }

func openObjects(b config.Backend) (engine.ObjectStore, error) {
	if b.Scheme == "mem" {
		return new(memobj.Bucket).Open(), nil
	}
	return fileobj.Open(b.Path, fileobj.Options{Create: true})
}

// openExistingObjects is openObjects for tools: an absent store is an error.
func openExistingObjects(b config.Backend) (engine.ObjectStore, error) {
	s, err := fileobj.Open(b.Path, fileobj.Options{})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", b, err)
	}
	return s, nil
}

// openIndex opens the index. One that is damaged is put aside and begun anew: nothing is in it that log and objects do not hold.
func openIndex(dir string, o index.Options, log *slog.Logger) (engine.Index, error) {
	ix, err := index.Open(dir, o)
	if err == nil {
		return ix, nil
	}
	if !errors.Is(err, engine.ErrCorrupt) {
		return nil, fmt.Errorf("open the index: %w", err)
	}
	aside := dir + ".damaged"
	log.Error("the index is damaged; it is put aside and rebuilt from the log and the objects", "index", dir, "aside", aside, "err", err)
	if err := os.RemoveAll(aside); err != nil {
		return nil, fmt.Errorf("put the damaged index aside: %w", err)
	}
	if err := os.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("put the damaged index aside: %w", err)
	}
	ix, err = index.Open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("begin a new index: %w", err)
	}
	return ix, nil
}

// openedWAL remembers the WAL that was opened last, to report how full it is.
type openedWAL struct{ last atomic.Pointer[engine.WAL] }

func (o *openedWAL) watch(open engine.WALOpener) engine.WALOpener {
	return func(ctx context.Context, opts engine.WALOptions) (engine.WAL, error) {
		w, err := open(ctx, opts)
		if err == nil {
			o.last.Store(&w)
		}
		return w, err
	}
}

func (o *openedWAL) stats() (engine.WALStats, bool) {
	w := o.last.Load()
	if w == nil {
		return engine.WALStats{}, false
	}
	return (*w).Stats(), true
}

// batchReader looks into batches for the engine.
type batchReader struct{}

// maxExpanded bounds what a compressed batch may expand to in a look-up by time.
const maxExpanded = 64 << 20

func (batchReader) FindTime(batch []byte, ts int64) (offset, timestamp int64, found bool, err error) {
	return recordbatch.Batch(batch).FirstAtOrAfter(ts, codec.Decompressor{}, maxExpanded)
}

package filewal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/internal/vfs"
)

// Opener returns the opener of the log in a directory. Opening with Create makes the directory and the log
// when they are absent.
// The error is [engine.ErrInvalid], about the options.
func Opener(dir string, o Options) (engine.WALOpener, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: file WAL without a directory", engine.ErrInvalid)
	}
	if abs, err := filepath.Abs(dir); err == nil && o.FS == vfs.OS {
		dir = abs
	}
	return func(ctx context.Context, ask engine.WALOptions) (engine.WAL, error) {
		w := &wal{
			dir: dir, fs: o.FS, opts: o, ask: ask,
			wake: make(chan struct{}, 1), ended: make(chan struct{}),
		}
		if err := w.open(ctx); err != nil {
			w.left = true
			w.releaseLocked()
			return nil, fmt.Errorf("open file WAL %s: %w", dir, classify(err))
		}
		return w, nil
	}, nil
}

// classify gives a file system's error the sentinel that says what to do.
func classify(err error) error {
	for _, known := range []error{
		engine.ErrNotFound, engine.ErrFenced, engine.ErrCorrupt, engine.ErrFull, engine.ErrInvalid, engine.ErrUnavailable,
		engine.ErrDenied, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	switch {
	case vfs.NoSpace(err):
		return fmt.Errorf("%w: %w", engine.ErrFull, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", engine.ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
}

func (w *wal) open(ctx context.Context) error {
	if w.ask.ReadOnly || !w.ask.Create {
		if err := w.exists(); err != nil {
			return err
		}
	}
	if !w.ask.ReadOnly {
		if err := w.takeLock(); err != nil {
			return err
		}
	}
	head, heal, err := readHeader(w.fs, w.dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	switch {
	case fresh && (w.ask.ReadOnly || !w.ask.Create):
		return w.exists()
	case fresh:
		head, err = w.make(ctx)
	case err == nil && heal && !w.ask.ReadOnly:
		err = writeHeader(w.fs, w.dir, head)
	}
	if err != nil {
		return err
	}
	w.head, w.geo = head, geometry{segment: head.segment}
	w.limit = w.opts.segments(head.segment)
	if err := w.openSlots(); err != nil {
		return err
	}
	r := recovery{ctx: ctx, dir: w.dir, geo: w.geo, id: head.id, files: w.files, moving: w.ask.ReadOnly}
	found, err := r.run()
	if err != nil {
		return err
	}
	return w.begin(found, fresh)
}

// exists reports an absent log as [engine.ErrNotFound], before anything is touched.
func (w *wal) exists() error {
	_, err := w.fs.Stat(filepath.Join(w.dir, headerName))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.vacant(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: there is no log", engine.ErrNotFound)
}

// takeLock locks the directory, and makes it when it is absent.
func (w *wal) takeLock() error {
	if err := w.fs.MkdirAll(w.dir); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	lock, err := w.fs.Lock(filepath.Join(w.dir, lockName), fmt.Sprintf("process %d on %s", os.Getpid(), host))
	if _, held := errors.AsType[*vfs.LockedError](err); held {
		return fmt.Errorf("%w: %w", engine.ErrFenced, err)
	}
	if err != nil {
		return err
	}
	w.lock = lock
	return nil
}

var slotFile = regexp.MustCompile(`^\d{6}\.wal$`)

// make creates the log in a directory without a header. The header comes last, once the first frame is durable: a log
// with a header and no frame has lost something, and whatever lies in a directory without one is a leftover of an
// earlier attempt, unless it holds records.
func (w *wal) make(ctx context.Context) (header, error) {
	head := header{segment: uint64(w.opts.SegmentBytes)}
	head.slots = uint32(w.opts.first(head.segment))
	rand.Read(head.id[:]) // never fails
	if err := w.vacant(); err != nil {
		return head, err
	}
	for slot := range int(head.slots) {
		if err := ctx.Err(); err != nil {
			return head, err
		}
		f, err := makeSlot(w.fs, w.dir, slot, w.opts.SegmentBytes)
		if err != nil {
			return head, err
		}
		if slot == 0 {
			var b frame.Builder
			h := frame.Header{Kind: frame.Owner, WAL: head.id, Lap: 1, Sequence: 1, Epoch: w.ask.MinEpoch}
			if _, err = f.WriteAt(b.Seal(&h, sector), 0); err == nil {
				err = f.SyncData()
			}
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return head, err
		}
	}
	if err := w.fs.SyncDir(w.dir); err != nil {
		return head, err
	}
	return head, writeHeader(w.fs, w.dir, head)
}

// vacant refuses a directory without a header that holds something else than leftovers of a log that was being made.
func (w *wal) vacant() error {
	entries, err := w.fs.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockName || name == headerFresh:
		case slotFile.MatchString(name):
			if err := w.leftover(filepath.Join(w.dir, name)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: the directory holds %q and no WAL header", engine.ErrInvalid, name)
		}
	}
	return nil
}

// leftover refuses a segment file that holds records of a log whose header is gone.
func (w *wal) leftover(name string) error {
	f, err := w.fs.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	b := make([]byte, min(size, 2*sector)) // an owner's frame takes one sector
	if _, err := readFull(f, b, 0); err != nil {
		return err
	}
	for ; len(b) >= sector; b = b[sector:] {
		if h, err := frame.Parse(b); err == nil && h.Kind != frame.Owner {
			return fmt.Errorf("%w: %s holds records of WAL %x, and the directory has no header of it", engine.ErrInvalid, name, h.WAL)
		}
	}
	return nil
}

// openSlots opens the segment files that the header counts. Removal of a log's file is damage; a file beyond the count is
// a leftover of an addition that was not finished.
func (w *wal) openSlots() error {
	for slot := range int(w.head.slots) {
		open := w.fs.OpenWrite
		if w.ask.ReadOnly {
			open = w.fs.Open
		}
		name := slotName(w.dir, slot)
		f, err := open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return &engine.CorruptError{Where: name, Offset: -1, Reason: "a file of the log is missing"}
		}
		if err != nil {
			return err
		}
		w.files = append(w.files, f)
		size, err := f.Size()
		if err != nil {
			return err
		}
		if size != int64(w.head.segment) {
			return &engine.CorruptError{Where: name, Offset: size, Reason: fmt.Sprintf(
				"the file has %d bytes, not %d", size, w.head.segment)}
		}
	}
	return nil
}

// begin takes over what was found. For writing, it first settles the past.
func (w *wal) begin(found *recovered, fresh bool) error {
	w.live = found.live
	w.trim, w.trimWanted = found.trim, found.trim
	w.done = found.last.End()
	w.admitted, w.addr = w.done, found.addr
	w.worst = w.addr
	w.info = engine.WALInfo{
		ID: w.head.id, URL: "file://" + w.dir, Epoch: found.last.Epoch,
		Trim: w.trim, End: w.done, Fresh: fresh, Cut: found.cut,
		Capabilities: engine.Capabilities{
			Domain: engine.DomainHost, Fencing: engine.FencingAdvisory, MaxRecord: w.geo.maxRecord(),
		},
	}
	if w.ask.ReadOnly {
		close(w.ended)
		return nil
	}
	if err := w.settlePast(found); err != nil {
		return err
	}
	if err := w.shrink(); err != nil {
		return err
	}
	if err := w.extend(); err != nil {
		return err
	}
	for slot := range w.files {
		if !w.isLive(slot) {
			w.freeLocked(slot)
		}
	}
	w.recycleLocked()
	owner, err := w.own(found)
	if err != nil {
		return err
	}
	newWriter(w, owner)
	return nil
}

// settlePast makes durable what was read. The last frame may be in the page cache only: it is written once more, since
// after a failed sync the system may take its pages for clean, and synced. The frames before it were durable when it
// was written.
func (w *wal) settlePast(found *recovered) error {
	seg := found.live[len(found.live)-1]
	s := scanner{id: w.head.id, file: seg.file, segment: int64(w.geo.segment), lap: seg.lap}
	_, b, err := s.at(int64(found.last.Place))
	if err != nil {
		return &engine.CorruptError{
			Where: seg.file.Name(), Offset: int64(found.last.Place), Reason: "a frame changed while the log was opened", Err: err,
		}
	}
	if _, err := seg.file.WriteAt(b, int64(found.last.Place)); err != nil {
		return err
	}
	return errors.Join(seg.file.SyncData(), w.fs.SyncDir(w.dir))
}

// own writes the frame that begins this owner's epoch. When it is durable, everything at or below the recovered end is
// done and nothing else of an earlier owner ever appears.
func (w *wal) own(found *recovered) (frame.Header, error) {
	last := &found.last
	w.info.Epoch = max(last.Epoch, w.ask.MinEpoch) + 1
	h := frame.Header{
		Kind: frame.Owner, WAL: w.head.id, Epoch: w.info.Epoch, Sequence: last.Sequence + 1,
		First: last.End(), Mark: last.End(), Trim: w.trim, Previous: last.Checksum,
	}
	start := w.geo.fit(w.addr, sector)
	h.Lap, h.Place = w.geo.lap(start), uint64(w.geo.offset(start))
	seg := w.live[len(w.live)-1]
	if seg.lap != h.Lap {
		if len(w.free) == 0 {
			return h, fmt.Errorf("%w: no room for the frame of a new owner", engine.ErrFull)
		}
		seg = w.rollLocked(h.Lap, h.First)
	}
	var b frame.Builder
	bytes := b.Seal(&h, sector)
	if _, err := seg.file.WriteAt(bytes, int64(h.Place)); err != nil {
		return h, err
	}
	if err := seg.file.SyncData(); err != nil {
		return h, err
	}
	seg.add(&h, int64(h.Place))
	w.addr = start + sector
	w.worst = w.addr
	return h, nil
}

func (w *wal) isLive(slot int) bool {
	for _, s := range w.live {
		if s.slot == slot {
			return true
		}
	}
	return false
}

// shrink removes the last files of a log whose capacity was made smaller, as far as they hold nothing. Beside those that
// do, it leaves room for what leads to a trim.
func (w *wal) shrink() error {
	n := len(w.files)
	least := len(w.live) + 2 + int(reserve(uint64(n)*w.geo.segment)/w.geo.segment)
	for n > max(w.limit, least) && !w.isLive(n-1) {
		n--
	}
	if n == len(w.files) {
		return nil
	}
	w.head.slots = uint32(n)
	if err := writeHeader(w.fs, w.dir, w.head); err != nil {
		return err
	}
	for slot, f := range w.files[n:] {
		if err := errors.Join(f.Close(), removeIfThere(w.fs, slotName(w.dir, n+slot))); err != nil {
			return err
		}
	}
	w.files = w.files[:n]
	return w.fs.SyncDir(w.dir)
}

// extend adds the files that a log of a larger capacity begins with. A full disk leaves it at the size that it has.
func (w *wal) extend() error {
	for len(w.files) < w.opts.first(w.geo.segment) {
		w.head.slots++
		f, err := addSlot(w.fs, w.dir, w.head, len(w.files))
		if err != nil {
			w.head.slots--
			w.growErr = err
			if vfs.NoSpace(err) {
				return nil
			}
			return err
		}
		w.files = append(w.files, f)
	}
	return nil
}

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

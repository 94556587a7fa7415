package filewal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/internal/vfs"
)

// Report is what [Inspect] found.
type Report struct {
	ID           engine.ID
	SegmentBytes int64
	Files        int             // segment files
	Segments     []SegmentReport // that hold the log, oldest first
	Epochs       []EpochReport   // owners of which frames are left, oldest first
	Frames       int
	Trim         engine.Position
	End          engine.Position
	UsedBytes    int64 // from the beginning of the oldest segment to the end
	CutBytes     int64 // of a torn tail that the next opening drops, as far as they can be told
	// What a replay would deliver.
	ReplayRecords int64
	ReplayBytes   int64
	// Err is why the log cannot be opened, and everything above is what was found until then. nil: it can.
	Err error
}

// SegmentReport describes one segment.
type SegmentReport struct {
	File  string
	Lap   uint64
	First engine.Position // where its first record begins
	Bytes int64           // of its frames
}

// EpochReport describes what is left of one owner.
type EpochReport struct {
	Epoch   uint64
	Frames  int
	Records int64
	First   engine.Position // where its first frame begins
}

// FrameReport describes one frame.
type FrameReport struct {
	File   string
	Offset int64
	Bytes  int // with padding
	frame.Header
}

// Inspect reads a log and changes nothing, whether or not an owner is writing to it. visit, when not nil, sees each frame
// in order, once the log as a whole was found intact. An error says that there is no log or that it is another one's; what is wrong with a log is in the report.
// A nil fsys is the operating system's.
func Inspect(ctx context.Context, dir string, fsys vfs.FS, visit func(FrameReport)) (Report, error) {
	if fsys == nil {
		fsys = vfs.OS
	}
	w := &wal{dir: dir, fs: fsys, ask: engine.WALOptions{ReadOnly: true}, opts: Options{FS: fsys}}
	defer func() {
		w.left = true
		w.releaseLocked()
	}()
	report, err := w.inspect(ctx, visit)
	if err != nil {
		return report, fmt.Errorf("inspect file WAL %s: %w", dir, classify(err))
	}
	return report, nil
}

func (w *wal) inspect(ctx context.Context, visit func(FrameReport)) (Report, error) {
	var out Report
	head, _, err := readHeader(w.fs, w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, w.exists()
	}
	if err != nil {
		return out, err
	}
	w.head, w.geo = head, geometry{segment: head.segment}
	out.ID, out.SegmentBytes, out.Files = head.id, int64(head.segment), int(head.slots)
	if out.Err = w.openSlots(); out.Err != nil {
		return out, nil
	}
	r := recovery{ctx: ctx, dir: w.dir, geo: w.geo, id: head.id, files: w.files, moving: true}
	r.restart = func() { out.Frames, out.Segments, out.Epochs = 0, nil, nil }
	r.visit = func(slot int, h *frame.Header) { out.add(slotName(w.dir, slot), h) }
	found, err := r.run()
	out.Err = err
	if found == nil {
		return out, nil
	}
	out.Trim, out.End, out.CutBytes = found.trim, found.last.End(), found.cut
	out.UsedBytes = int64(found.addr - found.live[0].lap*w.geo.segment)
	if err != nil {
		return out, nil
	}
	w.live, w.done, w.trim = found.live, out.End, found.trim
	if visit != nil {
		for _, seg := range found.live {
			if out.Err = w.visit(seg, visit); out.Err != nil {
				return out, nil
			}
		}
	}
	out.Err = w.each(ctx, min(max(found.trim, found.live[0].first), out.End), out.End,
		func(_ engine.Position, b []byte) (bool, error) {
			out.ReplayRecords++
			out.ReplayBytes += int64(len(b))
			return true, nil
		})
	return out, nil
}

// visit shows the frames of a segment.
func (w *wal) visit(seg *segment, fn func(FrameReport)) error {
	s := scanner{
		id: w.head.id, file: seg.file, segment: int64(w.geo.segment), lap: seg.lap, ahead: readAhead,
	}
	for off := int64(0); off < seg.end; {
		h, _, err := s.at(off)
		if err != nil {
			return w.unreadable(seg, off, err)
		}
		fn(FrameReport{seg.file.Name(), off, h.Size(sector), h})
		off += int64(h.Size(sector))
	}
	return nil
}

func (o *Report) add(file string, h *frame.Header) {
	o.Frames++
	if n := len(o.Segments); n == 0 || o.Segments[n-1].Lap != h.Lap {
		o.Segments = append(o.Segments, SegmentReport{File: file, Lap: h.Lap, First: h.First})
	}
	o.Segments[len(o.Segments)-1].Bytes += int64(h.Size(sector))
	if n := len(o.Epochs); n == 0 || o.Epochs[n-1].Epoch != h.Epoch {
		o.Epochs = append(o.Epochs, EpochReport{Epoch: h.Epoch, First: h.First})
	}
	e := &o.Epochs[len(o.Epochs)-1]
	e.Frames++
	e.Records += int64(h.Records)
}

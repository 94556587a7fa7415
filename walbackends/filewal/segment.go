package filewal

import (
	"sort"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/frame"
	"github.com/headpond/headpond/internal/vfs"
)

// segment is a stretch of the log that lies in one file.
type segment struct {
	lap   uint64
	slot  int
	file  vfs.File
	first engine.Position // where its first record begins
	end   int64           // offset behind its last frame
	index []indexEntry    // some of its frames, in order, the first one included
	pins  int             // readers that are in it
}

// indexEntry says where the frame lies whose first record begins at a position.
type indexEntry struct {
	first  engine.Position
	offset int64
}

// indexEvery is how many bytes of frames share an index entry: a read walks at most so far to its first record.
const indexEvery = 64 << 10

// add notes a frame that was placed at an offset.
func (s *segment) add(h *frame.Header, offset int64) {
	if n := len(s.index); n == 0 || offset-s.index[n-1].offset >= indexEvery {
		s.index = append(s.index, indexEntry{h.First, offset})
	}
	s.end = offset + int64(h.Size(sector))
}

// seek finds a frame at or before the one that holds the first record beyond a position.
func (s *segment) seek(p engine.Position) indexEntry {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].first > p })
	return s.index[max(0, i-1)]
}

package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headpond/headpond/internal/buffer"
)

// maxGap is how many bytes between two blocks of an object are rather read along than asked for apart.
const maxGap = 64 << 10

// extents groups blocks into reads: one for each chunk of the log, one for blocks of an object that lie close together, of whatever
// partitions. The read that brings the first block comes first, and so on.
func (c *blockCache) extents(refs []blockRef) [][]blockRef {
	type numbered struct {
		blockRef
		n int // of refs
	}
	var inObjects []numbered
	type extent struct {
		refs []blockRef
		n    int
	}
	var all []extent
	seen := make(map[blockKey]bool, len(refs))
	for i, r := range refs {
		switch key := r.key(); {
		case seen[key]:
			continue
		case r.chunk != nil:
			all = append(all, extent{[]blockRef{r}, i})
			seen[key] = true
		default:
			inObjects = append(inObjects, numbered{r, i})
			seen[key] = true
		}
	}
	slices.SortFunc(inObjects, func(a, b numbered) int {
		return cmp.Or(strings.Compare(a.run.Object, b.run.Object), cmp.Compare(a.block().Pos, b.block().Pos))
	})
	for i, r := range inObjects {
		if i > 0 {
			x := &all[len(all)-1]
			pos, end := span(x.refs)
			if x.refs[0].run.Object == r.run.Object && r.block().Pos-end <= maxGap && r.block().Pos+int64(r.block().Len)-pos <= c.limits.extent {
				x.refs = append(x.refs, r.blockRef)
				x.n = min(x.n, r.n)
				continue
			}
		}
		all = append(all, extent{[]blockRef{r.blockRef}, r.n})
	}
	slices.SortStableFunc(all, func(a, b extent) int { return cmp.Compare(a.n, b.n) })
	out := make([][]blockRef, len(all))
	for i, x := range all {
		out[i] = x.refs
	}
	return out
}

// span is where the blocks, in the order of their places, begin and end in their object.
func span(refs []blockRef) (pos, end int64) {
	last := refs[len(refs)-1].block()
	return refs[0].block().Pos, last.Pos + int64(last.Len)
}

// minCharge is the least that a load counts as, which bounds how many run.
const minCharge = 32 << 10

// charge is what a load takes of reads. A load that is larger than all of it runs alone.
func (c *blockCache) charge(refs []blockRef) int64 {
	return min(max(charge(refs), minCharge), c.limits.reads)
}

// charge is the memory that a load takes at most: of the bytes read, and of their copies where they are cut into several blocks.
func charge(refs []blockRef) int64 {
	if r := refs[0]; r.chunk != nil {
		bytes, batches, runs := r.s.sizeOf(r.chunk)
		return bufferCap(bytes) + batches*2*logPieceCost + runs*chunkRunCost
	}
	if len(refs) == 1 {
		return bufferCap(int64(refs[0].block().Len))
	}
	pos, end := span(refs)
	n := bufferCap(end - pos)
	for _, r := range refs {
		n += bufferCap(int64(r.block().Len))
	}
	return n
}

// sizeOf is how much of a chunk may be read from the log.
func (s *session) sizeOf(c *chunk) (bytes, batches, runs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range c.order {
		batches += int64(r.count)
	}
	return c.bytes, batches, int64(len(c.order))
}

// bufferCap is the memory of a buffer of n bytes.
func bufferCap(n int64) int64 { return int64(buffer.SizeOf(int(n))) }

package crashfs

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// CrashAfter plans a crash: n more operations that change something succeed, and the next one is under way when the crash
// comes. It takes effect as unsynced, so a [Keep] decides about it, and it and all later calls return [ErrCrashed].
func (f *FS) CrashAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashIn = n
}

// Crash makes all later calls return [ErrCrashed]. A second crash changes nothing.
func (f *FS) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.crashed {
		f.crashed = true
		close(f.down)
	}
}

// Crashed says whether a crash has come.
func (f *FS) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashed
}

// Keep says what of the unsynced state a crash leaves.
type Keep struct {
	Name string // for messages
	// Sector decides about the i-th of n unsynced sectors, in the order of the writes within each file, files by name.
	// nil keeps none.
	Sector func(i, n int) bool
	// Change decides about the i-th of n unsynced changes of directories, in order. Most file systems journal, so once a
	// change of a directory is lost its later ones are lost too. nil keeps none.
	Change func(i, n int) bool
	// Scattered lets later changes of a directory survive earlier ones that concern other names, which nothing forbids.
	Scattered bool
}

func all(int, int) bool { return true }

// The two simple ways to come back.
var (
	// Synced keeps nothing but what was synced: a power failure at its worst.
	Synced = Keep{Name: "only what was synced"}
	// Written keeps everything: the process was killed, the system lived on.
	Written = Keep{Name: "all that was written", Sector: all, Change: all}
)

// FirstSectors keeps the first k unsynced sectors and all changes of directories: a torn write.
func FirstSectors(k int) Keep {
	return Keep{Name: "first sectors", Sector: func(i, _ int) bool { return i < k }, Change: all}
}

// LastSectors keeps the last k unsynced sectors and all changes of directories: a write torn the other way round.
func LastSectors(k int) Keep {
	return Keep{Name: "last sectors", Sector: func(i, n int) bool { return i >= n-k }, Change: all}
}

// Entries keeps the first k unsynced changes of directories and no unsynced data.
func Entries(k int) Keep {
	return Keep{Name: "directory entries", Change: func(i, _ int) bool { return i < k }}
}

// Random keeps each sector and each change with an even chance.
func Random(seed uint64) Keep {
	sectors, changes := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	return Keep{
		Name:   "random",
		Sector: func(int, int) bool { return sectors.IntN(2) == 0 },
		Change: func(int, int) bool { return changes.IntN(2) == 0 },
	}
}

// Scattered is Random on a file system that does not keep the order of changes in a directory.
func Scattered(seed uint64) Keep {
	k := Random(seed)
	k.Name, k.Scattered = "scattered", true
	return k
}

// Unsynced counts the sectors and the directory changes that a [Keep] decides about.
func (f *FS) Unsynced() (sectors, changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.pendingLocked() {
		for i := range n.pending {
			sectors += n.pending[i].sectors()
		}
	}
	return sectors, len(f.changes)
}

// sectors is how many parts of a write are kept or lost apart. A truncation is one.
func (w *write) sectors() int {
	if w.data == nil {
		return 1
	}
	return int((w.off+int64(len(w.data))+SectorSize-1)/SectorSize - w.off/SectorSize)
}

// pendingLocked returns the files with unsynced writes in the order of their names.
func (f *FS) pendingLocked() []*node {
	var out []*node
	seen := map[*node]bool{}
	visit := func(entries map[string]*node) {
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			if n := entries[name]; !seen[n] && len(n.pending) > 0 {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.dirs)) {
		visit(f.dirs[name].entries)
		visit(f.dirs[name].durable)
	}
	return out
}

// Restart returns the file system as it comes back after a crash of this one, with everything in it synced. This one is
// not changed, so that one crash can come back in many ways; it should have crashed, or nobody should be writing to it.
// Faults, locks and the limit do not carry over.
func (f *FS) Restart(keep Keep) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	sectors := 0
	pending := f.pendingLocked()
	for _, n := range pending {
		for i := range n.pending {
			sectors += n.pending[i].sectors()
		}
	}
	after := map[*node]*node{}
	number := 0
	for _, n := range pending {
		m := n.durable.clone()
		for i := range n.pending {
			number = n.pending[i].survive(&m, keep.Sector, number, sectors)
		}
		after[n] = &node{image: m, durable: m.clone(), reserved: n.reserved}
	}
	survivor := func(n *node) *node {
		if after[n] == nil {
			after[n] = &node{image: n.durable.clone(), durable: n.durable.clone(), reserved: n.reserved}
		}
		return after[n]
	}
	out := New()
	for name, d := range f.dirs {
		out.dirs[name] = newDir()
		for base, n := range d.durable {
			out.dirs[name].entries[base] = survivor(n)
		}
	}
	lost := map[string]bool{}
	for i, c := range f.changes {
		kept := keep.Change != nil && keep.Change(i, len(f.changes))
		concerns := []string{c.dir}
		if keep.Scattered {
			concerns = []string{filepath.Join(c.dir, c.remove), filepath.Join(c.dir, c.add)}
		}
		for _, name := range concerns {
			kept = kept && (!lost[name] || keep.Scattered && name == c.dir)
		}
		if !kept {
			for _, name := range concerns {
				lost[name] = true
			}
			continue
		}
		d := out.dirs[c.dir]
		if d == nil {
			continue // the directory was removed since
		}
		if c.remove != "" {
			delete(d.entries, c.remove)
		}
		if c.add != "" {
			d.entries[c.add] = survivor(c.node)
		}
	}
	for _, d := range out.dirs {
		d.durable = maps.Clone(d.entries)
	}
	return out
}

// survive applies the sectors of a write that are kept, and returns the number of the next one.
func (w *write) survive(m *image, keep func(i, n int) bool, number, total int) int {
	kept := func(i int) bool { return keep != nil && keep(i, total) }
	if w.data == nil {
		if kept(number) {
			w.apply(m)
		}
		return number + 1
	}
	for off, b := w.off, w.data; len(b) > 0; number++ {
		n := min(len(b), int(SectorSize-off%SectorSize))
		if kept(number) {
			m.write(b[:n], off)
		}
		off, b = off+int64(n), b[n:]
	}
	return number
}

// Flip changes a bit of a file on the disk, as rot does.
func (f *FS) Flip(name string, off int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.lookupLocked(filepath.Clean(name))
	if err != nil {
		panic(err)
	}
	for _, m := range []*image{&n.image, &n.durable} {
		var b [1]byte
		m.read(b[:], off)
		b[0] ^= 0x10
		m.write(b[:], off)
	}
}

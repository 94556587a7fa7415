package disk

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Lies are syncs that a disk says it did and did not: a broken program is imitated by a disk that ignores what it leaves out.
type Lies struct {
	FileSync bool // fsync and fdatasync of files, O_DSYNC and O_SYNC do nothing
	DirSync  bool // fsync of directories does nothing
}

// Op is an operation that a fault may fail.
type Op struct {
	Kind string // "open", "create", "mkdir", "read", "write", "sync", "syncdir", "rename", "unlink", "link", "allocate", "truncate"
	Path string // of the file from the root, without a leading slash
	Off  int64  // of a read or write
	Len  int    // of a read or write
}

// Loss says what a power failure took.
type Loss struct {
	Sectors int // written, not synced, and gone
	Names   int // changes of directories that were undone
}

// Disk is the file system. Make it with [New].
type Disk struct {
	mu    sync.Mutex
	root  *inode
	nodes map[uint64]*inode
	next  uint64
	lies  Lies
	fault func(Op) syscall.Errno

	mounted *mount
}

// New returns an empty disk, not mounted.
func New() *Disk {
	d := &Disk{nodes: map[uint64]*inode{}}
	d.root = d.newNode(syscall.S_IFDIR | 0o755)
	d.root.sync()
	return d
}

// SetLies changes which syncs are honest.
func (d *Disk) SetLies(l Lies) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = l
}

// SetFault sets a function that is asked before each operation and fails it with the error it returns, unless that is
// zero. It may block, which stalls the operation alone. Nil removes it.
func (d *Disk) SetFault(fn func(Op) syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fn
}

// PowerFail goes back to what is durable. Of what is not, each sector stays with the probability keep and of the changes
// of each directory a prefix, whose length is random where keep is above zero. The programs that use the disk must be
// dead and the disk not mounted. One seed and one state give one outcome.
func (d *Disk) PowerFail(rng *rand.Rand, keep float64) Loss {
	d.mu.Lock()
	defer d.mu.Unlock()
	var loss Loss
	for _, id := range slices.Sorted(maps.Keys(d.nodes)) {
		n := d.nodes[id]
		n.handles = 0
		if !n.isDir() {
			loss.Sectors += n.data.lose(rng, keep)
			continue
		}
		stay := 0
		if keep > 0 {
			stay = rng.IntN(len(n.pending) + 1)
		}
		loss.Names += len(n.pending) - stay
		for _, change := range n.pending[:stay] {
			change.apply(n.durable)
		}
		n.entries = maps.Clone(n.durable)
		n.pending = nil
	}
	d.dropUnreachable()
	return loss
}

// inode is a file or a directory.
type inode struct {
	id      uint64
	mode    uint32
	mtime   time.Time
	handles int // open files; they keep an inode without a name alive
	parent  *inode
	name    string // in parent: where it was last linked, for faults

	data data // of a file

	entries map[string]*inode // of a directory, as programs see it
	durable map[string]*inode // of a directory, as a power failure leaves it
	pending []change          // what leads from durable to entries
}

// change is one atomic change of a directory: names to set, or to remove where the inode is nil.
type change map[string]*inode

func (c change) apply(entries map[string]*inode) {
	for name, n := range c {
		if n == nil {
			delete(entries, name)
		} else {
			entries[name] = n
		}
	}
}

func (d *Disk) newNode(mode uint32) *inode {
	d.next++
	n := &inode{id: d.next, mode: mode, mtime: time.Now()}
	if n.isDir() {
		n.entries, n.durable = map[string]*inode{}, map[string]*inode{}
	}
	d.nodes[n.id] = n
	return n
}

func (n *inode) isDir() bool { return n.mode&syscall.S_IFMT == syscall.S_IFDIR }

func (n *inode) change(c change) {
	c.apply(n.entries)
	n.pending = append(n.pending, c)
	n.mtime = time.Now()
	for name, child := range c {
		if child != nil {
			child.parent, child.name = n, name
		}
	}
}

func (n *inode) sync() {
	if !n.isDir() {
		n.data.sync()
		return
	}
	n.durable, n.pending = maps.Clone(n.entries), nil
}

func (n *inode) path() string {
	if n.parent == nil {
		return ""
	}
	return path.Join(n.parent.path(), n.name)
}

// dropUnreachable forgets the inodes that nothing leads to any more, now or after a power failure.
func (d *Disk) dropUnreachable() {
	live := map[uint64]*inode{}
	var mark func(*inode)
	mark = func(n *inode) {
		if n == nil || live[n.id] != nil {
			return
		}
		live[n.id] = n
		for _, child := range n.entries {
			mark(child)
		}
		for _, child := range n.durable {
			mark(child)
		}
		for _, c := range n.pending {
			for _, child := range c {
				mark(child)
			}
		}
	}
	mark(d.root)
	for _, n := range d.nodes {
		if n.handles > 0 {
			mark(n)
		}
	}
	d.nodes = live
}

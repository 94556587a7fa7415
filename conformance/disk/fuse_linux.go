package disk

import (
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// fileSystem translates between the kernel and the disk. The kernel is the only way to the disk while it is mounted, so
// it may cache names and attributes for as long as it likes.
type fileSystem struct {
	fuse.RawFileSystem
	disk *Disk

	mu      sync.Mutex
	handles map[uint64]*handle
	last    uint64
}

// handle is an open file or directory.
type handle struct {
	node    *inode
	durable bool     // opened with O_DSYNC or O_SYNC
	names   []string // of a directory, as it was when opened
}

const cacheFor = time.Hour

func (fs *fileSystem) String() string { return "headpond-disk" }

func (fs *fileSystem) open(h *handle) uint64 {
	h.node.handles++
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.last++
	fs.handles[fs.last] = h
	return fs.last
}

func (fs *fileSystem) handle(fh uint64) *handle {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.handles[fh]
}

// node locks the disk and returns an inode, after asking for a fault with a name below it where one is given. The caller unlocks.
func (fs *fileSystem) node(id uint64, kind, name string, off int64, n int) (*inode, syscall.Errno) {
	d := fs.disk
	d.mu.Lock()
	node := d.nodes[id]
	if node == nil {
		return nil, syscall.ESTALE
	}
	if fault := d.fault; fault != nil && kind != "" {
		path := node.path()
		if name != "" {
			path += "/" + name
			if node.parent == nil {
				path = name
			}
		}
		d.mu.Unlock()
		errno := fault(Op{Kind: kind, Path: path, Off: off, Len: n})
		d.mu.Lock()
		if errno != 0 {
			return nil, errno
		}
	}
	return node, 0
}

func (n *inode) fill(out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink = n.id, n.mode, 1
	out.Size = uint64(n.data.size)
	out.Blocks = uint64(len(n.data.blocks)) * (blockSize / sectorSize)
	out.Blksize = blockSize
	out.SetTimes(nil, &n.mtime, &n.mtime)
}

func (n *inode) fillEntry(out *fuse.EntryOut) {
	out.NodeId, out.Generation = n.id, 1
	n.fill(&out.Attr)
	out.SetEntryTimeout(cacheFor)
	out.SetAttrTimeout(cacheFor)
}

func (fs *fileSystem) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir, errno := fs.node(in.NodeId, "", "", 0, 0)
	defer fs.disk.mu.Unlock()
	if errno != 0 {
		return fuse.Status(errno)
	}
	n, errno := fs.disk.lookup(dir, name)
	if errno == 0 {
		n.fillEntry(out)
	}
	return fuse.Status(errno)
}

func (fs *fileSystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, errno := fs.node(in.NodeId, "", "", 0, 0)
	defer fs.disk.mu.Unlock()
	if errno == 0 {
		n.fill(&out.Attr)
		out.SetTimeout(cacheFor)
	}
	return fuse.Status(errno)
}

func (fs *fileSystem) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	kind := ""
	if in.Valid&fuse.FATTR_SIZE != 0 {
		kind = "truncate"
	}
	n, errno := fs.node(in.NodeId, kind, "", int64(in.Size), 0)
	defer fs.disk.mu.Unlock()
	if errno != 0 {
		return fuse.Status(errno)
	}
	if in.Valid&fuse.FATTR_SIZE != 0 {
		n.data.truncate(int64(in.Size))
		n.mtime = time.Now()
	}
	if in.Valid&fuse.FATTR_MODE != 0 {
		n.mode = n.mode&syscall.S_IFMT | in.Mode&0o7777
	}
	n.fill(&out.Attr)
	out.SetTimeout(cacheFor)
	return fuse.OK
}

// enter makes a name in a directory and fills what the kernel wants to know about it.
func (fs *fileSystem) enter(dirID uint64, kind, name string, out *fuse.EntryOut, make func(dir *inode) (*inode, syscall.Errno)) (*inode, fuse.Status) {
	dir, errno := fs.node(dirID, kind, name, 0, 0)
	if errno != 0 {
		return nil, fuse.Status(errno)
	}
	n, errno := make(dir)
	if errno == 0 {
		n.fillEntry(out)
	}
	return n, fuse.Status(errno)
}

func (fs *fileSystem) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if in.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return fuse.EPERM
	}
	defer fs.disk.mu.Unlock()
	_, status := fs.enter(in.NodeId, "create", name, out, func(dir *inode) (*inode, syscall.Errno) {
		return fs.disk.makeNode(dir, name, in.Mode)
	})
	return status
}

func (fs *fileSystem) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	defer fs.disk.mu.Unlock()
	_, status := fs.enter(in.NodeId, "mkdir", name, out, func(dir *inode) (*inode, syscall.Errno) {
		return fs.disk.makeNode(dir, name, syscall.S_IFDIR|in.Mode&0o7777)
	})
	return status
}

func (fs *fileSystem) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	defer fs.disk.mu.Unlock()
	n, status := fs.enter(in.NodeId, "create", name, &out.EntryOut, func(dir *inode) (*inode, syscall.Errno) {
		return fs.disk.makeNode(dir, name, syscall.S_IFREG|in.Mode&0o7777)
	})
	if status == fuse.OK {
		out.Fh = fs.open(&handle{node: n, durable: in.Flags&syscall.O_DSYNC != 0})
	}
	return status
}

func (fs *fileSystem) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	defer fs.disk.mu.Unlock()
	_, status := fs.enter(in.NodeId, "link", name, out, func(dir *inode) (*inode, syscall.Errno) {
		n := fs.disk.nodes[in.Oldnodeid]
		if n == nil {
			return nil, syscall.ESTALE
		}
		return n, fs.disk.link(n, dir, name)
	})
	return status
}

func (fs *fileSystem) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	dir, errno := fs.node(in.NodeId, "unlink", name, 0, 0)
	defer fs.disk.mu.Unlock()
	if errno == 0 {
		errno = fs.disk.unlink(dir, name)
	}
	return fuse.Status(errno)
}

func (fs *fileSystem) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	dir, errno := fs.node(in.NodeId, "unlink", name, 0, 0)
	defer fs.disk.mu.Unlock()
	if errno == 0 {
		errno = fs.disk.rmdir(dir, name)
	}
	return fuse.Status(errno)
}

func (fs *fileSystem) Rename(_ <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	to, errno := fs.node(in.Newdir, "rename", newName, 0, 0)
	defer fs.disk.mu.Unlock()
	if errno != 0 {
		return fuse.Status(errno)
	}
	from := fs.disk.nodes[in.NodeId]
	if from == nil {
		return fuse.Status(syscall.ESTALE)
	}
	return fuse.Status(fs.disk.rename(from, oldName, to, newName, in.Flags))
}

func (fs *fileSystem) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, errno := fs.node(in.NodeId, "open", "", 0, 0)
	defer fs.disk.mu.Unlock()
	if errno != 0 {
		return fuse.Status(errno)
	}
	if in.Flags&syscall.O_TRUNC != 0 {
		n.data.truncate(0)
	}
	out.Fh = fs.open(&handle{node: n, durable: in.Flags&syscall.O_DSYNC != 0})
	return fuse.OK
}

func (fs *fileSystem) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n, errno := fs.node(in.NodeId, "read", "", int64(in.Offset), len(buf))
	defer fs.disk.mu.Unlock()
	if errno != 0 {
		return nil, fuse.Status(errno)
	}
	return fuse.ReadResultData(buf[:n.data.read(buf, int64(in.Offset))]), fuse.OK
}

// Writev leaves writing to Write.
func (fs *fileSystem) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

func (fs *fileSystem) Write(_ <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	n, errno := fs.node(in.NodeId, "write", "", int64(in.Offset), len(p))
	defer fs.disk.mu.Unlock()
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	h := fs.handle(in.Fh)
	n.data.write(p, int64(in.Offset), h != nil && h.durable && !fs.disk.lies.FileSync)
	n.mtime = time.Now()
	return uint32(len(p)), fuse.OK
}

// The modes of fallocate(2).
const (
	fallocKeepSize  = 0x01
	fallocPunchHole = 0x02
	fallocZeroRange = 0x10
)

func (fs *fileSystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	n, errno := fs.node(in.NodeId, "allocate", "", int64(in.Offset), int(in.Length))
	defer fs.disk.mu.Unlock()
	if errno != 0 {
		return fuse.Status(errno)
	}
	if in.Mode&^(fallocKeepSize|fallocPunchHole|fallocZeroRange) != 0 {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	if in.Mode&(fallocPunchHole|fallocZeroRange) != 0 {
		n.data.zero(int64(in.Offset), int64(in.Length))
	}
	if in.Mode&fallocKeepSize == 0 {
		n.data.size = max(n.data.size, int64(in.Offset+in.Length))
	}
	return fuse.OK
}

func (fs *fileSystem) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	n, errno := fs.node(in.NodeId, "sync", "", 0, 0)
	defer fs.disk.mu.Unlock()
	if errno == 0 && !fs.disk.lies.FileSync {
		n.sync()
	}
	return fuse.Status(errno)
}

func (fs *fileSystem) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	n, errno := fs.node(in.NodeId, "syncdir", "", 0, 0)
	defer fs.disk.mu.Unlock()
	if errno == 0 && !fs.disk.lies.DirSync {
		n.sync()
	}
	return fuse.Status(errno)
}

func (fs *fileSystem) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func (fs *fileSystem) release(fh uint64) {
	fs.mu.Lock()
	h := fs.handles[fh]
	delete(fs.handles, fh)
	fs.mu.Unlock()
	if h != nil {
		fs.disk.mu.Lock()
		h.node.handles--
		fs.disk.mu.Unlock()
	}
}

func (fs *fileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { fs.release(in.Fh) }
func (fs *fileSystem) ReleaseDir(in *fuse.ReleaseIn)                 { fs.release(in.Fh) }

func (fs *fileSystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, errno := fs.node(in.NodeId, "", "", 0, 0)
	defer fs.disk.mu.Unlock()
	if errno == 0 {
		out.Fh = fs.open(&handle{node: n, names: slices.Sorted(maps.Keys(n.entries))})
	}
	return fuse.Status(errno)
}

func (fs *fileSystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	n, errno := fs.node(in.NodeId, "", "", 0, 0)
	defer fs.disk.mu.Unlock()
	h := fs.handle(in.Fh)
	if errno != 0 || h == nil {
		return fuse.Status(max(errno, syscall.EPERM))
	}
	for i := int(in.Offset); i < len(h.names); i++ {
		child := n.entries[h.names[i]]
		if child == nil {
			continue // removed since the directory was opened
		}
		if !out.AddDirEntry(fuse.DirEntry{Name: h.names[i], Mode: child.mode, Ino: child.id, Off: uint64(i + 1)}) {
			break
		}
	}
	return fuse.OK
}

func (fs *fileSystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Blocks: 1 << 24, Bfree: 1 << 24, Bavail: 1 << 24, Files: 1 << 20, Ffree: 1 << 20, Bsize: blockSize, Frsize: blockSize, NameLen: 255}
	return fuse.OK
}

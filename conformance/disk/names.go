package disk

import "syscall"

// The operations below hold the semantics; the FUSE side only translates. Each is called with d.mu held.

func (d *Disk) lookup(dir *inode, name string) (*inode, syscall.Errno) {
	n := dir.entries[name]
	if n == nil {
		return nil, syscall.ENOENT
	}
	return n, 0
}

func (d *Disk) makeNode(dir *inode, name string, mode uint32) (*inode, syscall.Errno) {
	if dir.entries[name] != nil {
		return nil, syscall.EEXIST
	}
	n := d.newNode(mode)
	dir.change(change{name: n})
	return n, 0
}

func (d *Disk) unlink(dir *inode, name string) syscall.Errno {
	n := dir.entries[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case n.isDir():
		return syscall.EISDIR
	}
	dir.change(change{name: nil})
	d.tidy()
	return 0
}

func (d *Disk) rmdir(dir *inode, name string) syscall.Errno {
	n := dir.entries[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case !n.isDir():
		return syscall.ENOTDIR
	case len(n.entries) > 0:
		return syscall.ENOTEMPTY
	}
	dir.change(change{name: nil})
	d.tidy()
	return 0
}

// renameNoReplace is RENAME_NOREPLACE of renameat2(2).
const renameNoReplace = 1

func (d *Disk) rename(from *inode, name string, to *inode, newName string, flags uint32) syscall.Errno {
	n, target := from.entries[name], to.entries[newName]
	switch {
	case flags&^renameNoReplace != 0:
		return syscall.EINVAL
	case n == nil:
		return syscall.ENOENT
	case target != nil && flags&renameNoReplace != 0:
		return syscall.EEXIST
	case target == n:
		return 0
	case target != nil && target.isDir() && !n.isDir():
		return syscall.EISDIR
	case target != nil && !target.isDir() && n.isDir():
		return syscall.ENOTDIR
	case target != nil && len(target.entries) > 0:
		return syscall.ENOTEMPTY
	}
	if from == to {
		from.change(change{name: nil, newName: n})
		return 0
	}
	to.change(change{newName: n})
	from.change(change{name: nil})
	return 0
}

func (d *Disk) link(n, dir *inode, name string) syscall.Errno {
	switch {
	case dir.entries[name] != nil:
		return syscall.EEXIST
	case n.isDir():
		return syscall.EPERM
	}
	dir.change(change{name: n})
	return 0
}

// tidy frees what is gone for good, now and then: an index removes many files.
func (d *Disk) tidy() {
	if len(d.nodes)%64 == 0 {
		d.dropUnreachable()
	}
}

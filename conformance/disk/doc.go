// Package disk is a file system that loses what was not synced when its power fails.
//
// Killing a process keeps the page cache, so it cannot tell a program that syncs from one that does not. A [Disk] can: it
// keeps, beside what programs see, what a power failure would leave, and [Disk.PowerFail] goes back to that. It is as
// hostile as POSIX permits:
//
//   - Bytes written are durable only after fsync or fdatasync of their file, or when written with O_DSYNC or O_SYNC. Of
//     others each 512-byte sector may be there or not, in any combination.
//   - A file's size is durable with its bytes.
//   - A name created, removed or renamed is durable only after fsync of its directory; syncing the file itself does not
//     help, although ext4 would be kinder. Of the changes of a directory that were not synced a prefix survives, and a
//     rename within one directory is one change. Directories do not wait for each other.
//
// The disk lives in memory and is mounted through FUSE, so that an unchanged binary runs on it. It can also fail single
// operations (see [Disk.SetFault]) and lie about syncs (see [Lies]), the latter to prove that tests which rely on it
// notice. Mounting needs root on Linux with /dev/fuse.
package disk

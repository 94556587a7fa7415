//go:build !linux

package disk

import "errors"

// ErrUnavailable says that this machine or user cannot mount a disk.
var ErrUnavailable = errors.New("cannot mount a FUSE file system here")

type mount struct{}

// Available returns [ErrUnavailable]: mounting is done on Linux only.
func Available() error { return ErrUnavailable }

// Mount returns [ErrUnavailable].
func (d *Disk) Mount(string) error { return ErrUnavailable }

// Unmount does nothing.
func (d *Disk) Unmount() error { return nil }

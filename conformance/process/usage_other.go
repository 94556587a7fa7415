//go:build !linux

package process

import (
	"errors"
	"os/exec"
	"time"
)

var errNoProc = errors.New("memory and CPU of a process are read from Linux's /proc")

func dieWithParent(*exec.Cmd) {}

// Memory is the resident set of a process in bytes.
type Memory struct {
	Now  int64
	Peak int64
}

// Memory is read on Linux only.
func (b *Broker) Memory() (Memory, error) { return Memory{}, errNoProc }

// ResetPeak works on Linux only.
func (b *Broker) ResetPeak() error { return errNoProc }

// CPU is read on Linux only.
func (b *Broker) CPU() (time.Duration, error) { return 0, errNoProc }

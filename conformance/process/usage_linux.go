package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dieWithParent makes the kernel kill the broker when the test process dies without a chance to.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// Memory is the resident set of a process in bytes.
type Memory struct {
	Now  int64
	Peak int64 // since the process started or ResetPeak was called
}

// Memory reads the resident set of the broker.
func (b *Broker) Memory() (Memory, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for line := range strings.Lines(string(data)) {
		for name, to := range map[string]*int64{"VmRSS:": &m.Now, "VmHWM:": &m.Peak} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				if err != nil {
					return Memory{}, fmt.Errorf("%s %q: %w", name, rest, err)
				}
				*to = kib << 10
			}
		}
	}
	return m, nil
}

// ResetPeak makes the peak of the resident set start again from what it is now.
func (b *Broker) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", b.PID()), []byte("5"), 0)
}

// clockTick is USER_HZ, which Linux fixes at 100 on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// CPU is the processor time that the broker has used, in user and kernel mode, to within 10 ms.
func (b *Broker) CPU() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.PID()))
	if err != nil {
		return 0, err
	}
	// The second field is the name in brackets, which may hold anything; 14 and 15 are user and kernel time.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc stat: %q", data)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Clock gives the instants of a history. All logs of one history share one.
type Clock struct{ origin time.Time }

// NewClock starts a clock at zero. It is monotonic: a wall clock that is set does not move it.
func NewClock() Clock { return Clock{origin: time.Now()} }

// Now is nanoseconds since the clock started.
func (c Clock) Now() int64 { return int64(time.Since(c.origin)) }

// Log is one client's log. Its methods may be called concurrently.
type Log struct {
	Clock Clock

	mu  sync.Mutex
	f   *os.File
	buf []byte
}

// Create makes a log at the path, which must not exist.
func Create(path string, clock Clock) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	return &Log{Clock: clock, f: f}, nil
}

// Append writes the events in one write. When it returns nil they are in the file and survive a kill of this process.
func (l *Log) Append(events ...Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = l.buf[:0]
	for _, e := range events {
		l.buf = e.appendTo(l.buf)
	}
	if _, err := l.f.Write(l.buf); err != nil {
		return fmt.Errorf("append to history %s: %w", l.f.Name(), err)
	}
	return nil
}

// Path is where the log is.
func (l *Log) Path() string { return l.f.Name() }

// Close closes the file; the log is complete before it.
func (l *Log) Close() error { return l.f.Close() }

// Scan calls fn for each event of a log, in order. A last line without a newline is what a kill left and is dropped; any
// other line that is not an event is an error that names it.
func Scan(r io.Reader, fn func(Event)) error {
	_, err := scan(r, fn)
	return err
}

// scan is Scan; it returns how many bytes of whole lines there were.
func scan(r io.Reader, fn func(Event)) (n int64, err error) {
	br := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		line, err := br.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		e, err := parse(line[:len(line)-1])
		if err != nil {
			return n, fmt.Errorf("line %d, %q: %w", number, line, err)
		}
		n += int64(len(line))
		fn(e)
	}
}

// Follower checks logs that still grow: each time it reads what is new. It is not for concurrent use.
type Follower struct {
	checker *Checker
	read    map[string]int64 // bytes of each log
}

// NewFollower returns a follower that has read nothing.
func NewFollower() *Follower { return &Follower{NewChecker(), map[string]int64{}} }

// Check reads what the logs at the paths have that it has not read yet, in this order, and judges the history so far. Logs
// of readers come before those of producers: what was read then was announced in a log that is read later.
func (f *Follower) Check(paths ...string) (Report, error) {
	for _, p := range paths {
		if err := f.follow(p); err != nil {
			return Report{}, fmt.Errorf("history %s: %w", p, err)
		}
	}
	return f.checker.Report(), nil
}

func (f *Follower) follow(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(f.read[path], io.SeekStart); err != nil {
		return err
	}
	n, err := scan(file, f.checker.Add)
	f.read[path] += n
	return err
}

// CheckFiles checks the history that the logs at the paths make together.
func CheckFiles(paths ...string) (Report, error) { return NewFollower().Check(paths...) }

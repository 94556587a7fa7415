package bench

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headpond/headpond/internal/vfs"
)

// connections and inFlight are the load of every contender that has many operations in flight.
const (
	connections = 4
	inFlight    = 5
)

// rawWrite is one write at a time into a file that was written before, each followed by fdatasync: the first write to an
// allocated block costs the file system a change of its metadata, which a log that goes round does not pay.
func rawWrite(t *testing.T, size int) func(time.Duration) result {
	t.Helper()
	const area = 256 << 20
	f, err := vfs.OS.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Preallocate(area); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < area; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
	data, at := content(size), 0
	return func(d time.Duration) result {
		return during(d, true, size, func() {
			if _, err := f.WriteAt(data, int64(at)); err != nil {
				t.Error(err)
			}
			if err := f.SyncData(); err != nil {
				t.Error(err)
			}
			if at += size; at+size > area {
				at = 0
			}
		})
	}
}

// untimed drops the latencies, where only the rate is compared.
func untimed(run func(time.Duration) result) func(time.Duration) result {
	return func(d time.Duration) result {
		r := run(d)
		r.latency = nil
		return r
	}
}

// loopback sends messages of size bytes over several connections and waits for short answers, some in flight on each.
func loopback(t *testing.T, size int) func(time.Duration) result {
	t.Helper()
	const answer = 64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, size)
				for {
					if _, err := io.ReadFull(c, buf); err != nil {
						return
					}
					if _, err := c.Write(buf[:answer]); err != nil {
						return
					}
				}
			}()
		}
	}()
	message := content(size)
	return pipelined(t, l.Addr().String(), size, func() []byte { return message }, func(c net.Conn) error {
		_, err := io.ReadFull(c, make([]byte, answer))
		return err
	})
}

// pipelined keeps inFlight messages unanswered on each connection; read takes one answer.
func pipelined(t *testing.T, addr string, size int, message func() []byte, read func(net.Conn) error) func(time.Duration) result {
	return func(d time.Duration) result {
		var ops atomic.Int64
		var wg sync.WaitGroup
		begin := time.Now()
		for range connections {
			wg.Go(func() {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				room := make(chan struct{}, inFlight)
				var writer sync.WaitGroup
				writer.Go(func() {
					defer close(room)
					for m := message(); time.Since(begin) < d; {
						room <- struct{}{}
						if _, err := c.Write(m); err != nil {
							t.Error(err)
							return
						}
					}
				})
				for range room { // at most one more is in flight than its room says
					if err := read(c); err != nil {
						t.Error(err)
						c.Close()
						for range room {
						}
						break
					}
					ops.Add(1)
				}
				writer.Wait()
			})
		}
		wg.Wait()
		return result{bytes: ops.Load() * int64(size), ops: ops.Load(), elapsed: time.Since(begin)}
	}
}

package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// taken are the ports that this run has given out: a broker that is down for a moment keeps its own.
var taken struct {
	sync.Mutex
	ports map[int]bool
}

// FreePort returns a loopback address whose port nothing listens on. It lies below the range that Linux and macOS take
// for outgoing connections, so that no client's socket sits on it while a broker restarts.
func FreePort(t testing.TB) string {
	t.Helper()
	taken.Lock()
	defer taken.Unlock()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if taken.ports[port] {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		l.Close()
		if taken.ports == nil {
			taken.ports = map[int]bool{}
		}
		taken.ports[port] = true
		return addr
	}
	t.Fatal("no free port between 20000 and 32000")
	return ""
}

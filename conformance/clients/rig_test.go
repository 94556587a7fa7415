package clients

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
)

var addrFlag = flag.String("addr", "", "run against this broker instead of one of our own")

func TestMain(m *testing.M) { process.Main(m) }

// settings make a broker pleasant for tests: a group starts at once.
const settings = "broker:\n  group.initial.rebalance.delay.ms: 0\n"

// own starts a broker of the test's own.
func own(t *testing.T, args ...string) *process.Broker {
	t.Helper()
	if *addrFlag != "" {
		t.Skip("needs a broker of its own")
	}
	file := filepath.Join(t.TempDir(), "headpond.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return process.Start(t, process.Config{Args: append([]string{"--config", file}, args...)})
}

// anyBroker returns the address of a broker: the one asked for, or one of the test's own.
func anyBroker(t *testing.T) string {
	t.Helper()
	if *addrFlag != "" {
		return *addrFlag
	}
	return own(t).Addr
}

var topics atomic.Int64

// newTopic makes a topic with a name of its own.
func newTopic(t *testing.T, addr string, partitions int32, config ...string) string {
	t.Helper()
	name := fmt.Sprintf("t%d-%d", os.Getpid(), topics.Add(1))
	cfg := map[string]*string{}
	for _, kv := range config {
		k, v, _ := strings.Cut(kv, "=")
		cfg[k] = &v
	}
	if err := load.CreateTopic(t.Context(), addr, name, partitions, cfg); err != nil {
		t.Fatal(err)
	}
	return name
}

// deadline is a context that ends a hang.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), process.Deadline)
	t.Cleanup(cancel)
	return ctx
}

// client is one family.
type client interface {
	// produce writes the records to partition 0, one after the other.
	produce(t *testing.T, addr, topic, codec string, maxBytes int, records []record)
	// consume reads n records of partition 0 from its beginning.
	consume(t *testing.T, addr, topic string, n int) []record
}

// families are the clients by name; a subtest that needs one which is not installed does not run.
var families = []struct {
	name string
	make func(t *testing.T) client
}{
	{"franz-go", func(*testing.T) client { return franz{} }},
	{"kcat", func(t *testing.T) client { return kcat{notrun.Program(t, "kcat")} }},
	{"sarama", func(*testing.T) client { return saramaClient{} }},
}

// restartWithoutIndex kills the broker, removes its index and starts it again.
func restartWithoutIndex(t *testing.T, b *process.Broker) {
	t.Helper()
	b.Kill()
	if err := os.RemoveAll(filepath.Join(b.DataDir, "index")); err != nil {
		t.Fatal(err)
	}
	b.Start()
}

package clients

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
)

// breaking dials connections that die at random, most often when a request is out and its answer is not in: the
// client cannot know whether it was carried out, and sends it again.
type breaking struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (b *breaking) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return &breakingConn{Conn: c, reads: 20 + b.rng.IntN(200)}, nil
}

type breakingConn struct {
	net.Conn
	reads int // left; only the client's one reading goroutine counts it down
}

var errBroken = errors.New("broken on purpose")

func (c *breakingConn) Read(p []byte) (int, error) {
	if c.reads--; c.reads <= 0 {
		c.Conn.Close()
		return 0, errBroken
	}
	return c.Conn.Read(p)
}

// Batches that are sent again because their answer was lost are there once, in order, and are answered with the offsets
// that they got the first time.
func TestLostAnswersMakeNoDuplicates(t *testing.T) {
	addr := anyBroker(t)
	const partitions = 4
	topic := newTopic(t, addr, partitions)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dialer := &breaking{rng: rand.New(rand.NewPCG(seed, 1))}
	l, err := load.Start(load.Options{
		Addr: addr, Topic: topic, Partitions: partitions, Dir: t.TempDir(), Seed: seed,
		Client: []kgo.Opt{kgo.Dialer(dialer.dial)}, Pace: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	process.Eventually(t, "records to be acknowledged", func() bool { return l.Acked() > 10_000 || l.Failures() != nil })
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := l.ReadAll(deadline(t)); err != nil {
		t.Fatal(err)
	}
	report, err := l.Check()
	if err != nil || !report.OK() {
		t.Fatal(report, err)
	}
	t.Log(report)
}

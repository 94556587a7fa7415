package load

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/conformance/history"
)

const partitions = 5

func fake(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

func start(t *testing.T, addr string) *Load {
	t.Helper()
	l, err := Start(Options{Addr: addr, Topic: "t", Partitions: partitions, Dir: t.TempDir(), Seed: 1, Producers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func waitAcked(l *Load, n int64) {
	for l.Acked() < n && l.Failures() == nil {
		<-time.After(time.Millisecond)
	}
}

func TestAHistoryOfASoundBrokerHasNoAnomaly(t *testing.T) {
	l := start(t, fake(t))
	if err := l.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitAcked(l, 500)
	// A complete reading and a check while the load runs, and at its end.
	if err := l.ReadAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Check(); err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := l.ReadAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := l.Check()
	if err != nil || !r.OK() || r.Acked < 500 || r.Sent != r.Acked || r.Partitions != partitions {
		t.Fatal(r, err)
	}
	t.Log(r)
}

// A broker that answers one produce request without storing it is found out, whatever the client thinks.
func TestABrokerThatForgetsIsCaught(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := start(t, c.ListenAddrs()[0])
	waitAcked(l, 200)
	forgot := make(chan history.Partition, 1)
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition, sp.BaseOffset = rp.Partition, 1<<20 // far beyond what will be there
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		forgot <- history.Partition{}
		return resp, nil, true
	})
	<-forgot
	l.Stop() // the client may or may not notice
	if err := l.ReadAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := l.Check()
	if err != nil || r.Count[history.Lost] == 0 || r.Count[history.Fell] == 0 {
		t.Fatal(r, err)
	}
}

func TestRecordsCarryTheirIDAndADigestOfEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range uint64(1000) {
		id := history.MakeID(3, n)
		r, digest := newRecord(rng, id, history.Partition{Topic: "t"}, 100_000)
		if ID(r) != id || Digest(r) != digest {
			t.Fatal("a record does not carry what it was made with")
		}
		changed := *r
		switch n % 4 {
		case 0:
			changed.Value = append(r.Value[:len(r.Value)-1:len(r.Value)-1], r.Value[len(r.Value)-1]^1)
		case 1:
			changed.Timestamp = r.Timestamp.Add(time.Millisecond)
		case 2:
			if changed.Key = nil; r.Key == nil {
				changed.Key = []byte{}
			}
		case 3:
			changed.Headers = append(r.Headers, kgo.RecordHeader{})
		}
		if Digest(&changed) == digest {
			t.Fatalf("a change of kind %d is not noticed", n%4)
		}
	}
}

func TestFailuresAreToldAndBounded(t *testing.T) {
	var l Load
	for range 2 * maxFailures {
		l.fail(os.ErrDeadlineExceeded)
	}
	if got := strings.Count(l.Failures().Error(), "\n") + 1; got != maxFailures {
		t.Fatalf("%d failures", got)
	}
}

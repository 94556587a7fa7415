package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
)

const groupPartitions = 6

// fill writes n records, numbered from first, over all partitions.
func fill(t *testing.T, addr, topic string, first, n int) {
	t.Helper()
	cl, err := load.Client(addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for i := first; i < first+n; i++ {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % groupPartitions), Value: fmt.Append(nil, i)})
	}
	if err := cl.ProduceSync(deadline(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// numbers are the values from first, n of them.
func numbers(first, n int) []string {
	var out []string
	for i := first; i < first+n; i++ {
		out = append(out, fmt.Sprint(i))
	}
	slices.Sort(out)
	return out
}

// seen collects values from several members.
type seen struct {
	mu     sync.Mutex
	values map[string]int
	by     map[string]int // values of each member
}

func newSeen() *seen { return &seen{values: map[string]int{}, by: map[string]int{}} }

func (s *seen) add(member string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[string(value)]++
	s.by[member]++
}

func (s *seen) has(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values) >= n
}

func (s *seen) members() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by)
}

func (s *seen) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values))
}

// member joins a group, gives what it reads to s, and returns a function that commits what it has read and leaves.
type member func(t *testing.T, addr, topic, group, name string, s *seen) (leave func())

// franzMember is a member of franz-go; with an instance it is a static one.
func franzMember(instance string, opts ...kgo.Opt) member {
	if instance != "" {
		opts = append(opts, kgo.InstanceID(instance))
	}
	return func(t *testing.T, addr, topic, group, name string, s *seen) func() {
		t.Helper()
		cl, err := load.Client(addr, append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, _ map[string][]int32) { cl.CommitUncommittedOffsets(ctx) })}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { s.add(name, r.Value) })
			}
		})
		return func() {
			t.Helper()
			cancel()
			wg.Wait()
			if err := cl.CommitUncommittedOffsets(deadline(t)); err != nil {
				t.Errorf("commit: %v", err)
			}
			cl.Close()
			if instance == "" {
				return
			}
			// A static member that closes stays in the group until its session ends, so that it may come back; it is
			// removed by its instance.
			adm, err := load.Client(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer adm.Close()
			left, err := kadm.NewClient(adm).LeaveGroup(deadline(t), kadm.LeaveGroup(group).InstanceIDs(instance))
			if err != nil || left.Error() != nil {
				t.Errorf("remove instance %s: %v, %v", instance, err, left.Error())
			}
		}
	}
}

func saramaMember(t *testing.T, addr, topic, group, name string, s *seen) func() {
	t.Helper()
	c := saramaConfig()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	g, err := sarama.NewConsumerGroup([]string{addr}, group, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for range g.Errors() { // a broker that is killed is an error that the member survives
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			g.Consume(ctx, []string{topic}, saramaHandler{name, s})
		}
		if err := g.Close(); err != nil {
			t.Errorf("leave: %v", err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

type saramaHandler struct {
	name string
	s    *seen
}

func (saramaHandler) Setup(sarama.ConsumerGroupSession) error { return nil }

func (saramaHandler) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

func (h saramaHandler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		h.s.add(h.name, m.Value)
		session.MarkMessage(m, "")
	}
	return nil
}

// Members of a group share the partitions, and what they commit survives kill -9 and the loss of the index: whoever joins
// later reads what came after, and nothing else.
func TestGroupsShareAndResume(t *testing.T) {
	b := own(t)
	for name, join := range map[string]member{
		"franz-go cooperative": franzMember("", kgo.Balancers(kgo.CooperativeStickyBalancer())),
		"franz-go eager":       franzMember("", kgo.Balancers(kgo.RangeBalancer())),
		"franz-go static":      franzMember(""), // given an instance below
		"sarama":               saramaMember,
	} {
		t.Run(name, func(t *testing.T) {
			topic, group := newTopic(t, b.Addr, groupPartitions), "group of "+name
			one, two := join, join
			if name == "franz-go static" {
				one, two = franzMember("one"), franzMember("two")
			}
			s := newSeen()
			leaveOne := one(t, b.Addr, topic, group, "one", s)
			leaveTwo := two(t, b.Addr, topic, group, "two", s)
			n := 0
			process.Eventually(t, "both members to have read", func() bool {
				fill(t, b.Addr, topic, n, 2*groupPartitions)
				n += 2 * groupPartitions
				return s.members() == 2
			})
			process.Eventually(t, "all to be read", func() bool { return s.has(n) })
			leaveOne()
			process.Eventually(t, "the other to have all partitions", func() bool {
				fill(t, b.Addr, topic, n, groupPartitions)
				n += groupPartitions
				return s.has(n)
			})
			leaveTwo()
			if got := s.sorted(); !slices.Equal(got, numbers(0, n)) {
				t.Fatalf("%d values read, %d written", len(got), n)
			}
			fill(t, b.Addr, topic, n, 30)
			resumed := newSeen()
			restartWithoutIndex(t, b)
			leave := one(t, b.Addr, topic, group, "one", resumed)
			process.Eventually(t, "the new ones to be read", func() bool { return resumed.has(30) })
			leave()
			if got := resumed.sorted(); !slices.Equal(got, numbers(n, 30)) {
				t.Fatalf("after the restart %d values were read, want the 30 new ones: %v", len(got), got)
			}
		})
	}
}

// kcat's group reads to the end, and a second run of it only what is new.
func TestKcatsGroupResumes(t *testing.T) {
	k := kcat{notrun.Program(t, "kcat")}
	b := own(t)
	topic := newTopic(t, b.Addr, groupPartitions)
	read := func() []string {
		out := k.run(t, b.Addr, "-G", "kcat group", "-e", "-q", "-X", "auto.offset.reset=earliest", topic)
		return slices.Sorted(slices.Values(slices.Collect(func(yield func(string) bool) {
			for line := range bytes.Lines(out) {
				if !yield(string(bytes.TrimSpace(line))) {
					return
				}
			}
		})))
	}
	fill(t, b.Addr, topic, 0, 600)
	if got := read(); !slices.Equal(got, numbers(0, 600)) {
		t.Fatalf("%d values of 600", len(got))
	}
	fill(t, b.Addr, topic, 600, 60)
	restartWithoutIndex(t, b)
	if got := read(); !slices.Equal(got, numbers(600, 60)) {
		t.Fatalf("%d values, want the 60 new ones", len(got))
	}
}

// Groups are listed, described and deleted, and a deleted one starts anew.
func TestGroupsAreAdministered(t *testing.T) {
	addr := anyBroker(t)
	topic, group := newTopic(t, addr, groupPartitions), "administered"+fmt.Sprint(topics.Add(1))
	fill(t, addr, topic, 0, 12)
	s := newSeen()
	leave := franzMember("")(t, addr, topic, group, "one", s)
	process.Eventually(t, "all to be read", func() bool { return s.has(12) })
	cl, err := load.Client(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	described, err := adm.DescribeGroups(deadline(t), group)
	if err != nil || described[group].State != "Stable" || len(described[group].Members) != 1 {
		t.Fatalf("described as %+v, %v", described[group], err)
	}
	if _, err := adm.DeleteGroup(deadline(t), group); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Fatalf("deleting a group with a member: %v", err)
	}
	leave()
	lag, err := adm.Lag(deadline(t), group)
	if err != nil || lag[group].Lag.Total() != 0 {
		t.Fatalf("lag %+v, %v", lag[group], err)
	}
	listed, err := adm.ListGroups(deadline(t))
	if err != nil || !slices.Contains(listed.Groups(), group) {
		t.Fatalf("listed %v, %v", listed.Groups(), err)
	}
	if _, err := adm.DeleteGroup(deadline(t), group); err != nil {
		t.Fatal(err)
	}
	again := newSeen()
	leave = franzMember("")(t, addr, topic, group, "one", again)
	process.Eventually(t, "all to be read again", func() bool { return again.has(12) })
	leave()
}

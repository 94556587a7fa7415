package group_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/kafkaapi/group"
)

func TestConsumersShareAGroup(t *testing.T) {
	for _, tt := range []struct {
		name     string
		balancer kgo.GroupBalancer
		static   bool
	}{
		{"eager", kgo.RangeBalancer(), false},
		{"cooperative", kgo.CooperativeStickyBalancer(), false},
		{"static", kgo.CooperativeStickyBalancer(), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t)
			c.topic("lines", 6)
			adm := c.admin()
			var y tally
			ctx, cancel := context.WithCancel(c.ctx())
			defer cancel()
			var wg sync.WaitGroup
			member := func(i int) {
				o := []kgo.Opt{
					kgo.ConsumerGroup("g"), kgo.ConsumeTopics("lines"), kgo.Balancers(tt.balancer), kgo.DisableAutoCommit(),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.SessionTimeout(hang),
				}
				if tt.static {
					o = append(o, kgo.InstanceID(fmt.Sprint("instance", i)))
				}
				cl := c.client(o...)
				wg.Go(func() { c.consume(ctx, cl, &y) })
			}
			stable := func(members int) func() bool {
				return func() bool {
					d, err := adm.DescribeGroups(c.ctx(), "g")
					return err == nil && d["g"].Err == nil && d["g"].State == "Stable" && len(d["g"].Members) == members
				}
			}
			member(0)
			member(1)
			c.eventually("two members", stable(2))
			c.produce("lines", 6, 0, 300)
			c.eventually("300 records", func() bool { return y.count() == 300 })
			member(2) // they hand over partitions
			c.eventually("three members", stable(3))
			c.produce("lines", 6, 300, 600)
			c.eventually("600 records", func() bool { return y.count() == 600 })
			cancel()
			wg.Wait()
			groups, err := adm.ListGroups(c.ctx())
			if err != nil || len(groups) != 1 || groups["g"].ProtocolType != "consumer" {
				t.Errorf("groups %v: %v", groups, err)
			}
		})
	}
}

func TestCommittedOffsetsSurviveTheBrokerAndItsIndex(t *testing.T) {
	c := newCluster(t)
	c.topic("lines", 3)
	c.produce("lines", 3, 0, 90)
	adm := c.admin()
	read := func(n int) {
		t.Helper()
		cl := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("lines"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer cl.Close()
		for got := 0; got < n; {
			fs := cl.PollRecords(c.ctx(), n-got)
			if err := fs.Err(); err != nil {
				t.Fatal(err)
			}
			got += fs.NumRecords()
		}
		if err := cl.CommitUncommittedOffsets(c.ctx()); err != nil {
			t.Fatal("commit:", err)
		}
	}
	lag := func(want int64) {
		t.Helper()
		lags, err := adm.Lag(c.ctx(), "g")
		if err != nil || lags.Error() != nil {
			t.Fatal(err, lags.Error())
		}
		if got := lags["g"].Lag.Total(); got != want {
			t.Errorf("lag %d, want %d", got, want)
		}
	}
	for i := range 3 {
		read(30)
		lag(int64(90 - 30*(i+1)))
		c.restart()
		adm = c.admin()
		lag(int64(90 - 30*(i+1)))
	}

	// An administrator moves an offset of the empty group, deletes another, and then the group.
	var reset kadm.Offsets
	reset.Add(kadm.Offset{Topic: "lines", Partition: 0, At: 7, Metadata: "moved"})
	if err := adm.CommitAllOffsets(c.ctx(), "g", reset); err != nil {
		t.Fatal(err)
	}
	var gone kadm.TopicsSet
	gone.Add("lines", 1)
	if r, err := adm.DeleteOffsets(c.ctx(), "g", gone); err != nil || r.Error() != nil {
		t.Fatal(err, r.Error())
	}
	c.restart()
	adm = c.admin()
	offsets, err := adm.FetchOffsets(c.ctx(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := offsets.Lookup("lines", 0); !ok || o.At != 7 || o.Metadata != "moved" {
		t.Errorf("offset %+v", o)
	}
	if o, ok := offsets.Lookup("lines", 1); ok {
		t.Errorf("offset %+v", o)
	}
	if r, err := adm.DeleteGroup(c.ctx(), "g"); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	c.restart()
	adm = c.admin()
	if groups, err := adm.ListGroups(c.ctx()); err != nil || len(groups) != 0 {
		t.Errorf("groups %v: %v", groups, err)
	}
	if r, err := adm.DeleteGroup(c.ctx(), "g"); !errors.Is(err, kerr.GroupIDNotFound) && !errors.Is(r.Err, kerr.GroupIDNotFound) {
		t.Errorf("delete of what is gone: %v, %v", err, r.Err)
	}
}

// A write of the log fails, the engine opens the log again, and consumers go on.
func TestConsumersOutliveAFailureOfTheLog(t *testing.T) {
	c := newCluster(t)
	c.topic("lines", 2)
	c.produce("lines", 2, 0, 100)
	cl := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("lines"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100*time.Millisecond))
	ctx, cancel := context.WithCancel(c.ctx())
	defer cancel()
	var y tally
	var wg sync.WaitGroup
	wg.Go(func() { c.consume(ctx, cl, &y) })
	adm := c.admin()
	read := func() bool {
		lags, err := adm.Lag(c.ctx(), "g")
		return err == nil && lags.Error() == nil && lags["g"].Lag.Total() == 0
	}
	c.eventually("the first half", func() bool { return y.count() == 100 && read() })
	c.disk.FailNext(errors.New("input/output error"))
	c.produce("lines", 2, 100, 200)
	c.eventually("the second half", func() bool { return y.count() == 200 && read() })
	c.disk.FailNext(errors.New("input/output error"))
	var reset kadm.Offsets
	reset.Add(kadm.Offset{Topic: "lines", Partition: 0, At: 7})
	c.eventually("a commit without a member", func() bool { return adm.CommitAllOffsets(c.ctx(), "other", reset) == nil })
	cancel()
	wg.Wait()
}

// The log of the topic's partition stays short on the engine too, and what is left of it is all there was.
func TestEnginesLogIsWrittenAnew(t *testing.T) {
	c := newCluster(t)
	c.topic("lines", 1)
	o := group.Options{Partitions: 1, SnapshotBytes: 8 << 10, Logger: slog.New(slog.DiscardHandler)}
	open := func() *group.Coordinator {
		g, err := group.New(c.engine, o)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := open()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Generation = 9, -1
	for i := range int64(500) {
		req.Group = fmt.Sprint("g", i%3)
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "lines", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: i}}}}
		if code := g.OffsetCommit(c.ctx(), req, group.Client{}).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("commit: code %d", code)
		}
	}
	if err := g.Close(c.ctx()); err != nil {
		t.Fatal(err)
	}
	topic, err := c.engine.Topic(group.Topic)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.engine.Partition(engine.PartitionID{Topic: topic.ID})
	if err != nil {
		t.Fatal(err)
	}
	offsets, err := p.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	if kept := offsets.HighWatermark - offsets.LogStart; offsets.LogStart == 0 || kept > 200 {
		t.Errorf("offsets %d to %d", offsets.LogStart, offsets.HighWatermark)
	}
	c.restart()
	g = open()
	defer g.Close(c.ctx())
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 8
	for i := range 3 {
		fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: fmt.Sprint("g", i)})
	}
	for i, r := range g.OffsetFetch(c.ctx(), fetch, group.Client{}).Groups {
		if r.ErrorCode != 0 || len(r.Topics) != 1 || r.Topics[0].Partitions[0].Offset != int64([]int{498, 499, 497}[i]) {
			t.Errorf("%+v", r)
		}
	}
}

// Another family of clients.
func TestSaramaConsumes(t *testing.T) {
	c := newCluster(t)
	c.topic("lines", 4)
	c.produce("lines", 4, 0, 100)
	for _, v := range []sarama.KafkaVersion{sarama.V0_11_0_0, sarama.V2_6_0_0} {
		cfg := sarama.NewConfig()
		cfg.Version = v
		cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
		g, err := sarama.NewConsumerGroup([]string{c.address}, "sarama "+v.String(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var y tally
		ctx, cancel := context.WithCancel(c.ctx())
		err = g.Consume(ctx, []string{"lines"}, saramaHandler(func(m *sarama.ConsumerMessage) {
			if y.add(string(m.Value)) == 100 {
				cancel()
			}
		}))
		if err != nil && ctx.Err() == nil {
			t.Error(v, err)
		}
		cancel()
		if err := g.Close(); err != nil {
			t.Error(v, err)
		}
		if len(y.seen) != 100 {
			t.Errorf("%s: %d records of 100", v, len(y.seen))
		}
		lags, err := c.admin().Lag(c.ctx(), "sarama "+v.String())
		if err != nil || lags.Error() != nil || lags["sarama "+v.String()].Lag.Total() != 0 {
			t.Errorf("%s: %+v, %v", v, lags, err)
		}
	}
}

type saramaHandler func(*sarama.ConsumerMessage)

func (saramaHandler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h saramaHandler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m := <-c.Messages():
			if m == nil {
				return nil
			}
			h(m)
			s.MarkMessage(m, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

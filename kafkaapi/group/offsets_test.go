package group

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCommittedOffsetsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines", "words")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		together(t, m)
		wantCode(t, "commit", m.commit("lines", 0, 10), codeNone)
		wantCode(t, "commit", m.commit("lines", 0, 11), codeNone)
		wantCode(t, "commit", m.commit("words", 7, 20), codeNone)
		wantCode(t, "commit without a member", c.commitSimple(t, "simple", "lines", 1, 5), codeNone)
		want := map[string]int64{"lines/0": 11, "words/7": 20}
		wantOffsets(t, c.fetchAll(t, "g"), want)
		stop(t, c)

		c = start(t, f, testOptions)
		wantOffsets(t, c.fetchAll(t, "g"), want)
		wantOffsets(t, c.fetchAll(t, "simple"), map[string]int64{"lines/1": 5})
		// The member is still one, and ends with its session.
		m.c = c
		wantCode(t, "heartbeat", m.heartbeat(), codeNone)
		wantCode(t, "commit", m.commit("lines", 0, 12), codeNone)
		if got := m.sync(); string(got.MemberAssignment) != "to "+m.id {
			t.Errorf("sync: code %d, assignment %q", got.ErrorCode, got.MemberAssignment)
		}
		time.Sleep(m.session + time.Second)
		c.wantState(t, "g", "Empty", 0)
		stop(t, c)

		c = start(t, f, testOptions)
		c.wantState(t, "g", "Empty", 0)
		if d := c.describe(t, "g"); d.ProtocolType != "consumer" {
			t.Errorf("protocol type %q", d.ProtocolType)
		}
		next := c.consumer(t, "g")
		if next.join(); next.generation != 3 {
			t.Errorf("generation %d", next.generation)
		}
	})
}

func TestReadingCreatesNoTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{})
		wantCode(t, "describe", c.describe(t, "g").ErrorCode, codeGroupIDNotFound)
		list := kmsg.NewPtrListGroupsRequest()
		if resp := c.ListGroups(t.Context(), list, Client{}); resp.ErrorCode != codeNone || len(resp.Groups) != 0 {
			t.Errorf("list %+v", resp)
		}
		wantCode(t, "delete", c.deleteGroupCode(t, "g"), codeGroupIDNotFound)
		wantCode(t, "commit to no topic", c.commitSimple(t, "g", "nowhere", 0, 1), codeUnknownTopic)
		wantCode(t, "heartbeat", c.consumer(t, "g").heartbeat(), codeUnknownMember)
		if _, err := f.Topic(Topic); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("the topic is there: %v", err)
		}
		wantCode(t, "commit", c.commitSimple(t, "g", "lines", 0, 1), codeNone)
		topic, err := f.Topic(Topic)
		if err != nil || topic.Partitions != 3 || !topic.Internal || topic.Config["cleanup.policy"] != "compact" {
			t.Errorf("topic %+v: %v", topic, err)
		}
	})
}

func TestOffsetFetchTellsWhatIsNotThereWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		wantCode(t, "commit", c.commitSimple(t, "g", "lines", 2, 9), codeNone)
		for version := int16(1); version <= 9; version++ {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version, req.Group = version, "g"
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "lines", Partitions: []int32{2, 3}}, {Topic: "none", Partitions: []int32{0}}}
			req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{
				{Topic: "lines", Partitions: []int32{2, 3}}, {Topic: "none", Partitions: []int32{0}},
			}}, {Group: "unknown", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "lines", Partitions: []int32{2}}}}}
			resp := roundTrip(t, c.OffsetFetch(t.Context(), req, Client{}))
			var got []int64
			if version < 8 {
				wantCode(t, "fetch", resp.ErrorCode, codeNone)
				for _, ft := range resp.Topics {
					for _, p := range ft.Partitions {
						wantCode(t, "partition", p.ErrorCode, codeNone)
						got = append(got, p.Offset)
					}
				}
				got = append(got, -1)
			} else {
				for _, g := range resp.Groups {
					wantCode(t, "group", g.ErrorCode, codeNone)
					for _, ft := range g.Topics {
						for _, p := range ft.Partitions {
							wantCode(t, "partition", p.ErrorCode, codeNone)
							got = append(got, p.Offset)
						}
					}
				}
			}
			if len(got) != 4 || got[0] != 9 || got[1] != -1 || got[2] != -1 || got[3] != -1 {
				t.Errorf("version %d: offsets %d", version, got)
			}
		}
	})
}

func TestCommitsAreCheckedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newFakeService("lines"), testOptions)
		req := commitRequest("g", "lines", 0, 1)
		long, fits := strings.Repeat("x", 4097), strings.Repeat("x", 4096)
		req.Topics[0].Partitions = []kmsg.OffsetCommitRequestTopicPartition{
			{Partition: 0, Offset: 1, Metadata: &long}, {Partition: 1, Offset: 2, Metadata: &fits},
			{Partition: 8, Offset: 3}, {Partition: -1, Offset: 4}, {Partition: 2, Offset: 5},
		}
		resp := c.OffsetCommit(t.Context(), req, Client{})
		for i, want := range []int16{codeMetadataTooLarge, codeNone, codeUnknownTopic, codeUnknownTopic, codeNone} {
			wantCode(t, "partition", resp.Topics[0].Partitions[i].ErrorCode, want)
		}
		wantCode(t, "commit without a group id", c.commitSimple(t, "", "lines", 0, 1), codeInvalidGroupID)
	})
}

func TestOffsetsOfADeletedTopicAreNotInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines", "words")
		c := start(t, f, testOptions)
		for p := range int32(3) {
			wantCode(t, "commit", c.commitSimple(t, "g", "lines", p, 10), codeNone)
		}
		wantCode(t, "commit", c.commitSimple(t, "g", "words", 0, 7), codeNone)
		f.remove("lines")
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"words/0": 7})
		f.create("lines", 8)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"words/0": 7})
		wantCode(t, "commit", c.commitSimple(t, "g", "lines", 1, 3), codeNone)
		want := map[string]int64{"lines/1": 3, "words/0": 7}
		wantOffsets(t, c.fetchAll(t, "g"), want)
		synctest.Wait() // for the sweep
		if n := len(c.Groups()[0].Offsets); n != 2 {
			t.Errorf("%d offsets", n)
		}
		stop(t, c)
		c = start(t, f, testOptions)
		wantOffsets(t, c.fetchAll(t, "g"), want)
		synctest.Wait()
		img := image{}
		replay(t, f.groupsLog("g"), img)
		if n := len(img["g"].offsets); n != 2 {
			t.Errorf("%d offsets in the log", n)
		}
	})
}

// A look-up that fails is no proof that a topic is gone.
func TestOffsetsStayWhileTheEngineCannotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		together(t, m)
		wantCode(t, "commit", m.commit("lines", 0, 10), codeNone)
		f.fail(engine.ErrUnavailable)
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = 7, "g"
		wantCode(t, "fetch", c.OffsetFetch(t.Context(), req, Client{}).ErrorCode, codeLoading)
		wantCode(t, "commit", m.commit("lines", 0, 11), codeNotAvailable)
		wantCode(t, "heartbeat", m.heartbeat(), codeNone)
		c.onTick()
		synctest.Wait()
		f.fail(nil)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 10})
		wantCode(t, "commit", m.commit("lines", 0, 11), codeNone)
	})
}

func TestOffsetsExpireAfterTheirGroupIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines", "other")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		m.session = 25 * time.Minute
		together(t, m)
		wantCode(t, "commit", m.commit("lines", 0, 10), codeNone)
		wantCode(t, "commit of what it does not read", m.commit("other", 0, 10), codeNone)
		wantCode(t, "commit", c.commitSimple(t, "simple", "lines", 0, 1), codeNone)
		live := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(m.session / 2) {
				if code := m.heartbeat(); code != codeNone {
					t.Fatalf("heartbeat: code %d", code)
				}
			}
		}
		const day = 24 * time.Hour
		live(6 * day)
		wantOffsets(t, c.fetchAll(t, "simple"), map[string]int64{"lines/0": 1})
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 10, "other/0": 10})
		live(2 * day)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 10})
		wantCode(t, "describe", c.describe(t, "simple").ErrorCode, codeGroupIDNotFound)
		m.leave()
		time.Sleep(6 * day)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 10})
		time.Sleep(2 * day)
		wantCode(t, "describe", c.describe(t, "g").ErrorCode, codeGroupIDNotFound)
		for _, g := range []string{"g", "simple"} {
			img := image{}
			replay(t, f.groupsLog(g), img)
			if len(img) != 0 {
				t.Errorf("the log still has %v", img)
			}
		}
	})
}

func TestDeleteGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		together(t, m)
		wantCode(t, "commit", m.commit("lines", 0, 10), codeNone)
		wantCode(t, "delete", c.deleteGroupCode(t, "g"), codeNonEmptyGroup)
		m.leave()
		wantCode(t, "delete", c.deleteGroupCode(t, "g"), codeNone)
		wantCode(t, "delete", c.deleteGroupCode(t, "g"), codeGroupIDNotFound)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{})
		stop(t, c)
		c = start(t, f, testOptions)
		wantCode(t, "delete", c.deleteGroupCode(t, "g"), codeGroupIDNotFound)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{})
	})
}

func TestOffsetDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines", "other")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		together(t, m)
		m.commit("lines", 0, 10)
		m.commit("other", 0, 11)
		m.commit("other", 1, 12)
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = "g"
		req.Topics = []kmsg.OffsetDeleteRequestTopic{
			{Topic: "lines", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}},
			{Topic: "other", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 5}, {Partition: 50}}},
		}
		resp := c.OffsetDelete(t.Context(), req, Client{})
		wantCode(t, "offset delete", resp.ErrorCode, codeNone)
		wantCode(t, "subscribed", resp.Topics[0].Partitions[0].ErrorCode, codeGroupSubscribedToTopic)
		for i, want := range []int16{codeNone, codeNone, codeUnknownTopic} {
			wantCode(t, "other", resp.Topics[1].Partitions[i].ErrorCode, want)
		}
		want := map[string]int64{"lines/0": 10, "other/1": 12}
		wantOffsets(t, c.fetchAll(t, "g"), want)
		stop(t, c)
		c = start(t, f, testOptions)
		wantOffsets(t, c.fetchAll(t, "g"), want)
		req.Group = "unknown"
		wantCode(t, "offset delete", c.OffsetDelete(t.Context(), req, Client{}).ErrorCode, codeGroupIDNotFound)
	})
}

func TestListGroupsFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		together(t, c.consumer(t, "stable"))
		c.commitSimple(t, "empty", "lines", 0, 1)
		stop(t, c)
		c = start(t, f, testOptions)
		for _, tt := range []struct {
			states, types []string
			want          string
		}{
			{nil, nil, "empty stable"}, {[]string{"stable"}, nil, "stable"}, {[]string{"Empty", "Dead"}, nil, "empty"},
			{nil, []string{"Classic"}, "empty stable"}, {nil, []string{"consumer"}, ""},
		} {
			req := kmsg.NewPtrListGroupsRequest()
			req.Version, req.StatesFilter, req.TypesFilter = 5, tt.states, tt.types
			var got []string
			for _, g := range c.ListGroups(t.Context(), req, Client{}).Groups {
				got = append(got, g.Group)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("states %v, types %v: %q, want %q", tt.states, tt.types, s, tt.want)
			}
		}
	})
}

func TestGroupsGivesLagOfAllThatIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		together(t, m)
		m.commit("lines", 3, 60)
		m.commit("lines", 1, 200)
		stop(t, c)
		c = start(t, f, testOptions)
		if n := len(c.Groups()); n != 0 {
			t.Errorf("%d groups before the load", n)
		}
		synctest.Wait()
		g := c.Groups()
		if len(g) != 1 || g[0].ID != "g" || g[0].State != "Stable" || g[0].Members != 1 || g[0].Generation != 1 {
			t.Fatalf("groups %+v", g)
		}
		if o := g[0].Offsets; len(o) != 2 || o[0] != (GroupOffset{"lines", 1, 200, 0}) || o[1] != (GroupOffset{"lines", 3, 60, 40}) {
			t.Errorf("offsets %+v", o)
		}
	})
}

func TestGroupsAreGoneWithTheirTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		m := c.consumer(t, "g")
		together(t, m)
		m.commit("lines", 0, 1)
		f.remove(Topic)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{})
		wantCode(t, "heartbeat", m.heartbeat(), codeUnknownMember)
		wantCode(t, "commit", c.commitSimple(t, "g", "lines", 0, 2), codeNone)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{"lines/0": 2})
		f.create(Topic, 1)
		wantOffsets(t, c.fetchAll(t, "g"), map[string]int64{})
	})
}

func TestCommitWaitsNoLongerThanItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeService("lines")
		c := start(t, f, testOptions)
		wantCode(t, "commit", c.commitSimple(t, "g", "lines", 0, 1), codeNone)
		release := make(chan struct{})
		f.groupsLog("g").set(func(l *fakeLog) {
			l.onAppend = func() (error, bool) { <-release; return nil, false }
		})
		began := time.Now()
		wantCode(t, "commit", c.commitSimple(t, "g", "lines", 0, 2), codeRequestTimedOut)
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		close(release)
	})
}

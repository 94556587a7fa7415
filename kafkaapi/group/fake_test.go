package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/buffer"
	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeService is an engine of topics alone; fakeLog stands in for its partitions.
type fakeService struct {
	engine.Service

	mu     sync.Mutex
	topics map[string]*engine.Topic
	last   byte
	err    error // of every look-up
	logs   map[engine.PartitionID]*fakeLog
}

func newFakeService(topics ...string) *fakeService {
	f := &fakeService{topics: map[string]*engine.Topic{}, logs: map[engine.PartitionID]*fakeLog{}}
	for _, t := range topics {
		f.create(t, 8)
	}
	return f
}

func (f *fakeService) create(name string, partitions int32) *engine.Topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	t := &engine.Topic{Name: name, ID: engine.ID{f.last}, Partitions: partitions, Internal: name == Topic}
	f.topics[name] = t
	return t
}

func (f *fakeService) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.topics, name)
}

func (f *fakeService) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeService) Topic(name string) (*engine.Topic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if t := f.topics[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("topic %q: %w", name, engine.ErrNotFound)
}

func (f *fakeService) TopicByID(id engine.ID) (*engine.Topic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	for t := range maps.Values(f.topics) {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, fmt.Errorf("topic %x: %w", id, engine.ErrNotFound)
}

func (f *fakeService) CreateTopic(_ context.Context, name string, c engine.TopicChange) (*engine.Topic, error) {
	if t, err := f.Topic(name); err == nil {
		return t, engine.ErrExists
	} else if !errors.Is(err, engine.ErrNotFound) {
		return nil, err
	}
	t := f.create(name, c.Partitions)
	t.Config, t.Internal = c.Config, c.Internal
	return t, nil
}

func (f *fakeService) log(id engine.PartitionID) *fakeLog {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[id]
	if l == nil {
		l = &fakeLog{}
		f.logs[id] = l
	}
	return l
}

// groupsLog is the log that holds a group.
func (f *fakeService) groupsLog(group string) *fakeLog {
	t, err := f.Topic(Topic)
	if err != nil {
		panic(err)
	}
	return f.log(engine.PartitionID{Topic: t.ID, Partition: PartitionFor(group, t.Partitions)})
}

// fakeLog is a partition in memory.
type fakeLog struct {
	mu      sync.Mutex
	batches []recordbatch.Batch
	next    int64
	bytes   int
	// Each is called, if set, before the thing is done; an error is returned instead of doing it. lost says that an append's
	// error leaves its outcome unknown; it has landed all the same.
	onAppend func() (err error, lost bool)
	onRead   func() error
	onDelete func() error
	deleted  int
}

func (l *fakeLog) set(change func(*fakeLog)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (l *fakeLog) append(_ context.Context, b *buffer.Buffer, _ bool) (int64, bool, error) {
	l.mu.Lock()
	hook := l.onAppend
	l.mu.Unlock()
	var err error
	lost := false
	if hook != nil {
		if err, lost = hook(); err != nil && !lost {
			return 0, false, err
		}
	}
	batch, cerr := recordbatch.Check(slices.Clone(b.Bytes()), recordbatch.Limits{})
	if cerr != nil {
		panic(cerr)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	batch.SetBaseOffset(l.next)
	l.batches = append(l.batches, batch)
	l.next = batch.NextOffset()
	l.bytes += len(batch)
	return batch.BaseOffset(), true, err
}

func (l *fakeLog) read(ctx context.Context, fn func(recordbatch.Batch) error) error {
	l.mu.Lock()
	hook, batches := l.onRead, slices.Clone(l.batches)
	l.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	for _, b := range batches {
		if err := fn(b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (l *fakeLog) deleteBefore(_ context.Context, offset int64) error {
	l.mu.Lock()
	hook := l.onDelete
	l.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.batches) > 0 && l.batches[0].BaseOffset() < offset {
		if l.batches[0].NextOffset() > offset {
			panic("deletion inside a batch")
		}
		l.bytes -= len(l.batches[0])
		l.batches = l.batches[1:]
	}
	l.deleted++
	return nil
}

// copy is a log with the same content.
func (l *fakeLog) copy() *fakeLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &fakeLog{batches: slices.Clone(l.batches), next: l.next, bytes: l.bytes}
}

var testOptions = Options{
	Partitions: 3, InitialRebalanceDelay: -1, MinSessionTimeout: time.Millisecond,
	Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
}

// start returns a coordinator over the service, which is closed with the test.
func start(t *testing.T, f *fakeService, o Options) *Coordinator {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := newCoordinator(f, o)
	c.openLog = func(id engine.PartitionID) (offsetsLog, error) { return f.log(id), nil }
	c.highWatermark = func(engine.PartitionID) (int64, error) { return 100, nil }
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *Coordinator) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// consumer is a client of the group protocol.
type consumer struct {
	t          *testing.T
	c          *Coordinator
	group      string
	version    int16 // of JoinGroup; the others follow
	id         string
	instance   *string
	protocols  []string
	session    time.Duration
	rebalance  time.Duration
	generation int32
	ctx        context.Context // of JoinGroup; nil: the test's
}

func (c *Coordinator) consumer(t *testing.T, group string) *consumer {
	return &consumer{t: t, c: c, group: group, version: 9, protocols: []string{"range"},
		session: 10 * time.Second, rebalance: time.Minute}
}

func (m *consumer) static(instance string) *consumer {
	m.instance = &instance
	return m
}

// tryJoin sends one JoinGroup.
func (m *consumer) tryJoin() *kmsg.JoinGroupResponse {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = m.version, m.group, m.id, m.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(m.session.Milliseconds()), int32(m.rebalance.Milliseconds())
	req.ProtocolType = "consumer"
	for _, p := range m.protocols {
		metadata := kmsg.ConsumerMemberMetadata{Topics: []string{"lines"}, UserData: []byte(p)}
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: metadata.AppendTo(nil)})
	}
	ctx := m.ctx
	if ctx == nil {
		ctx = m.t.Context()
	}
	resp := m.c.JoinGroup(ctx, req, Client{"client", "/127.0.0.1"})
	if resp.ErrorCode == codeNone {
		m.generation = resp.Generation
	}
	if resp.ErrorCode == codeNone || resp.ErrorCode == codeMemberIDRequired {
		m.id = resp.MemberID
	}
	return resp
}

// join joins as clients do: again with the id that it is given.
func (m *consumer) join() *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp := m.tryJoin()
	if resp.ErrorCode == codeMemberIDRequired {
		resp = m.tryJoin()
	}
	if resp.ErrorCode != codeNone {
		m.t.Errorf("join: code %d", resp.ErrorCode)
	}
	return resp
}

// sync sends SyncGroup with an assignment for each of the members.
func (m *consumer) sync(members ...*consumer) *kmsg.SyncGroupResponse {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 5, m.group, m.generation, m.id, m.instance
	for _, o := range members {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: o.id, MemberAssignment: []byte("to " + o.id),
		})
	}
	return m.c.SyncGroup(m.t.Context(), req, Client{})
}

func (m *consumer) heartbeat() int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = 4, m.group, m.generation, m.id, m.instance
	return m.c.Heartbeat(m.t.Context(), req, Client{}).ErrorCode
}

func (m *consumer) leave() int16 {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 2, m.group, m.id
	return m.c.LeaveGroup(m.t.Context(), req, Client{}).ErrorCode
}

// commit commits one offset as the member.
func (m *consumer) commit(topic string, partition int32, at int64) int16 {
	req := commitRequest(m.group, topic, partition, at)
	req.Generation, req.MemberID, req.InstanceID = m.generation, m.id, m.instance
	return commitCode(m.c.OffsetCommit(m.t.Context(), req, Client{}))
}

func commitRequest(group, topic string, partition int32, at int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, group, -1
	metadata := fmt.Sprint("at ", at)
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{
		{Partition: partition, Offset: at, LeaderEpoch: 5, Metadata: &metadata},
	}}}
	return req
}

func commitCode(resp *kmsg.OffsetCommitResponse) int16 { return resp.Topics[0].Partitions[0].ErrorCode }

// commit commits one offset without a member.
func (c *Coordinator) commitSimple(t *testing.T, group, topic string, partition int32, at int64) int16 {
	return commitCode(c.OffsetCommit(t.Context(), commitRequest(group, topic, partition, at), Client{}))
}

// fetchAll returns all committed offsets of a group, as "topic/partition".
func (c *Coordinator) fetchAll(t *testing.T, group string) map[string]int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 9
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group}}
	resp := c.OffsetFetch(t.Context(), req, Client{})
	if resp.Groups[0].ErrorCode != codeNone {
		t.Errorf("fetch of group %s: code %d", group, resp.Groups[0].ErrorCode)
	}
	all := map[string]int64{}
	for _, ft := range resp.Groups[0].Topics {
		for _, p := range ft.Partitions {
			all[fmt.Sprintf("%s/%d", ft.Topic, p.Partition)] = p.Offset
			if want := fmt.Sprint("at ", p.Offset); p.Metadata == nil || *p.Metadata != want || p.LeaderEpoch != 5 {
				t.Errorf("offset %d has metadata %v and epoch %d", p.Offset, p.Metadata, p.LeaderEpoch)
			}
		}
	}
	return all
}

func (c *Coordinator) describe(t *testing.T, group string) kmsg.DescribeGroupsResponseGroup {
	t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 6, []string{group}
	return c.DescribeGroups(t.Context(), req, Client{}).Groups[0]
}

func (c *Coordinator) wantState(t *testing.T, group, state string, members int) {
	t.Helper()
	if d := c.describe(t, group); d.State != state || len(d.Members) != members {
		t.Errorf("group %s is %s with %d members, want %s with %d", group, d.State, len(d.Members), state, members)
	}
}

func (c *Coordinator) deleteGroupCode(t *testing.T, group string) int16 {
	t.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = 3, []string{group}
	return c.DeleteGroups(t.Context(), req, Client{}).Groups[0].ErrorCode
}

func wantCode(t *testing.T, what string, got, want int16) {
	t.Helper()
	if got != want {
		t.Errorf("%s: code %d, want %d", what, got, want)
	}
}

func wantOffsets(t *testing.T, got, want map[string]int64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("offsets %v, want %v", got, want)
	}
}

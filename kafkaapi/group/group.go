package group

import (
	"slices"
	"strings"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// state is a group's state, by Kafka's names.
type state int8

const (
	empty      state = iota // no members
	preparing               // waits for members to join
	completing              // waits for the leader's assignment
	stable                  // every member has, or can get, its assignment
)

func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[s]
}

// group is one group. Every method is called with the shard's mutex held, save the timers' callbacks, which take it.
type group struct {
	s  *shard
	id string

	state      state
	stateSince int64 // ms since 1970; -1: nobody ever joined
	// dead: the records that delete the group are on their way, or the group is out of use.
	dead bool

	generation   int32
	protocolType string // "" while nobody ever joined
	protocol     string // chosen in this generation; "" while the group is empty
	leader       string // member id
	members      map[string]*member
	joined       uint64            // members that ever joined, for their order
	instances    map[string]string // member ids of the static members
	pending      map[string]*time.Timer
	// unsynced are the members that have not asked for their assignment in this generation.
	unsynced map[string]struct{}
	// assignedIn is the generation of the last assignment that a leader has sent.
	assignedIn int32

	// timer ends the state preparing, or removes what is in unsynced. round tells its callbacks apart.
	timer *time.Timer
	round int
	// Of the state preparing: it began in an empty group, members came during the delay, and what is left of the longest delay.
	initial     bool
	memberAdded bool
	delayLeft   time.Duration

	// meta is the group's record in the log, as far as it is durable; nil: none.
	meta []byte
	// metaQueued are the writes of it that are under way.
	metaQueued int
	offsets    map[topicPartition]offset // durable ones
}

func newGroup(s *shard, id string) *group {
	return &group{
		s: s, id: strings.Clone(id), stateSince: -1,
		members:   map[string]*member{},
		instances: map[string]string{},
		pending:   map[string]*time.Timer{},
		unsynced:  map[string]struct{}{},
		offsets:   map[topicPartition]offset{},
	}
}

func (g *group) nowMillis() int64 { return g.s.c.o.Now().UnixMilli() }

func (g *group) setState(s state) {
	g.state, g.stateSince = s, g.nowMillis()
}

// drop takes the group out of use: it stops its timers and answers what is parked.
func (g *group) drop() {
	g.dead = true
	g.stopTimer()
	for id, t := range g.pending {
		t.Stop()
		delete(g.pending, id)
	}
	for _, m := range g.members {
		m.timer.Stop()
		m.answerJoin(joinResult{code: codeNotCoordinator})
		m.answerSync(syncResult{code: codeNotCoordinator})
	}
}

// forgetIfBare drops a group of which nothing is worth keeping.
func (g *group) forgetIfBare() {
	if g.state == empty && !g.dead && len(g.members)+len(g.pending)+len(g.offsets)+g.metaQueued == 0 && g.meta == nil {
		g.drop()
		delete(g.s.groups, g.id)
	}
}

// ordered returns the members in the order in which they joined.
func (g *group) ordered() []*member {
	ms := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		ms = append(ms, m)
	}
	slices.SortFunc(ms, func(a, b *member) int {
		if a.order < b.order {
			return -1
		}
		return 1
	})
	return ms
}

// validate checks that a member is one, and that nobody else has taken its instance id (KIP-345).
func (g *group) validate(memberID string, instance *string) int16 {
	if instance != nil {
		switch id, ok := g.instances[*instance]; {
		case !ok:
			return codeUnknownMember
		case id != memberID:
			return codeFencedInstance
		}
	}
	if g.members[memberID] == nil {
		return codeUnknownMember
	}
	return codeNone
}

// encodeMeta is the group's record as of now.
func (g *group) encodeMeta() []byte {
	v := kmsg.GroupMetadataValue{
		Version: groupValueVersion, ProtocolType: g.protocolType, Generation: g.generation, CurrentStateTimestamp: g.stateSince,
	}
	if g.protocol != "" {
		v.Protocol = &g.protocol
	}
	if g.leader != "" {
		v.Leader = &g.leader
	}
	for _, m := range g.ordered() {
		v.Members = append(v.Members, kmsg.GroupMetadataValueMember{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.client.ID, ClientHost: m.client.Host,
			RebalanceTimeoutMillis: int32(m.rebalanceTimeout.Milliseconds()),
			SessionTimeoutMillis:   int32(m.sessionTimeout.Milliseconds()),
			Subscription:           m.metadata(g.protocol), Assignment: m.assignment,
		})
	}
	return v.AppendTo(nil)
}

// writeMeta makes the group's record as of now durable. done may be nil; it is called with the shard's mutex held.
func (g *group) writeMeta(done func(error)) {
	meta := g.encodeMeta()
	g.metaQueued++
	g.s.enqueue(&write{records: []record{{groupKey(g.id), meta}}, done: func(err error) {
		g.metaQueued--
		if err == nil {
			g.meta = meta
		}
		if done != nil {
			done(err)
		} else if err != nil {
			g.s.c.o.Logger.Warn("cannot write a group's state", "group", g.id, "error", err)
		}
	}})
}

// live returns the group's records.
func (g *group) live() []record {
	records := make([]record, 0, len(g.offsets)+1)
	if g.meta != nil {
		records = append(records, record{groupKey(g.id), g.meta})
	}
	for tp, o := range g.offsets {
		records = append(records, offsetRecord(g.id, tp, o))
	}
	return records
}

// liveBytes is about how long the group's records are in a log.
func (g *group) liveBytes() int64 {
	const overhead = 72 // of an offset's record
	n := int64(len(g.meta) + len(g.id))
	for tp, o := range g.offsets {
		n += int64(overhead + len(g.id) + len(tp.topic) + len(o.metadata))
	}
	return n
}

// restore makes a group from what the log says. Its members go on where they were, with a whole session before them. An
// error says that the members' record is damaged; the offsets are there all the same.
func (s *shard) restore(id string, img *groupImage) error {
	g := s.group(id)
	g.offsets, g.meta = img.offsets, img.meta
	if g.meta == nil {
		return nil
	}
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(g.meta); err != nil {
		return err
	}
	g.generation, g.protocolType, g.stateSince = v.Generation, v.ProtocolType, v.CurrentStateTimestamp
	if len(v.Members) == 0 {
		return nil
	}
	g.state = stable
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	for _, vm := range v.Members {
		m := &member{
			id: vm.MemberID, instance: vm.InstanceID, client: Client{vm.ClientID, vm.ClientHost},
			sessionTimeout:   time.Duration(vm.SessionTimeoutMillis) * time.Millisecond,
			rebalanceTimeout: time.Duration(vm.RebalanceTimeoutMillis) * time.Millisecond,
			protocols:        []protocol{{g.protocol, slices.Clone(vm.Subscription)}},
			assignment:       slices.Clone(vm.Assignment),
		}
		g.add(m)
	}
	return nil
}

// topicAlive says whether the incarnation of the topic that an offset was committed for still exists.
func (c *Coordinator) topicAlive(topic string, id engine.ID) (bool, error) {
	var err error
	if id == (engine.ID{}) {
		_, err = c.svc.Topic(topic)
	} else {
		_, err = c.svc.TopicByID(id)
	}
	return exists(err)
}

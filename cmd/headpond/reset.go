package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (p process) groupReset() *cobra.Command {
	c := &cobra.Command{
		Use: "reset-offsets NAME", Short: "Move the offsets of a group that has no members", Args: exactly("NAME"),
		Long: `Move the offsets of a group that has no members, and print where they were and where they are.

  headpond group reset-offsets g --to earliest                 in every topic that the group has offsets in
  headpond group reset-offsets g --to 1500 --topic lines:0,3   in two partitions
  headpond group reset-offsets g --to 2026-01-31T08:00:00Z     to the first records of that time or later`,
	}
	client := p.addClientFlags(c.Flags())
	client.completeName(c, groupNames)
	to := c.Flags().String("to", "", "earliest, latest, an offset, or a time as in RFC 3339")
	topics := c.Flags().StringArrayP("topic", "t", nil, "TOPIC, or TOPIC:PARTITION,…; may be given more than once; without it, where the group has offsets")
	create := c.Flags().Bool("create", false, "make the group where it is not there")
	dry := c.Flags().Bool("dry-run", false, "print what would be done")
	c.RunE = func(c *cobra.Command, args []string) error {
		target, err := parseTarget(*to)
		if err != nil {
			return err
		}
		places, err := parsePlaces(*topics)
		if err != nil {
			return err
		}
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			r := reset{p: p, cl: cl, group: args[0], target: target, places: places, create: *create, dry: *dry, json: *client.json}
			return r.run(ctx)
		})
	}
	return c
}

// target is where offsets go: one of the fields.
type target struct {
	earliest, latest bool
	offset           int64 // when neither of the others
	time             time.Time
}

func parseTarget(s string) (target, error) {
	switch s {
	case "":
		return target{}, usagef("say where the offsets go: --to earliest, latest, an offset, or a time")
	case "earliest":
		return target{earliest: true}, nil
	case "latest":
		return target{latest: true}, nil
	}
	if n, ok := number(s); ok {
		return target{offset: n}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.UnixMilli() < 0 {
		return target{}, usagef("to %q is none of earliest, latest, an offset, a time such as 2026-01-31T08:00:00Z", s)
	}
	return target{time: t}, nil
}

// number reads digits; false when there is anything else, or too many.
func number(s string) (int64, bool) {
	if s == "" || len(s) > 18 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	var n int64
	for _, d := range []byte(s) {
		n = n*10 + int64(d-'0')
	}
	return n, true
}

// parsePlaces reads TOPIC and TOPIC:0,3; a topic without partitions maps to nil, which stands for all.
func parsePlaces(args []string) (map[string][]int32, error) {
	places := map[string][]int32{}
	for _, a := range args {
		topic, list, some := strings.Cut(a, ":")
		if _, twice := places[topic]; twice || topic == "" {
			return nil, usagef("topic %q is empty, or there twice", a)
		}
		places[topic] = nil
		if !some {
			continue
		}
		for _, s := range strings.Split(list, ",") {
			n, ok := number(s)
			if !ok || n > 1<<31-1 {
				return nil, usagef("topic %q: %q is not a partition's number", a, s)
			}
			places[topic] = append(places[topic], int32(n))
		}
	}
	return places, nil
}

type reset struct {
	p           process
	cl          *kadm.Client
	group       string
	target      target
	places      map[string][]int32
	create, dry bool
	json        bool
}

// move is one offset that changes.
type move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1: nothing was committed
	To        int64  `json:"to"`
}

func (r *reset) run(ctx context.Context) error {
	g, found, err := findGroup(ctx, r.cl, r.group)
	switch {
	case err != nil:
		return err
	case !found && !r.create:
		return fmt.Errorf("there is no group %s; --create makes one", r.group)
	case len(g.Members) > 0:
		return fmt.Errorf("group %s has %s; stop them first", r.group, count(len(g.Members), "member"))
	}
	var committed kadm.OffsetResponses
	if found {
		if committed, err = r.cl.FetchOffsets(ctx, r.group); err != nil {
			return fmt.Errorf("offsets of group %s: %w", r.group, err)
		}
	}
	if len(r.places) == 0 {
		for topic, partitions := range committed {
			r.places[topic] = slices.Sorted(maps.Keys(partitions))
		}
	}
	if len(r.places) == 0 {
		return fmt.Errorf("group %s has no offsets; say where to set them with --topic", r.group)
	}
	moves, err := r.moves(ctx, committed)
	if err != nil {
		return err
	}
	if !r.dry {
		if err := r.commit(ctx, moves); err != nil {
			return err
		}
	}
	return r.print(moves)
}

// moves finds out which offsets to set.
func (r *reset) moves(ctx context.Context, committed kadm.OffsetResponses) ([]move, error) {
	names := slices.Sorted(maps.Keys(r.places))
	for _, n := range names {
		if _, err := findTopic(ctx, r.cl, n); err != nil {
			return nil, err
		}
	}
	starts, err := r.cl.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("starts of partitions: %w", err)
	}
	ends, err := r.cl.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("ends of partitions: %w", err)
	}
	timed := ends
	if !r.target.time.IsZero() {
		if timed, err = r.cl.ListOffsetsAfterMilli(ctx, r.target.time.UnixMilli(), names...); err != nil {
			return nil, fmt.Errorf("offsets by time: %w", err)
		}
	}
	var moves []move
	for _, topic := range names {
		partitions := r.places[topic]
		if partitions == nil {
			partitions = slices.Sorted(maps.Keys(ends[topic]))
		}
		for _, q := range partitions {
			start, ok := starts.Lookup(topic, q)
			end := ends[topic][q]
			at := timed[topic][q]
			if !ok {
				return nil, fmt.Errorf("topic %s has no partition %d", topic, q)
			}
			if err := errors.Join(start.Err, end.Err, at.Err); err != nil {
				return nil, fmt.Errorf("offsets of topic %s partition %d: %w", topic, q, err)
			}
			m := move{Topic: topic, Partition: q, From: -1, To: r.aim(topic, q, start.Offset, end.Offset, at.Offset)}
			if c, ok := committed.Lookup(topic, q); ok {
				m.From = c.At
			}
			moves = append(moves, m)
		}
	}
	return moves, nil
}

func (r *reset) aim(topic string, partition int32, start, end, timed int64) int64 {
	switch {
	case r.target.earliest:
		return start
	case r.target.latest:
		return end
	case !r.target.time.IsZero():
		return timed
	}
	// As Kafka's own tool does: an offset that is not there gives the nearest one that is.
	to := min(max(r.target.offset, start), end)
	if to != r.target.offset {
		fmt.Fprintf(r.p.stderr, "warning: topic %s partition %d has offsets from %d to %d; taking %d\n", topic, partition, start, end, to)
	}
	return to
}

func (r *reset) commit(ctx context.Context, moves []move) error {
	offsets := kadm.Offsets{}
	for _, m := range moves {
		offsets.AddOffset(m.Topic, m.Partition, m.To, -1)
	}
	resp, err := r.cl.CommitOffsets(ctx, r.group, offsets)
	if err != nil {
		return fmt.Errorf("set offsets of group %s: %w", r.group, err)
	}
	for _, o := range resp.Sorted() {
		if errors.Is(o.Err, kerr.UnknownMemberID) || errors.Is(o.Err, kerr.RebalanceInProgress) {
			return fmt.Errorf("group %s has got members meanwhile; stop them first", r.group)
		}
		if o.Err != nil {
			return refusal(fmt.Sprintf("set offset of group %s in %s partition %d", r.group, o.Topic, o.Partition), o.Err, "")
		}
	}
	return nil
}

func (r *reset) print(moves []move) error {
	if r.json {
		return printJSON(r.p.stdout, moves)
	}
	word := "set"
	if r.dry {
		word = "would set"
	}
	fmt.Fprintf(r.p.stdout, "%s %s of group %s\n\n", word, count(len(moves), "offset"), r.group)
	w := tabwriter.NewWriter(r.p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTITION\tFROM\tTO")
	for _, m := range moves {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\n", m.Topic, m.Partition, known(m.From), m.To)
	}
	return w.Flush()
}

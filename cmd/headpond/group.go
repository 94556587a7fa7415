package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (p process) groupCommand() *cobra.Command {
	c := parent(&cobra.Command{Use: "group", Short: "List, describe, reset and delete consumer groups"})
	c.AddCommand(p.groupList(), p.groupDescribe(), p.groupReset(), p.groupDelete())
	return c
}

func (p process) groupList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List consumer groups", Args: exactly()}
	client := p.addClientFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			groups, err := cl.ListGroups(ctx)
			if err != nil {
				return fmt.Errorf("list groups: %w", err)
			}
			type row struct {
				Group string `json:"group"`
				State string `json:"state"`
			}
			rows := []row{}
			for _, g := range groups.Sorted() {
				rows = append(rows, row{g.Group, g.State})
			}
			if *client.json {
				return printJSON(p.stdout, rows)
			}
			if len(rows) == 0 {
				_, err := fmt.Fprintln(p.stdout, "no groups")
				return err
			}
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "GROUP\tSTATE")
			for _, r := range rows {
				fmt.Fprintf(w, "%s\t%s\n", r.Group, r.State)
			}
			return w.Flush()
		})
	}
	return c
}

// groupDescription is what `group describe` prints.
type groupDescription struct {
	Group   string              `json:"group"`
	State   string              `json:"state"`
	Members []memberDescription `json:"members"`
	Offsets []offsetDescription `json:"offsets"`
}

type memberDescription struct {
	ID       string `json:"id"`
	Instance string `json:"instance,omitempty"`
	Client   string `json:"client"`
	Host     string `json:"host"`
}

type offsetDescription struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1: none
	End       int64  `json:"end"`       // -1: the partition is not there
	Lag       int64  `json:"lag"`       // -1: not known
	Member    string `json:"member,omitempty"`
}

func (p process) groupDescribe() *cobra.Command {
	c := &cobra.Command{Use: "describe NAME", Short: "Print a group's members, offsets and lag", Args: exactly("NAME")}
	client := p.addClientFlags(c.Flags())
	client.completeName(c, groupNames)
	c.RunE = func(c *cobra.Command, args []string) error {
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			d, err := describeGroup(ctx, cl, args[0])
			if err != nil {
				return err
			}
			if *client.json {
				return printJSON(p.stdout, d)
			}
			return d.print(p)
		})
	}
	return c
}

// findGroup returns a group that is there.
func findGroup(ctx context.Context, cl *kadm.Client, name string) (kadm.DescribedGroup, bool, error) {
	groups, err := cl.DescribeGroups(ctx, name)
	if err != nil {
		return kadm.DescribedGroup{}, false, fmt.Errorf("group %s: %w", name, err)
	}
	g := groups[name]
	// An unknown group is an error since DescribeGroups version 6 (KIP-1043), and a dead one before.
	if errors.Is(g.Err, kerr.GroupIDNotFound) || g.Err == nil && g.State == "Dead" {
		return g, false, nil
	}
	return g, true, refusal("group "+name, g.Err, g.ErrMessage)
}

func describeGroup(ctx context.Context, cl *kadm.Client, name string) (groupDescription, error) {
	d := groupDescription{Group: name, Members: []memberDescription{}, Offsets: []offsetDescription{}}
	g, found, err := findGroup(ctx, cl, name)
	if err != nil {
		return d, err
	}
	if !found {
		return d, fmt.Errorf("there is no group %s", name)
	}
	d.State = g.State
	type place struct {
		topic     string
		partition int32
	}
	owners := map[place]string{}
	for _, m := range g.Members {
		member := memberDescription{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost}
		if m.InstanceID != nil {
			member.Instance = *m.InstanceID
		}
		d.Members = append(d.Members, member)
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				for _, q := range t.Partitions {
					owners[place{t.Topic, q}] = m.MemberID
				}
			}
		}
	}
	committed, err := cl.FetchOffsets(ctx, name)
	if err != nil {
		return d, fmt.Errorf("offsets of group %s: %w", name, err)
	}
	topics := map[string]bool{}
	at := map[place]int64{}
	for o := range owners {
		at[o], topics[o.topic] = -1, true
	}
	for _, o := range committed.Sorted() {
		if o.Err != nil {
			return d, fmt.Errorf("offset of group %s in %s partition %d: %w", name, o.Topic, o.Partition, o.Err)
		}
		at[place{o.Topic, o.Partition}], topics[o.Topic] = o.At, true
	}
	ends, err := endOffsets(ctx, cl, topics)
	if err != nil {
		return d, err
	}
	for o, offset := range at {
		row := offsetDescription{o.topic, o.partition, offset, -1, -1, owners[o]}
		if e, ok := ends.Lookup(o.topic, o.partition); ok && e.Err == nil {
			row.End = e.Offset
			if offset >= 0 {
				row.Lag = max(row.End-offset, 0)
			}
		}
		d.Offsets = append(d.Offsets, row)
	}
	slices.SortFunc(d.Offsets, func(a, b offsetDescription) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return d, nil
}

// endOffsets asks for the ends of topics. One that is not there is left out.
func endOffsets(ctx context.Context, cl *kadm.Client, topics map[string]bool) (kadm.ListedOffsets, error) {
	if len(topics) == 0 { // to the client, none means all
		return nil, nil
	}
	names := make([]string, 0, len(topics))
	for t := range topics {
		names = append(names, t)
	}
	ends, err := cl.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("ends of partitions: %w", err)
	}
	return ends, nil
}

func (d groupDescription) print(p process) error {
	fmt.Fprintf(p.stdout, "group %s is %s, with %s\n", d.Group, d.State, count(len(d.Members), "member"))
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	if len(d.Members) > 0 {
		fmt.Fprintln(w, "\nMEMBER\tINSTANCE\tCLIENT\tHOST")
	}
	for _, m := range d.Members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.ID, dash(m.Instance), m.Client, m.Host)
	}
	if len(d.Offsets) > 0 {
		fmt.Fprintln(w, "\nTOPIC\tPARTITION\tCOMMITTED\tEND\tLAG\tMEMBER")
	} else {
		fmt.Fprintln(w, "no offsets are committed")
	}
	for _, o := range d.Offsets {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", o.Topic, o.Partition, known(o.Committed), known(o.End), known(o.Lag), dash(o.Member))
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func (p process) groupDelete() *cobra.Command {
	c := &cobra.Command{Use: "delete NAME", Short: "Delete a group that has no members, with its offsets", Args: exactly("NAME")}
	client := p.addClientFlags(c.Flags())
	client.completeName(c, groupNames)
	c.RunE = func(c *cobra.Command, args []string) error {
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			resp, err := cl.DeleteGroups(ctx, args[0])
			if err != nil {
				return fmt.Errorf("delete group %s: %w", args[0], err)
			}
			r := resp[args[0]]
			switch {
			case errors.Is(r.Err, kerr.GroupIDNotFound):
				return fmt.Errorf("there is no group %s", args[0])
			case errors.Is(r.Err, kerr.NonEmptyGroup):
				return fmt.Errorf("group %s has members; stop them first", args[0])
			}
			if err := refusal("delete group "+args[0], r.Err, r.ErrMessage); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "deleted group %s\n", args[0])
			return err
		})
	}
	return c
}

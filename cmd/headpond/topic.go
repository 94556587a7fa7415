package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/headpond/headpond/internal/topicconfig"
)

func (p process) topicCommand() *cobra.Command {
	c := parent(&cobra.Command{Use: "topic", Short: "Create, list, describe, alter and delete topics"})
	c.AddCommand(p.topicCreate(), p.topicList(), p.topicDescribe(), p.topicAlter(), p.topicDelete())
	return c
}

func (p process) topicCreate() *cobra.Command {
	c := &cobra.Command{Use: "create NAME", Short: "Create a topic", Args: exactly("NAME")}
	client := p.addClientFlags(c.Flags())
	partitions := c.Flags().Int32P("partitions", "p", -1, "number of partitions; without it, the broker's num.partitions")
	configs := c.Flags().StringArrayP("config", "c", nil, "a setting of the topic, as NAME=VALUE; may be given more than once")
	completeSettings(c, "config", topicconfig.Topic(), "=")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *partitions < 1 && c.Flags().Changed("partitions") {
			return usagef("partitions is %d and must be at least 1", *partitions)
		}
		_, set, err := pairs(*configs)
		if err != nil {
			return err
		}
		pointers := map[string]*string{}
		for k, v := range set {
			pointers[k] = &v
		}
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			resp, err := cl.CreateTopics(ctx, *partitions, -1, pointers, args[0])
			if err != nil {
				return fmt.Errorf("create topic %s: %w", args[0], err)
			}
			r := resp[args[0]]
			if errors.Is(r.Err, kerr.TopicAlreadyExists) {
				return fmt.Errorf("create topic %s: there is a topic of that name already", args[0])
			}
			if err := refusal("create topic "+args[0], r.Err, r.ErrMessage); err != nil {
				return err
			}
			for _, w := range topicconfig.Warnings(set) {
				fmt.Fprintf(p.stderr, "warning: %s\n", w)
			}
			if *client.json {
				return printJSON(p.stdout, map[string]any{"topic": r.Topic, "id": topicID(r.ID), "partitions": r.NumPartitions})
			}
			_, err = fmt.Fprintf(p.stdout, "created topic %s with %s\n", r.Topic, count(int(r.NumPartitions), "partition"))
			return err
		})
	}
	return c
}

func (p process) topicList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List topics", Args: exactly()}
	client := p.addClientFlags(c.Flags())
	internal := c.Flags().Bool("internal", false, "also list the topics that the broker keeps for itself")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			topics, err := cl.ListTopicsWithInternal(ctx)
			if err != nil {
				return fmt.Errorf("list topics: %w", err)
			}
			type row struct {
				Name       string `json:"topic"`
				Partitions int    `json:"partitions"`
			}
			rows := []row{}
			for _, t := range topics.Sorted() {
				if !t.IsInternal || *internal {
					rows = append(rows, row{t.Topic, len(t.Partitions)})
				}
			}
			if *client.json {
				return printJSON(p.stdout, rows)
			}
			if len(rows) == 0 {
				_, err := fmt.Fprintln(p.stdout, "no topics")
				return err
			}
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TOPIC\tPARTITIONS")
			for _, r := range rows {
				fmt.Fprintf(w, "%s\t%d\n", r.Name, r.Partitions)
			}
			return w.Flush()
		})
	}
	return c
}

func (p process) topicDescribe() *cobra.Command {
	c := &cobra.Command{Use: "describe NAME", Short: "Print a topic's partitions and settings", Args: exactly("NAME")}
	client := p.addClientFlags(c.Flags())
	client.completeName(c, topicNames)
	all := c.Flags().Bool("all", false, "also print settings that have their defaults")
	c.RunE = func(c *cobra.Command, args []string) error {
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			d, err := describeTopic(ctx, cl, args[0], *all)
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

// topicDescription is what `topic describe` prints.
type topicDescription struct {
	Topic      string                 `json:"topic"`
	ID         string                 `json:"id"`
	Partitions []partitionDescription `json:"partitions"`
	Settings   []topicSetting         `json:"settings"`
}

type partitionDescription struct {
	Partition   int32 `json:"partition"`
	Leader      int32 `json:"leader"`
	LeaderEpoch int32 `json:"leader_epoch"`
	Start       int64 `json:"start"`
	End         int64 `json:"end"`
}

type topicSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func describeTopic(ctx context.Context, cl *kadm.Client, name string, all bool) (topicDescription, error) {
	d := topicDescription{Topic: name, Settings: []topicSetting{}}
	t, err := findTopic(ctx, cl, name)
	if err != nil {
		return d, err
	}
	d.ID = topicID(t.ID)
	starts, err := cl.ListStartOffsets(ctx, name)
	if err != nil {
		return d, fmt.Errorf("offsets of topic %s: %w", name, err)
	}
	ends, err := cl.ListEndOffsets(ctx, name)
	if err != nil {
		return d, fmt.Errorf("offsets of topic %s: %w", name, err)
	}
	for _, q := range t.Partitions.Sorted() {
		start, _ := starts.Lookup(name, q.Partition)
		end, _ := ends.Lookup(name, q.Partition)
		if err := errors.Join(start.Err, end.Err); err != nil {
			return d, fmt.Errorf("offsets of topic %s partition %d: %w", name, q.Partition, err)
		}
		d.Partitions = append(d.Partitions, partitionDescription{q.Partition, q.Leader, q.LeaderEpoch, start.Offset, end.Offset})
	}
	configs, err := cl.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return d, fmt.Errorf("settings of topic %s: %w", name, err)
	}
	for _, r := range configs {
		if err := refusal("settings of topic "+name, r.Err, r.ErrMessage); err != nil {
			return d, err
		}
		for _, k := range r.Configs {
			source := map[int8]string{1: "topic", 4: "broker", 5: "default"}[int8(k.Source)]
			if all || source != "default" {
				d.Settings = append(d.Settings, topicSetting{k.Key, k.MaybeValue(), source})
			}
		}
	}
	return d, nil
}

func (d topicDescription) print(p process) error {
	fmt.Fprintf(p.stdout, "topic %s, id %s, %s\n\n", d.Topic, d.ID, count(len(d.Partitions), "partition"))
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PARTITION\tLEADER\tEPOCH\tSTART\tEND")
	for _, q := range d.Partitions {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\n", q.Partition, q.Leader, q.LeaderEpoch, q.Start, q.End)
	}
	if len(d.Settings) > 0 {
		fmt.Fprintln(w, "\nSETTING\tVALUE\tFROM")
	}
	for _, s := range d.Settings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Value, s.Source)
	}
	return w.Flush()
}

// findTopic returns a topic that is there; asking does not create it.
func findTopic(ctx context.Context, cl *kadm.Client, name string) (kadm.TopicDetail, error) {
	topics, err := cl.ListTopicsWithInternal(ctx, name)
	if err != nil {
		return kadm.TopicDetail{}, fmt.Errorf("topic %s: %w", name, err)
	}
	t, ok := topics[name]
	if !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
		return kadm.TopicDetail{}, fmt.Errorf("there is no topic %s", name)
	}
	return t, refusal("topic "+name, t.Err, "")
}

func (p process) topicAlter() *cobra.Command {
	c := &cobra.Command{Use: "alter NAME", Short: "Change a topic's settings, or add partitions", Args: exactly("NAME")}
	client := p.addClientFlags(c.Flags())
	client.completeName(c, topicNames)
	configs := c.Flags().StringArrayP("config", "c", nil, "a setting, as NAME=VALUE; may be given more than once")
	unset := c.Flags().StringArray("unset", nil, "name of a setting that gets its default again; may be given more than once")
	partitions := c.Flags().IntP("partitions", "p", 0, "new number of partitions; it can only grow, and keys are spread anew")
	completeSettings(c, "config", topicconfig.Topic(), "=")
	completeSettings(c, "unset", topicconfig.Topic(), "")
	c.RunE = func(c *cobra.Command, args []string) error {
		names, set, err := pairs(*configs)
		if err != nil {
			return err
		}
		for _, n := range *unset {
			if _, both := set[n]; both {
				return usagef("%s is both set and unset", n)
			}
		}
		if len(names)+len(*unset) == 0 && !c.Flags().Changed("partitions") {
			return usagef("say what to change, with --config, --unset or --partitions")
		}
		if c.Flags().Changed("partitions") && *partitions < 1 {
			return usagef("partitions is %d and must be at least 1", *partitions)
		}
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			if _, err := findTopic(ctx, cl, args[0]); err != nil {
				return err
			}
			if err := p.alterSettings(ctx, cl, args[0], set, *unset); err != nil {
				return err
			}
			if *partitions == 0 {
				return nil
			}
			resp, err := cl.UpdatePartitions(ctx, *partitions, args[0])
			if err != nil {
				return fmt.Errorf("partitions of topic %s: %w", args[0], err)
			}
			for _, r := range resp {
				if err := refusal("partitions of topic "+args[0], r.Err, r.ErrMessage); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(p.stdout, "topic %s has %s\n", args[0], count(*partitions, "partition"))
			return err
		})
	}
	return c
}

func (p process) alterSettings(ctx context.Context, cl *kadm.Client, topic string, set map[string]string, unset []string) error {
	if len(set)+len(unset) == 0 {
		return nil
	}
	var changes []kadm.AlterConfig
	for _, n := range slices.Sorted(maps.Keys(set)) {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: n, Value: kadm.StringPtr(set[n])})
	}
	for _, n := range unset {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: n})
	}
	resp, err := cl.AlterTopicConfigs(ctx, changes, topic)
	if err != nil {
		return fmt.Errorf("alter topic %s: %w", topic, err)
	}
	for _, r := range resp {
		if err := refusal("alter topic "+topic, r.Err, r.ErrMessage); err != nil {
			return err
		}
	}
	for _, w := range topicconfig.Warnings(set) {
		fmt.Fprintf(p.stderr, "warning: %s\n", w)
	}
	for _, n := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(p.stdout, "topic %s: %s is %s\n", topic, n, set[n])
	}
	for _, n := range unset {
		fmt.Fprintf(p.stdout, "topic %s: %s has its default again\n", topic, n)
	}
	return nil
}

func (p process) topicDelete() *cobra.Command {
	c := &cobra.Command{Use: "delete NAME", Short: "Delete a topic and its records", Args: exactly("NAME")}
	client := p.addClientFlags(c.Flags())
	client.completeName(c, topicNames)
	c.RunE = func(c *cobra.Command, args []string) error {
		return client.with(c.Context(), func(ctx context.Context, cl *kadm.Client) error {
			resp, err := cl.DeleteTopics(ctx, args[0])
			if err != nil {
				return fmt.Errorf("delete topic %s: %w", args[0], err)
			}
			r := resp[args[0]]
			if errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
				return fmt.Errorf("there is no topic %s", args[0])
			}
			if err := refusal("delete topic "+args[0], r.Err, r.ErrMessage); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "deleted topic %s\n", args[0])
			return err
		})
	}
	return c
}

// topicID writes an id as Kafka's tools do, which franz-go's String does not.
func topicID(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/headpond/headpond/internal/topicconfig"
)

// completeName completes a command's only argument from what the broker has. Without a broker there is nothing to offer.
func (f clientFlags) completeName(c *cobra.Command, list func(context.Context, *kadm.Client) ([]string, error)) {
	c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		*f.timeout = min(*f.timeout, 2*time.Second)
		err := f.with(c.Context(), func(ctx context.Context, cl *kadm.Client) (err error) {
			names, err = list(ctx, cl)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return beginning(word, names), cobra.ShellCompDirectiveNoFileComp
	}
}

func topicNames(ctx context.Context, cl *kadm.Client) ([]string, error) {
	topics, err := cl.ListTopics(ctx)
	return topics.Names(), err
}

func groupNames(ctx context.Context, cl *kadm.Client) ([]string, error) {
	groups, err := cl.ListGroups(ctx)
	return groups.Groups(), err
}

// completeSettings completes NAME= of a flag from the settings' names.
func completeSettings(c *cobra.Command, flag string, keys []topicconfig.Key, end string) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name + end
	}
	err := c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return beginning(word, names), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	if err != nil {
		panic(err) // the command has no such flag
	}
}

func beginning(word string, names []string) []string {
	var fit []string
	for _, n := range names {
		if strings.HasPrefix(n, word) {
			fit = append(fit, n)
		}
	}
	return fit
}

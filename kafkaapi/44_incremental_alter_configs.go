package kafkaapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/internal/topicconfig"
)

// IncrementalAlterConfigs (key 44), versions 0 and 1: sets and removes single settings of topics, and adds to and takes
// from those that are lists (KIP-339).

func incrementalAlterConfigs(r *request, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	ctx, cancel := context.WithTimeout(r.c.ctx, configTimeout)
	defer cancel()
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for i := range req.Resources {
		res := &req.Resources[i]
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
		err := r.changeConfig(ctx, res.ResourceType, res.ResourceName, req.ValidateOnly, func(config map[string]string) error {
			return applyConfigs(config, res.Configs, r.c.s.o.Broker)
		})
		if err != nil {
			out.ErrorCode, out.ErrorMessage = r.code(err, unsure), message(err)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func applyConfigs(config map[string]string, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig, b *topicconfig.Broker) error {
	done := make(map[string]bool, len(changes))
	for _, c := range changes {
		if done[c.Name] {
			return refuse(kerr.InvalidRequest, fmt.Sprintf("setting %s is there twice", c.Name))
		}
		done[c.Name] = true
		if c.Op == kmsg.IncrementalAlterConfigOpDelete {
			if _, err := topicconfig.TopicKey(c.Name); err != nil {
				return refuse(kerr.InvalidConfig, err.Error())
			}
			delete(config, c.Name)
			continue
		}
		if c.Value == nil {
			return refuse(kerr.InvalidConfig, fmt.Sprintf("setting %s has no value", c.Name))
		}
		if c.Op == kmsg.IncrementalAlterConfigOpSet {
			config[c.Name] = *c.Value
			continue
		}
		list, err := configList(config, c.Name, b)
		if err != nil {
			return err
		}
		for _, v := range splitList(*c.Value) {
			switch {
			case c.Op == kmsg.IncrementalAlterConfigOpSubtract:
				list = slices.DeleteFunc(list, func(e string) bool { return e == v })
			case c.Op != kmsg.IncrementalAlterConfigOpAppend:
				return refuse(kerr.InvalidRequest, fmt.Sprintf("setting %s: there is no operation %d", c.Name, int(c.Op)))
			case !slices.Contains(list, v):
				list = append(list, v)
			}
		}
		config[c.Name] = strings.Join(list, ",")
	}
	return nil
}

// configList returns the present elements of a setting that is a list.
func configList(config map[string]string, name string, b *topicconfig.Broker) ([]string, error) {
	key, err := topicconfig.TopicKey(name)
	if err != nil {
		return nil, refuse(kerr.InvalidConfig, err.Error())
	}
	if key.Type != topicconfig.List {
		return nil, refuse(kerr.InvalidConfig, fmt.Sprintf("setting %s is not a list: nothing can be added or taken away", name))
	}
	for _, e := range topicconfig.DescribeTopic(config, b) {
		if e.Key.Name == name {
			return splitList(e.Value), nil
		}
	}
	return nil, nil
}

func splitList(s string) []string {
	var list []string
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			list = append(list, v)
		}
	}
	return list
}

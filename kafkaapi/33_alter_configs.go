package kafkaapi

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/topicconfig"
)

// AlterConfigs (key 33), versions 0 to 2: replaces all that is set on a topic. The broker's settings stand in its
// configuration and are not changed by clients: INVALID_REQUEST.

// configTimeout bounds a change of settings; the request has no timeout of its own.
const configTimeout = 20 * time.Second

func alterConfigs(r *request, req *kmsg.AlterConfigsRequest) kmsg.Response {
	ctx, cancel := context.WithTimeout(r.c.ctx, configTimeout)
	defer cancel()
	resp := kmsg.NewPtrAlterConfigsResponse()
	for _, res := range req.Resources {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
		err := r.changeConfig(ctx, res.ResourceType, res.ResourceName, req.ValidateOnly, func(config map[string]string) error {
			clear(config)
			for _, c := range res.Configs {
				if _, twice := config[c.Name]; twice {
					return refuse(kerr.InvalidRequest, fmt.Sprintf("setting %s is there twice", c.Name))
				}
				if c.Value == nil {
					return refuse(kerr.InvalidConfig, fmt.Sprintf("setting %s has no value", c.Name))
				}
				config[c.Name] = *c.Value
			}
			return nil
		})
		if err != nil {
			out.ErrorCode, out.ErrorMessage = r.code(err, unsure), message(err)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// changeConfig lets fn change what is set on a topic, and checks the outcome.
func (r *request) changeConfig(ctx context.Context, kind kmsg.ConfigResourceType, name string, validateOnly bool, fn func(map[string]string) error) error {
	t, err := r.configured(kind, name)
	if err != nil {
		return err
	}
	if t == nil {
		return refuse(kerr.InvalidRequest, "the broker's settings stand in its configuration, clients cannot change them")
	}
	return r.c.s.changeTopic(ctx, name, validateOnly, func(t *engine.Topic, c *engine.TopicChange) error {
		if t.Internal {
			return refuse(kerr.InvalidRequest, fmt.Sprintf("topic %s is the broker's own", t.Name))
		}
		if err := fn(c.Config); err != nil {
			return err
		}
		if err := topicconfig.CheckTopic(c.Config); err != nil {
			return refuse(kerr.InvalidConfig, err.Error())
		}
		return nil
	})
}

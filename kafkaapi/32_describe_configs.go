package kafkaapi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/topicconfig"
)

// DescribeConfigs (key 32), versions 1 to 4: settings of topics and of the broker, with where they come from.
//
// Null names mean all. The broker is named by its id, or by nothing for the whole cluster, which is the same here; its
// settings are read-only. From 3 settings have a type, and documentation if the client wants it. Loggers and groups have
// no settings: INVALID_REQUEST. A resource asked for twice is answered once.
//
// The response for thousands of topics is large, and is therefore not made as a whole: the settings of one topic after
// the other are encoded, once to count the bytes and once to write them.

// chunk is about how many bytes of a large response are made before they are written.
const chunk = 64 << 10

func handleDescribeConfigs(r *request) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	if err := r.decode(req); err != nil {
		return err
	}
	d := &configsResponse{r: r, req: req}
	d.resolve()

	pooled := responseBytes.Get().(*[]byte)
	b := d.appendHead((*pooled)[:0])
	defer func() { giveBack(pooled, b) }()
	size := len(b)
	for i := range d.resources {
		if size > chunk { // only counted
			size += len(d.appendResource(b[len(b):], i))
			continue
		}
		b = d.appendResource(b, i)
		size = len(b)
	}
	tail := d.tail()
	if size += len(tail); len(b)+len(tail) == size {
		b = append(b, tail...)
		finish(b, size)
		return r.write(b)
	}
	r.answered(size)
	if err := r.c.out.waitIdle(); err != nil {
		return err
	}
	b = d.appendHead(b[:0])
	finish(b, size)
	for i := range d.resources {
		b = d.appendResource(b, i)
		if len(b) >= chunk || i == len(d.resources)-1 {
			if i == len(d.resources)-1 {
				b = append(b, tail...)
			}
			if err := r.c.write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

// configsResponse makes the response piece by piece. The pieces are the same each time.
type configsResponse struct {
	r         *request
	req       *kmsg.DescribeConfigsRequest
	resources []configResource
	one       kmsg.DescribeConfigsResponse // for encoding a single resource
}

// configResource is one resource as it was when the request came.
type configResource struct {
	*kmsg.DescribeConfigsRequestResource
	topic *engine.Topic // nil: the broker
	code  int16
	err   error
}

func (d *configsResponse) resolve() {
	type key struct {
		kind kmsg.ConfigResourceType
		name string
	}
	seen := make(map[key]bool, len(d.req.Resources))
	for i := range d.req.Resources {
		res := configResource{DescribeConfigsRequestResource: &d.req.Resources[i]}
		if k := (key{res.ResourceType, res.ResourceName}); !seen[k] {
			seen[k] = true
			res.topic, res.err = d.r.configured(res.ResourceType, res.ResourceName)
			res.code = d.r.code(res.err, reading)
			d.resources = append(d.resources, res)
		}
	}
}

// configured returns the topic that a resource names, nil for the broker.
func (r *request) configured(kind kmsg.ConfigResourceType, name string) (*engine.Topic, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		t, err := r.c.s.svc.Topic(name)
		if errors.Is(err, engine.ErrNotFound) {
			return nil, refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("topic %s is not there", name))
		}
		return t, err
	case kmsg.ConfigResourceTypeBroker:
		if name != "" && name != strconv.Itoa(int(r.c.s.o.NodeID)) {
			return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("this is broker %d, not %q", r.c.s.o.NodeID, name))
		}
		return nil, nil
	}
	return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("resources of type %d have no settings here", int(kind)))
}

func (d *configsResponse) flexible() bool { return d.r.flexible() }

// appendHead appends what comes before the first resource: header, throttle time, number of resources.
func (d *configsResponse) appendHead(b []byte) []byte {
	b = d.r.appendHeader(b)
	b = append(b, 0, 0, 0, 0)
	if d.flexible() {
		return binary.AppendUvarint(b, uint64(len(d.resources)+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(len(d.resources)))
}

// tail is what comes after the last resource.
func (d *configsResponse) tail() []byte {
	if d.flexible() {
		return []byte{0}
	}
	return nil
}

// appendResource appends the resource: what kmsg encodes for a response of this resource alone, without what comes before
// and after it there.
func (d *configsResponse) appendResource(b []byte, i int) []byte {
	d.one.Version = d.r.version
	d.one.Resources = append(d.one.Resources[:0], d.describe(&d.resources[i]))
	before := 4 + 4
	if d.flexible() {
		before = 4 + 1
	}
	start := len(b)
	b = d.one.AppendTo(b)
	copy(b[start:], b[start+before:])
	return b[:len(b)-before-len(d.tail())]
}

func (d *configsResponse) describe(res *configResource) kmsg.DescribeConfigsResponseResource {
	out := kmsg.NewDescribeConfigsResponseResource()
	out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
	if res.err != nil {
		out.ErrorCode, out.ErrorMessage = res.code, message(res.err)
		return out
	}
	entries := topicconfig.DescribeBroker(d.r.c.s.o.Broker)
	if res.topic != nil {
		entries = topicconfig.DescribeTopic(res.topic.Config, d.r.c.s.o.Broker)
	}
	for _, e := range entries {
		if res.ConfigNames != nil && !slices.Contains(res.ConfigNames, e.Key.Name) {
			continue
		}
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.ReadOnly = e.Key.Name, &e.Value, res.topic == nil
		c.Source, c.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Key.Type)
		if d.req.IncludeSynonyms {
			for _, s := range e.Synonyms {
				syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
				syn.Name, syn.Value, syn.Source = s.Name, &s.Value, kmsg.ConfigSource(s.Source)
				c.ConfigSynonyms = append(c.ConfigSynonyms, syn)
			}
		}
		if d.req.IncludeDocumentation {
			c.Documentation = &e.Key.Doc
		}
		out.Configs = append(out.Configs, c)
	}
	return out
}

package kafkaapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
)

func config(name, value string) []kmsg.CreateTopicsRequestTopicConfig {
	return []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: &value}}
}

func TestTopicsAreCreatedAsAskedOrRefusedWithReason(t *testing.T) {
	b := start(t, settings{"num.partitions": "3"}, nil)
	b.topic("there", 1, nil)
	b.topic("with.dot", 1, nil)
	w := b.dial()
	replicas := func(partitions ...int32) (a []kmsg.CreateTopicsRequestTopicReplicaAssignment) {
		for _, p := range partitions {
			a = append(a, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: []int32{1, 2, 3}})
		}
		return a
	}
	for _, c := range []struct {
		topic      kmsg.CreateTopicsRequestTopic
		err        *kerr.Error
		partitions int32
		says       string
	}{
		{kmsg.CreateTopicsRequestTopic{Topic: "three", NumPartitions: 2, ReplicationFactor: 3}, nil, 2, ""},
		{kmsg.CreateTopicsRequestTopic{Topic: "default", NumPartitions: -1, ReplicationFactor: -1}, nil, 3, ""},
		{kmsg.CreateTopicsRequestTopic{Topic: "assigned", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: replicas(1, 0)}, nil, 2, ""},
		{kmsg.CreateTopicsRequestTopic{Topic: "set", NumPartitions: 1, ReplicationFactor: 1, Configs: config("retention.ms", "1000")}, nil, 1, ""},
		{kmsg.CreateTopicsRequestTopic{Topic: "there", NumPartitions: 1, ReplicationFactor: 1}, kerr.TopicAlreadyExists, 0, "there exists"},
		{kmsg.CreateTopicsRequestTopic{Topic: "with_dot", NumPartitions: 1, ReplicationFactor: 1}, kerr.InvalidTopicException, 0, "with.dot"},
		{kmsg.CreateTopicsRequestTopic{Topic: "a b", NumPartitions: 1, ReplicationFactor: 1}, kerr.InvalidTopicException, 0, "' '"},
		{kmsg.CreateTopicsRequestTopic{Topic: "..", NumPartitions: 1, ReplicationFactor: 1}, kerr.InvalidTopicException, 0, ".."},
		{kmsg.CreateTopicsRequestTopic{Topic: "", NumPartitions: 1, ReplicationFactor: 1}, kerr.InvalidTopicException, 0, "empty"},
		{kmsg.CreateTopicsRequestTopic{Topic: strings.Repeat("x", 250), NumPartitions: 1, ReplicationFactor: 1}, kerr.InvalidTopicException, 0, "250"},
		{kmsg.CreateTopicsRequestTopic{Topic: "__consumer_offsets", NumPartitions: 1, ReplicationFactor: 1}, kerr.InvalidTopicException, 0, "broker's own"},
		{kmsg.CreateTopicsRequestTopic{Topic: "none", NumPartitions: 0, ReplicationFactor: 1}, kerr.InvalidPartitions, 0, "0"},
		{kmsg.CreateTopicsRequestTopic{Topic: "many", NumPartitions: 1 << 30, ReplicationFactor: 1}, kerr.InvalidPartitions, 0, "1073741824"},
		{kmsg.CreateTopicsRequestTopic{Topic: "rf0", NumPartitions: 1, ReplicationFactor: 0}, kerr.InvalidReplicationFactor, 0, "0"},
		{kmsg.CreateTopicsRequestTopic{Topic: "hole", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: replicas(0, 2)}, kerr.InvalidReplicaAssignment, 0, "0 to 1"},
		{kmsg.CreateTopicsRequestTopic{Topic: "twice", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: replicas(0, 0)}, kerr.InvalidReplicaAssignment, 0, "once"},
		{kmsg.CreateTopicsRequestTopic{Topic: "below", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: replicas(-1, 0)}, kerr.InvalidReplicaAssignment, 0, "0 to 1"},
		{kmsg.CreateTopicsRequestTopic{Topic: "both", NumPartitions: 2, ReplicationFactor: -1, ReplicaAssignment: replicas(0, 1)}, kerr.InvalidRequest, 0, "-1 partitions"},
		{kmsg.CreateTopicsRequestTopic{Topic: "typo", NumPartitions: 1, ReplicationFactor: 1, Configs: config("retention.msec", "1")}, kerr.InvalidConfig, 0, "retention.ms"},
		{kmsg.CreateTopicsRequestTopic{Topic: "value", NumPartitions: 1, ReplicationFactor: 1, Configs: config("retention.ms", "soon")}, kerr.InvalidConfig, 0, "soon"},
		{kmsg.CreateTopicsRequestTopic{Topic: "null", NumPartitions: 1, ReplicationFactor: 1, Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}}, kerr.InvalidConfig, 0, "no value"},
	} {
		for _, validate := range []bool{true, false} {
			req := &kmsg.CreateTopicsRequest{TimeoutMillis: 60_000, ValidateOnly: validate, Topics: []kmsg.CreateTopicsRequestTopic{c.topic}}
			out := ask[*kmsg.CreateTopicsResponse](w, 7, req).Topics[0]
			if err := kerr.TypedErrorForCode(out.ErrorCode); err != c.err {
				t.Errorf("%s: %v, want %v", c.topic.Topic, err, c.err)
				continue
			}
			if c.err != nil {
				if out.ErrorMessage == nil || !strings.Contains(*out.ErrorMessage, c.says) {
					t.Errorf("%s: message %q does not say %q", c.topic.Topic, *out.ErrorMessage, c.says)
				}
				continue
			}
			made, err := b.engine.Topic(c.topic.Topic)
			if (err == nil) == validate || out.NumPartitions != c.partitions || out.ReplicationFactor != 1 || len(out.Configs) == 0 {
				t.Errorf("%s, validate only %v: %v, %d partitions, factor %d", c.topic.Topic, validate, err, out.NumPartitions, out.ReplicationFactor)
			}
			if !validate && (made.ID != out.TopicID || made.Partitions != c.partitions) {
				t.Errorf("%s: made %+v, answered %+v", c.topic.Topic, made, out)
			}
		}
	}
	twice := kmsg.CreateTopicsRequestTopic{Topic: "double", NumPartitions: 1, ReplicationFactor: 1}
	resp := ask[*kmsg.CreateTopicsResponse](w, 7, &kmsg.CreateTopicsRequest{TimeoutMillis: 60_000, Topics: []kmsg.CreateTopicsRequestTopic{twice, twice}})
	for _, out := range resp.Topics {
		if out.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("the same topic twice: %+v", out)
		}
	}
}

func TestTopicsAreDeletedByNameAndByID(t *testing.T) {
	b := start(t, nil, nil)
	one, two := b.topic("one", 1, nil), b.topic("two", 1, nil)
	internal, err := b.engine.CreateTopic(b.ctx(), "__consumer_offsets", engine.TopicChange{Partitions: 1, Internal: true})
	if err != nil {
		t.Fatal(err)
	}
	w := b.dial()
	for _, c := range []struct {
		topic kmsg.DeleteTopicsRequestTopic
		err   *kerr.Error
	}{
		{kmsg.DeleteTopicsRequestTopic{Topic: &one.Name}, nil},
		{kmsg.DeleteTopicsRequestTopic{Topic: &one.Name}, kerr.UnknownTopicOrPartition},
		{kmsg.DeleteTopicsRequestTopic{TopicID: two.ID}, nil},
		{kmsg.DeleteTopicsRequestTopic{TopicID: two.ID}, kerr.UnknownTopicID},
		{kmsg.DeleteTopicsRequestTopic{Topic: &two.Name, TopicID: two.ID}, kerr.InvalidRequest},
		{kmsg.DeleteTopicsRequestTopic{Topic: &internal.Name}, kerr.InvalidRequest},
	} {
		out := ask[*kmsg.DeleteTopicsResponse](w, 6, &kmsg.DeleteTopicsRequest{TimeoutMillis: 60_000, Topics: []kmsg.DeleteTopicsRequestTopic{c.topic}}).Topics[0]
		if err := kerr.TypedErrorForCode(out.ErrorCode); err != c.err || err != nil && out.ErrorMessage == nil {
			t.Errorf("delete %+v: %v, want %v", c.topic, err, c.err)
		}
	}
	b = start(t, settings{"delete.topic.enable": "false"}, nil)
	b.topic("one", 1, nil)
	if out := ask[*kmsg.DeleteTopicsResponse](b.dial(), 5, &kmsg.DeleteTopicsRequest{TopicNames: []string{"one"}}).Topics[0]; out.ErrorCode != kerr.TopicDeletionDisabled.Code {
		t.Errorf("deletion disabled: %+v", out)
	}
}

func TestPartitionsAreAdded(t *testing.T) {
	b := start(t, nil, nil)
	b.topic("t", 2, nil)
	w := b.dial()
	for _, c := range []struct {
		count    int32
		assigned []kmsg.CreatePartitionsRequestTopicAssignment
		err      *kerr.Error
	}{
		{3, nil, nil}, {3, nil, kerr.InvalidPartitions}, {1, nil, kerr.InvalidPartitions}, {1 << 30, nil, kerr.InvalidPartitions},
		{4, []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{5}}}, nil},
		{6, []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{5}}}, kerr.InvalidReplicaAssignment},
	} {
		out := ask[*kmsg.CreatePartitionsResponse](w, 3, &kmsg.CreatePartitionsRequest{TimeoutMillis: 60_000, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: c.count, Assignment: c.assigned}}}).Topics[0]
		if err := kerr.TypedErrorForCode(out.ErrorCode); err != c.err {
			t.Errorf("%d partitions: %v, want %v", c.count, err, c.err)
		}
	}
	if topic, _ := b.engine.Topic("t"); topic.Partitions != 4 {
		t.Errorf("%d partitions", topic.Partitions)
	}
	p := ask[*kmsg.ProduceResponse](w, 9, produceRequest("t", 3, recordbatchtest.Values(0, "a"))).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Errorf("the last one is written to: %v", kerr.ErrorForCode(p.ErrorCode))
	}
}

func TestRecordsAreDeleted(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, nil)
	b.topic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	for range 3 {
		b.produce(topic, 0, "a")
	}
	w := b.dial()
	for _, c := range []struct {
		topic  string
		offset int64
		low    int64
		err    *kerr.Error
	}{
		{"t", 1, 1, nil}, {"t", 0, 1, nil}, {"t", 4, -1, kerr.OffsetOutOfRange}, {"t", -2, -1, kerr.OffsetOutOfRange},
		{"t", -1, 3, nil}, {"other", 0, -1, kerr.UnknownTopicOrPartition}, {"compacted", 0, -1, kerr.PolicyViolation},
	} {
		out := ask[*kmsg.DeleteRecordsResponse](w, 2, &kmsg.DeleteRecordsRequest{TimeoutMillis: 60_000, Topics: []kmsg.DeleteRecordsRequestTopic{
			{Topic: c.topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: c.offset}}}}}).Topics[0].Partitions[0]
		if err := kerr.TypedErrorForCode(out.ErrorCode); err != c.err || out.LowWatermark != c.low {
			t.Errorf("%s before %d: %d, %v; want %d, %v", c.topic, c.offset, out.LowWatermark, err, c.low, c.err)
		}
	}
}

func TestSettingsAreChangedAndDescribed(t *testing.T) {
	b := start(t, settings{"log.retention.ms": "5000"}, nil)
	b.topic("t", 1, map[string]string{"cleanup.policy": "delete"})
	w := b.dial()
	describe := func(kind kmsg.ConfigResourceType, resource string, names ...string) (kmsg.DescribeConfigsResponseResource, map[string]string) {
		out := ask[*kmsg.DescribeConfigsResponse](w, 4, &kmsg.DescribeConfigsRequest{IncludeSynonyms: true, IncludeDocumentation: true, Resources: []kmsg.DescribeConfigsRequestResource{
			{ResourceType: kind, ResourceName: resource, ConfigNames: names}}}).Resources[0]
		values := make(map[string]string)
		for _, c := range out.Configs {
			values[c.Name] = fmt.Sprint(*c.Value, " ", c.Source)
		}
		return out, values
	}
	incremental := func(kind kmsg.ConfigResourceType, resource, name string, op kmsg.IncrementalAlterConfigOp, value *string) *kerr.Error {
		out := ask[*kmsg.IncrementalAlterConfigsResponse](w, 1, &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{
			{ResourceType: kind, ResourceName: resource, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: value}}}}}).Resources[0]
		if out.ErrorCode != 0 && (out.ErrorMessage == nil || *out.ErrorMessage == "") {
			t.Errorf("%s of %s: no message", name, resource)
		}
		return kerr.TypedErrorForCode(out.ErrorCode)
	}
	value := kmsg.StringPtr
	const topic, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	const set, del, add, sub = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract

	for _, c := range []struct {
		kind           kmsg.ConfigResourceType
		resource, name string
		op             kmsg.IncrementalAlterConfigOp
		value          *string
		err            *kerr.Error
		want           string // of the setting, with its source
	}{
		{topic, "t", "retention.ms", set, value("1000"), nil, "1000 DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "retention.ms", set, value("never"), kerr.InvalidConfig, "1000 DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "retention.ms", set, nil, kerr.InvalidConfig, "1000 DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "retention.ms", add, value("1"), kerr.InvalidConfig, "1000 DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "retention.ms", del, nil, nil, "5000 STATIC_BROKER_CONFIG"},
		{topic, "t", "cleanup.policy", add, value("compact"), nil, "delete,compact DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "cleanup.policy", add, value("compact"), nil, "delete,compact DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "cleanup.policy", sub, value("delete"), nil, "compact DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "cleanup.policy", 9, value("delete"), kerr.InvalidRequest, "compact DYNAMIC_TOPIC_CONFIG"},
		{topic, "t", "retention.hours", set, value("1"), kerr.InvalidConfig, ""},
		{topic, "t", "retention.hours", del, nil, kerr.InvalidConfig, ""},
		{topic, "other", "retention.ms", set, value("1"), kerr.UnknownTopicOrPartition, ""},
		{broker, "0", "log.retention.ms", set, value("1"), kerr.InvalidRequest, "5000 STATIC_BROKER_CONFIG"},
		{broker, "7", "log.retention.ms", set, value("1"), kerr.InvalidRequest, ""},
		{16, "group", "x", set, value("1"), kerr.InvalidRequest, ""},
	} {
		if err := incremental(c.kind, c.resource, c.name, c.op, c.value); err != c.err {
			t.Errorf("%s of %s: %v, want %v", c.name, c.resource, err, c.err)
		}
		if _, values := describe(c.kind, c.resource, c.name); values[c.name] != c.want {
			t.Errorf("%s of %s after %v: %q, want %q", c.name, c.resource, c.op, values[c.name], c.want)
		}
	}

	// AlterConfigs replaces everything.
	out := ask[*kmsg.AlterConfigsResponse](w, 2, &kmsg.AlterConfigsRequest{Resources: []kmsg.AlterConfigsRequestResource{
		{ResourceType: topic, ResourceName: "t", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "max.message.bytes", Value: value("2000")}}}}}).Resources[0]
	if out.ErrorCode != 0 {
		t.Errorf("replace: %+v", out)
	}
	if made, _ := b.engine.Topic("t"); len(made.Config) != 1 || made.Config["max.message.bytes"] != "2000" {
		t.Errorf("after replacing: %v", made.Config)
	}
	all, values := describe(topic, "t")
	if len(values) < 10 || all.Configs[0].Documentation == nil || all.Configs[0].ConfigType == 0 {
		t.Errorf("all settings: %v", values)
	}
	if all, _ := describe(broker, "0"); !all.Configs[0].ReadOnly || len(all.Configs[0].ConfigSynonyms) == 0 {
		t.Errorf("broker: %+v", all.Configs[0])
	}
	// It takes effect: a batch that was fine is too large now.
	p := ask[*kmsg.ProduceResponse](w, 9, produceRequest("t", 0, recordbatchtest.Values(0, string(make([]byte, 3000))))).Topics[0].Partitions[0]
	if p.ErrorCode != kerr.MessageTooLarge.Code {
		t.Errorf("a batch above the new limit: %v", kerr.ErrorForCode(p.ErrorCode))
	}
}

// A response that is too large to be made at once is sent in pieces, and is the same.
func TestSettingsOfManyTopicsAreDescribed(t *testing.T) {
	b := start(t, nil, nil)
	const n = 100
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	for i := range n {
		name := fmt.Sprint("t", i)
		if i%10 > 0 {
			b.topic(name, 1, map[string]string{"retention.ms": fmt.Sprint(i)})
		}
		for range 2 {
			res := kmsg.NewDescribeConfigsRequestResource()
			res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, name
			req.Resources = append(req.Resources, res)
		}
	}
	for version := int16(1); version <= 4; version++ {
		resp := ask[*kmsg.DescribeConfigsResponse](b.dial(), version, req)
		if len(resp.Resources) != n || len(resp.AppendTo(nil)) < 3*64<<10 {
			t.Fatalf("version %d: %d resources, %d bytes", version, len(resp.Resources), len(resp.AppendTo(nil)))
		}
		for i, res := range resp.Resources {
			set := ""
			for _, c := range res.Configs {
				if c.Name == "retention.ms" {
					set = *c.Value
				}
			}
			if i%10 == 0 && res.ErrorCode != kerr.UnknownTopicOrPartition.Code || i%10 > 0 && set != fmt.Sprint(i) {
				t.Errorf("version %d: %s: error %d, retention %q", version, res.ResourceName, res.ErrorCode, set)
			}
		}
	}
}

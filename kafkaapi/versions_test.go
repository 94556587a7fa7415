package kafkaapi_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/recordbatch/recordbatchtest"
	"github.com/headpond/headpond/kafkaapi"
)

// usual are requests that a client could send to a broker that has topic t with one partition. They succeed in every version.
func usual(topic *engine.Topic) map[kmsg.Key]kmsg.Request {
	name := topic.Name
	name2 := "not-there"
	timeout := int32(10_000)
	batch := recordbatchtest.Values(1_700_000_000_000, "a", "b")
	return map[kmsg.Key]kmsg.Request{
		kmsg.Produce: &kmsg.ProduceRequest{Acks: -1, TimeoutMillis: timeout, Topics: []kmsg.ProduceRequestTopic{
			{Topic: name, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}},
		kmsg.Fetch: &kmsg.FetchRequest{ReplicaID: -1, ReplicaState: kmsg.FetchRequestReplicaState{ID: -1, Epoch: -1}, MaxWaitMillis: 10, MaxBytes: 1 << 20, Topics: []kmsg.FetchRequestTopic{
			{Topic: name, TopicID: topic.ID, Partitions: []kmsg.FetchRequestTopicPartition{{CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: 1 << 20, HighWatermark: 1<<63 - 1}}}}},
		kmsg.ListOffsets: &kmsg.ListOffsetsRequest{ReplicaID: -1, TimeoutMillis: timeout, Topics: []kmsg.ListOffsetsRequestTopic{
			{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: -1}}}}},
		kmsg.Metadata:        &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: &name}}},
		kmsg.FindCoordinator: &kmsg.FindCoordinatorRequest{CoordinatorKey: "group", CoordinatorKeys: []string{"group"}},
		kmsg.ApiVersions:     &kmsg.ApiVersionsRequest{ClientSoftwareName: "a-client", ClientSoftwareVersion: "1.0"},
		kmsg.CreateTopics: &kmsg.CreateTopicsRequest{TimeoutMillis: timeout, ValidateOnly: true, Topics: []kmsg.CreateTopicsRequestTopic{
			{Topic: name2, NumPartitions: 3, ReplicationFactor: 3}}},
		kmsg.DeleteTopics: &kmsg.DeleteTopicsRequest{TimeoutMillis: timeout, TopicNames: []string{name2}, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: &name2}}},
		kmsg.DeleteRecords: &kmsg.DeleteRecordsRequest{TimeoutMillis: timeout, Topics: []kmsg.DeleteRecordsRequestTopic{
			{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 0}}}}},
		kmsg.InitProducerID: &kmsg.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1},
		kmsg.OffsetForLeaderEpoch: &kmsg.OffsetForLeaderEpochRequest{ReplicaID: -1, Topics: []kmsg.OffsetForLeaderEpochRequestTopic{
			{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}},
		kmsg.DescribeConfigs: &kmsg.DescribeConfigsRequest{IncludeSynonyms: true, IncludeDocumentation: true, Resources: []kmsg.DescribeConfigsRequestResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}, {ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "0"}}},
		kmsg.AlterConfigs: &kmsg.AlterConfigsRequest{Resources: []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}},
		kmsg.IncrementalAlterConfigs: &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}},
		kmsg.CreatePartitions: &kmsg.CreatePartitionsRequest{TimeoutMillis: timeout, ValidateOnly: true, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 2}}},
		kmsg.DescribeCluster:  &kmsg.DescribeClusterRequest{EndpointType: 1},
	}
}

func TestEveryServedVersionIsAnswered(t *testing.T) {
	b := start(t, nil, nil)
	topic := b.topic("t", 1, nil)
	requests := usual(topic)
	expected := map[kmsg.Key]error{kmsg.DeleteTopics: kerr.UnknownTopicOrPartition}
	w := b.dial()
	kafkaapi.Served(func(key kmsg.Key, version int16) {
		req, ours := requests[key]
		if !ours {
			req = key.Request() // a group's: any answer will do
		}
		req.SetVersion(version)
		resp := w.receive(req, w.send(req))
		if ours {
			for _, code := range errorCodes(resp) {
				if err := kerr.ErrorForCode(code); err != expected[key] {
					t.Errorf("%s version %d: %v, want %v", key.Name(), version, err, expected[key])
				}
			}
		}
	})
}

// errorCodes are the error codes of the usual responses, as far as their version has them.
func errorCodes(resp kmsg.Response) (codes []int16) {
	add := func(c ...int16) { codes = append(codes, c...) }
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		add(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.FetchResponse:
		add(r.ErrorCode, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.ListOffsetsResponse:
		add(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.MetadataResponse:
		add(r.ErrorCode, r.Topics[0].ErrorCode, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.FindCoordinatorResponse:
		add(r.ErrorCode)
		for _, c := range r.Coordinators {
			add(c.ErrorCode)
		}
	case *kmsg.ApiVersionsResponse:
		add(r.ErrorCode)
	case *kmsg.CreateTopicsResponse:
		add(r.Topics[0].ErrorCode)
	case *kmsg.DeleteTopicsResponse:
		add(r.Topics[0].ErrorCode)
	case *kmsg.DeleteRecordsResponse:
		add(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.InitProducerIDResponse:
		add(r.ErrorCode)
	case *kmsg.OffsetForLeaderEpochResponse:
		add(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.DescribeConfigsResponse:
		add(r.Resources[0].ErrorCode, r.Resources[1].ErrorCode)
	case *kmsg.AlterConfigsResponse:
		add(r.Resources[0].ErrorCode)
	case *kmsg.IncrementalAlterConfigsResponse:
		add(r.Resources[0].ErrorCode)
	case *kmsg.CreatePartitionsResponse:
		add(r.Topics[0].ErrorCode)
	case *kmsg.DescribeClusterResponse:
		add(r.ErrorCode)
	}
	return codes
}

func TestNewerApiVersionsIsAnsweredInVersionZero(t *testing.T) {
	w := start(t, nil, nil).dial()
	for _, version := range []int16{5, 99, 32767, -1} {
		frame := binary.BigEndian.AppendUint32(nil, 12)
		frame = binary.BigEndian.AppendUint16(frame, 18)
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		frame = binary.BigEndian.AppendUint32(frame, 7)
		w.Write(append(frame, 0xff, 0xff, 0, 0))
		resp := w.receive(&kmsg.ApiVersionsRequest{}, 7).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != kerr.UnsupportedVersion.Code || !slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == 18 && k.MinVersion == 0 && k.MaxVersion == 4
		}) {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
	// The connection lives, and takes the version in common.
	if resp := ask[*kmsg.ApiVersionsResponse](w, 4, &kmsg.ApiVersionsRequest{ClientSoftwareName: "c", ClientSoftwareVersion: "1"}); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	if resp := ask[*kmsg.ApiVersionsResponse](w, 3, &kmsg.ApiVersionsRequest{ClientSoftwareName: "a b", ClientSoftwareVersion: "1"}); resp.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a client named %q: %+v", "a b", resp)
	}
}

func TestUnservedKeysAndVersionsCloseTheConnection(t *testing.T) {
	b := start(t, nil, nil)
	for _, c := range [][2]uint16{{0, 2}, {0, 12}, {1, 3}, {1, 18}, {3, 14}, {24, 0}, {4, 0}, {127, 0}, {128, 0}, {0xffff, 0}, {3, 0xffff}} {
		w := b.dial()
		frame := binary.BigEndian.AppendUint32(nil, 14)
		frame = binary.BigEndian.AppendUint16(frame, c[0])
		frame = binary.BigEndian.AppendUint16(frame, c[1])
		w.Write(append(frame, make([]byte, 10)...))
		w.closed()
	}
}

func TestMetadataNamesTopicsInEachWay(t *testing.T) {
	b := start(t, nil, nil)
	for _, name := range []string{"a", "b"} {
		b.topic(name, 2, nil)
	}
	a, _ := b.engine.Topic("a")
	w := b.dial()
	count := func(version int16, req *kmsg.MetadataRequest) int {
		return len(ask[*kmsg.MetadataResponse](w, version, req).Topics)
	}
	none := []kmsg.MetadataRequestTopic{}
	for version, want := range map[int16][2]int{0: {2, 2}, 1: {2, 0}, 9: {2, 0}, 13: {2, 0}} {
		if got := count(version, &kmsg.MetadataRequest{}); got != want[0] {
			t.Errorf("version %d, null: %d topics, want %d", version, got, want[0])
		}
		if got := count(version, &kmsg.MetadataRequest{Topics: none}); got != want[1] {
			t.Errorf("version %d, no topics: %d topics, want %d", version, got, want[1])
		}
	}
	resp := ask[*kmsg.MetadataResponse](w, 12, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{TopicID: a.ID}, {TopicID: engine.ID{9}}, {TopicID: a.ID}}})
	if len(resp.Topics) != 2 || *resp.Topics[0].Topic != "a" || resp.Topics[0].TopicID != a.ID || len(resp.Topics[0].Partitions) != 2 ||
		resp.Topics[1].ErrorCode != kerr.UnknownTopicID.Code || resp.Topics[1].TopicID != [16]byte{9} {
		t.Errorf("by id: %+v", resp.Topics)
	}
	bad, fresh, internal := "a/b", "fresh", "__consumer_offsets"
	for _, c := range []struct {
		version int16
		name    *string
		allow   bool
		want    *kerr.Error
	}{
		{13, &bad, true, kerr.InvalidTopicException}, {13, &fresh, false, kerr.UnknownTopicOrPartition},
		{13, &internal, true, kerr.UnknownTopicOrPartition}, {13, &fresh, true, nil}, {13, &fresh, false, nil},
	} {
		resp := ask[*kmsg.MetadataResponse](w, c.version, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: c.name}}, AllowAutoTopicCreation: c.allow})
		if err := kerr.TypedErrorForCode(resp.Topics[0].ErrorCode); err != c.want {
			t.Errorf("topic %s: %v, want %v", *c.name, err, c.want)
		}
	}
	if resp.Brokers[0].NodeID != 0 || resp.ControllerID != 0 || resp.ClusterID == nil || len(*resp.ClusterID) != 22 {
		t.Errorf("%+v", resp)
	}
}

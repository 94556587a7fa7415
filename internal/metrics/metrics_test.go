package metrics

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/headpond/headpond/engine"
)

func TestOffsetsAndLagHaveKafkaExportersNames(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	err := Register(reg, Sources{
		Topics: func(fn func(PartitionState)) {
			fn(PartitionState{"a", 0, 5, 10})
			fn(PartitionState{"a", 1, 0, 7})
			fn(PartitionState{"b", 0, 0, 0})
		},
		Groups: func(fn func(GroupState)) {
			fn(GroupState{"g", 2, []GroupOffset{{"a", 0, 8}, {"a", 1, 9}, {"gone", 3, 4}}})
		},
		WAL:    func() (engine.WALStats, bool) { return engine.WALStats{Capacity: 100, Used: 40}, true },
		Engine: func() EngineState { return EngineState{PendingBytes: 7} },
		Ready:  func() bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `
# HELP kafka_consumergroup_lag Records between a group's committed offset and the end; -1 where the partition is not there.
# TYPE kafka_consumergroup_lag gauge
kafka_consumergroup_lag{consumergroup="g",partition="0",topic="a"} 2
kafka_consumergroup_lag{consumergroup="g",partition="1",topic="a"} 0
kafka_consumergroup_lag{consumergroup="g",partition="3",topic="gone"} -1
# HELP kafka_consumergroup_lag_sum Sum of a group's lag over a topic.
# TYPE kafka_consumergroup_lag_sum gauge
kafka_consumergroup_lag_sum{consumergroup="g",topic="a"} 2
kafka_consumergroup_lag_sum{consumergroup="g",topic="gone"} 0
# HELP kafka_topic_partition_current_offset End of a partition: its high watermark.
# TYPE kafka_topic_partition_current_offset gauge
kafka_topic_partition_current_offset{partition="0",topic="a"} 10
kafka_topic_partition_current_offset{partition="1",topic="a"} 7
kafka_topic_partition_current_offset{partition="0",topic="b"} 0
# HELP kafka_topic_partitions Number of partitions of a topic.
# TYPE kafka_topic_partitions gauge
kafka_topic_partitions{topic="a"} 2
kafka_topic_partitions{topic="b"} 1
# HELP headpond_upload_pending_bytes Bytes of acknowledged batches that are in no object yet.
# TYPE headpond_upload_pending_bytes gauge
headpond_upload_pending_bytes 7
# HELP headpond_wal_used_bytes Bytes of the log that cannot be used again yet.
# TYPE headpond_wal_used_bytes gauge
headpond_wal_used_bytes 40
`
	err = testutil.GatherAndCompare(reg, strings.NewReader(want), "kafka_consumergroup_lag", "kafka_consumergroup_lag_sum",
		"kafka_topic_partition_current_offset", "kafka_topic_partitions", "headpond_wal_used_bytes", "headpond_upload_pending_bytes")
	if err != nil {
		t.Error(err)
	}
}

func TestScrapeBeforeTheEngineIsOpenReportsNothing(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	if err := Register(reg, Sources{}); err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Gather(); err != nil {
		t.Fatal(err)
	}
}

func TestEngineEventsAreCounted(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	ev := m.Engine()
	// Trimmed has no metric: the log's fill says more.
	v := reflect.ValueOf(*ev)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsNil() && name != "Trimmed" {
			t.Errorf("nothing listens to %s", name)
		}
	}
	ev.WALWrite(engine.WALWrite{Bytes: 4096, Records: 3, Elapsed: time.Millisecond})
	ev.StoreCall("put", 10, time.Second, nil)
	ev.StoreCall("get", 0, time.Second, fmt.Errorf("get x: %w", engine.ErrUnavailable))
	ev.WALFailed(engine.ErrFenced)
	m.Answered("Fetch", 12, 100, 200, time.Millisecond)
	for name, want := range map[string]float64{
		"headpond_wal_write_bytes_total": 4096, "headpond_wal_write_records_total": 3,
	} {
		got := 0.0
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name {
				got = f.Metric[0].Counter.GetValue()
			}
		}
		if got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := testutil.CollectAndCount(m.objectSeconds); n != 2 {
		t.Errorf("%d series of store calls, want put ok and get unavailable", n)
	}
	if got := testutil.ToFloat64(m.walFailed.WithLabelValues("fenced")); got != 1 {
		t.Errorf("fenced is counted %v times", got)
	}
}

func TestMetricNamesKeepTheConventions(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	New(reg)
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

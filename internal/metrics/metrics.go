// Package metrics is the one place where Prometheus metrics are made. Events of the engine and of the Kafka front end are
// counted as they happen; offsets, lag and the log's fill are asked for at each scrape.
//
// Our names begin with headpond_. Offsets and lag have the names of kafka_exporter (github.com/danielqsj/kafka_exporter), so
// that existing dashboards and alerts work unchanged.
package metrics

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headpond/headpond/engine"
)

// Metrics counts events. Its methods may be called concurrently and do not block.
type Metrics struct {
	walWriteSeconds prometheus.Histogram
	walWriteBytes   prometheus.Counter
	walWriteRecords prometheus.Counter
	walEpoch        prometheus.Gauge
	walOpened       prometheus.Counter
	walCut          prometheus.Counter
	walFailed       *prometheus.CounterVec

	uploadSeconds *prometheus.HistogramVec
	uploadBytes   prometheus.Counter
	uploadObjects prometheus.Counter
	objectSeconds *prometheus.HistogramVec
	objectBytes   *prometheus.CounterVec
	objectsGone   prometheus.Counter
	commitSeq     prometheus.Gauge
	retained      prometheus.Counter
	cacheReads    *prometheus.CounterVec
	damaged       prometheus.Counter

	connections    prometheus.Gauge
	refused        *prometheus.CounterVec
	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	requestBytes   *prometheus.CounterVec
	failures       *prometheus.CounterVec
	produced       *prometheus.CounterVec
	producedBatch  *prometheus.CounterVec
	fetched        *prometheus.CounterVec
}

// Buckets in seconds: a log's write takes from some 50 µs to seconds, a store's call from 1 ms to tens of seconds.
var (
	walBuckets   = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 5}
	storeBuckets = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
	kafkaBuckets = []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 30}
)

// New makes the metrics and registers them.
func New(reg prometheus.Registerer) *Metrics {
	f := factory{reg}
	return &Metrics{
		walWriteSeconds: f.histogram("wal_write_seconds", "Time from a write to the log's device until it was durable.", walBuckets),
		walWriteBytes:   f.counter("wal_write_bytes_total", "Bytes written to the log's device, headers and padding included."),
		walWriteRecords: f.counter("wal_write_records_total", "Records written to the log's device."),
		walEpoch:        f.gauge("wal_epoch", "Owner epoch of the log."),
		walOpened:       f.counter("wal_opened_total", "Times that the log was opened, at start or after a failure."),
		walCut:          f.counter("wal_cut_bytes_total", "Bytes of torn tail dropped when the log was opened; none was acknowledged."),
		walFailed:       f.counters("wal_failed_total", "Failures of the open log, by kind; fenced means that another owner has taken over.", "kind"),

		uploadSeconds: f.histograms("upload_seconds", "Time of an upload, its commit included.", storeBuckets, "outcome"),
		uploadBytes:   f.counter("upload_bytes_total", "Bytes of committed uploads."),
		uploadObjects: f.counter("upload_objects_total", "Objects of committed uploads."),
		objectSeconds: f.histograms("object_op_seconds", "Time of one attempt at the object store.", storeBuckets, "op", "outcome"),
		objectBytes:   f.counters("object_bytes_total", "Bytes moved to and from the object store.", "op"),
		objectsGone:   f.counter("objects_deleted_total", "Objects deleted because nothing referred to them any more."),
		commitSeq:     f.gauge("commit_sequence", "Number of the last index commit."),
		retained:      f.counter("log_start_moves_total", "Times that retention or a deletion of records moved a partition's log start."),
		cacheReads:    f.counters("cache_reads_total", "Blocks asked of the block cache.", "result"),
		damaged:       f.counter("damage_total", "Stored bytes that were found damaged."),

		connections:    f.gauge("kafka_connections", "Clients that are connected."),
		refused:        f.counters("kafka_refused_total", "Connections refused or closed for a fault of the client's.", "reason"),
		requests:       f.counters("kafka_requests_total", "Requests.", "api", "version"),
		requestSeconds: f.histograms("kafka_request_seconds", "Time from a request's last byte to its answer; fetches and joins wait on purpose.", kafkaBuckets, "api"),
		requestBytes:   f.counters("kafka_bytes_total", "Bytes of requests (in) and answers (out).", "direction"),
		failures:       f.counters("kafka_errors_total", "Errors that clients were told, by their names in the protocol.", "api", "error"),
		produced:       f.counters("topic_produced_bytes_total", "Bytes of record batches appended.", "topic"),
		producedBatch:  f.counters("topic_produced_batches_total", "Record batches appended.", "topic"),
		fetched:        f.counters("topic_fetched_bytes_total", "Bytes of record batches put into answers.", "topic"),
	}
}

// Engine returns the engine's events.
func (m *Metrics) Engine() *engine.Events {
	return &engine.Events{
		WALWrite: func(w engine.WALWrite) {
			m.walWriteSeconds.Observe(w.Elapsed.Seconds())
			m.walWriteBytes.Add(float64(w.Bytes))
			m.walWriteRecords.Add(float64(w.Records))
		},
		WALOpened: func(i engine.WALInfo) {
			m.walOpened.Inc()
			m.walEpoch.Set(float64(i.Epoch))
			m.walCut.Add(float64(i.Cut))
		},
		WALFailed: func(err error) { m.walFailed.WithLabelValues(Outcome(err)).Inc() },
		Uploaded: func(bytes int64, objects int, took time.Duration, err error) {
			m.uploadSeconds.WithLabelValues(Outcome(err)).Observe(took.Seconds())
			if err == nil {
				m.uploadBytes.Add(float64(bytes))
				m.uploadObjects.Add(float64(objects))
			}
		},
		StoreCall: func(op string, bytes int64, took time.Duration, err error) {
			m.objectSeconds.WithLabelValues(op, Outcome(err)).Observe(took.Seconds())
			m.objectBytes.WithLabelValues(op).Add(float64(max(bytes, 0)))
		},
		Committed:      func(seq uint64) { m.commitSeq.Set(float64(seq)) },
		Retained:       func(engine.PartitionID, int64) { m.retained.Inc() },
		ObjectsDeleted: func(n int) { m.objectsGone.Add(float64(n)) },
		CacheRead: func(hit bool) {
			result := "miss"
			if hit {
				result = "hit"
			}
			m.cacheReads.WithLabelValues(result).Inc()
		},
		Damaged: func(error) { m.damaged.Inc() },
	}
}

// Connected counts a client that connected (1) or left (-1).
func (m *Metrics) Connected(delta int) { m.connections.Add(float64(delta)) }

// Refused counts a connection that was refused or closed; the reason is one of a few fixed words.
func (m *Metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// Answered counts a request. in and out are bytes.
func (m *Metrics) Answered(api string, version int16, in, out int, took time.Duration) {
	m.requests.WithLabelValues(api, strconv.Itoa(int(version))).Inc()
	m.requestSeconds.WithLabelValues(api).Observe(took.Seconds())
	m.requestBytes.WithLabelValues("in").Add(float64(in))
	m.requestBytes.WithLabelValues("out").Add(float64(out))
}

// Failed counts an error that a client was told, by its name in the protocol.
func (m *Metrics) Failed(api, code string) { m.failures.WithLabelValues(api, code).Inc() }

// Produced counts batches that were appended.
func (m *Metrics) Produced(topic string, batches, bytes int) {
	m.producedBatch.WithLabelValues(topic).Add(float64(batches))
	m.produced.WithLabelValues(topic).Add(float64(bytes))
}

// Fetched counts bytes of batches that were put into an answer.
func (m *Metrics) Fetched(topic string, bytes int) {
	m.fetched.WithLabelValues(topic).Add(float64(bytes))
}

// Outcome is the word for an error in labels.
func Outcome(err error) string {
	if err == nil {
		return "ok"
	}
	for _, o := range []struct {
		err  error
		word string
	}{
		{engine.ErrFenced, "fenced"}, {engine.ErrCorrupt, "corrupt"}, {engine.ErrFull, "full"}, {engine.ErrDenied, "denied"},
		{engine.ErrNotFound, "not_found"}, {engine.ErrExists, "exists"}, {engine.ErrPoisoned, "poisoned"},
		{engine.ErrUnavailable, "unavailable"}, {engine.ErrInvalid, "invalid"}, {engine.ErrClosed, "closed"},
	} {
		if errors.Is(err, o.err) {
			return o.word
		}
	}
	return "other"
}

// factory makes metrics with our prefix and registers them. A name twice is a fault of this package, and panics.
type factory struct{ reg prometheus.Registerer }

const prefix = "headpond_"

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	f.reg.MustRegister(c)
	return c
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	f.reg.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	f.reg.MustRegister(g)
	return g
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
	f.reg.MustRegister(h)
	return h
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	f.reg.MustRegister(h)
	return h
}

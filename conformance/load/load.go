package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/conformance/history"
)

// Options say what a load is. Addr, Topic, Partitions and Dir are required.
type Options struct {
	Addr       string // of a broker
	Topic      string // exists with Partitions partitions
	Partitions int32
	Dir        string // where the logs go; no log of another load with the same FirstProducer may be there
	Seed       uint64

	Producers     int           // default 4
	FirstProducer uint32        // number of the first producer, unique in the history
	MaxValue      int           // bytes of the largest value, default 4096; at least 8
	Buffered      int           // records of one producer in flight at most, default 256
	Client        []kgo.Opt     // further options of the producers' clients
	Pace          time.Duration // pause after each burst of up to 64 records of a producer; default none
}

// Load is a running load.
type Load struct {
	opt   Options
	clock history.Clock

	stop chan struct{} // closed when no more records are to be sent
	wg   sync.WaitGroup

	acked    atomic.Int64
	paused   atomic.Bool
	clients  []*kgo.Client
	logs     []*history.Log
	sessions atomic.Uint64
	follower *history.Follower

	mu       sync.Mutex
	failures []error
	readers  []*history.Log
	complete map[int32]int64 // up to where each partition was read completely before
}

// Client returns a client that comes back to a restarted broker within a moment.
func Client(addr string, more ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(addr),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.RequestRetries(1 << 30),
		kgo.RetryTimeout(2 * time.Minute),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.ConsiderMissingTopicDeletedAfter(time.Hour),
		kgo.DisableClientMetrics(),
	}
	return kgo.NewClient(append(opts, more...)...)
}

// CreateTopic makes a topic.
func CreateTopic(ctx context.Context, addr, topic string, partitions int32, config map[string]*string) error {
	cl, err := Client(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, config, topic)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

// Start begins to send.
func Start(o Options) (*Load, error) {
	if o.Producers == 0 {
		o.Producers = 4
	}
	if o.MaxValue == 0 {
		o.MaxValue = 4096
	}
	if o.Buffered == 0 {
		o.Buffered = 256
	}
	l := &Load{opt: o, clock: history.NewClock(), stop: make(chan struct{}), follower: history.NewFollower()}
	for i := range o.Producers {
		number := o.FirstProducer + uint32(i)
		log, err := history.Create(filepath.Join(o.Dir, fmt.Sprintf("producer-%d.log", number)), l.clock)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.logs = append(l.logs, log)
		rng := rand.New(rand.NewPCG(o.Seed, uint64(number)))
		codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
		cl, err := Client(o.Addr, append([]kgo.Opt{
			kgo.ClientID(fmt.Sprintf("load-%d", number)),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(codecs[rng.IntN(len(codecs))]),
			kgo.MaxBufferedRecords(o.Buffered),
			kgo.ProducerLinger(0),
			kgo.UnknownTopicRetries(-1),
			kgo.StopProducerOnDataLossDetected(),
		}, o.Client...)...)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.clients = append(l.clients, cl)
		l.wg.Go(func() { l.produce(number, cl, log, rng) })
	}
	return l, nil
}

// produce sends until it is stopped, then waits for the outcome of all it sent.
func (l *Load) produce(number uint32, cl *kgo.Client, log *history.Log, rng *rand.Rand) {
	for n := uint64(0); ; {
		for range 1 + rng.IntN(64) {
			select {
			case <-l.stop:
				l.flush(cl)
				return
			default:
			}
			p := history.Partition{Topic: l.opt.Topic, Num: rng.Int32N(l.opt.Partitions)}
			id := history.MakeID(number, n)
			n++
			r, digest := newRecord(rng, id, p, l.opt.MaxValue)
			if err := log.Append(history.Event{Kind: history.Sending, ID: id, Partition: p, Digest: digest}); err != nil {
				l.fail(err)
				return
			}
			cl.Produce(context.Background(), r, func(r *kgo.Record, err error) { l.told(log, id, r, err) })
		}
		for pause := max(l.opt.Pace, time.Microsecond); ; pause = 10 * time.Millisecond {
			select {
			case <-l.stop:
			case <-time.After(pause):
				if l.paused.Load() {
					continue
				}
			}
			break
		}
	}
}

func (l *Load) flush(cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := cl.Flush(ctx); err != nil {
		l.fail(fmt.Errorf("%d records without an outcome: %w", cl.BufferedProduceRecords(), err))
	}
}

// refusals are answers after which nothing was appended, and of which the client does not try again.
var refusals = []error{kerr.MessageTooLarge, kerr.InvalidRecord, kerr.CorruptMessage, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidTopicException}

func (l *Load) told(log *history.Log, id history.ID, r *kgo.Record, err error) {
	e := history.Event{Kind: history.Acked, ID: id, Offset: r.Offset, At: l.clock.Now()}
	if err != nil {
		e.Kind = history.Unknown
		for _, refusal := range refusals {
			if errors.Is(err, refusal) {
				e.Kind = history.Refused
			}
		}
		l.fail(fmt.Errorf("%s for %s-%d: %w", id, r.Topic, r.Partition, err))
	} else {
		l.acked.Add(1)
	}
	if err := log.Append(e); err != nil {
		l.fail(err)
	}
}

const maxFailures = 20

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failures) < maxFailures {
		l.failures = append(l.failures, err)
	}
}

// Acked is how many records were acknowledged so far.
func (l *Load) Acked() int64 { return l.acked.Load() }

// Failures joins the first errors that clients were given: records that were not acknowledged, reads that failed for good.
func (l *Load) Failures() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.failures...)
}

// Stop ends sending and waits until each record has its outcome; it fails if that takes minutes.
func (l *Load) Stop() error {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wg.Wait()
	return l.Failures()
}

// Check judges the history so far. It may be called while the load runs, which sends nothing new meanwhile, so that what
// there is to judge does not grow with the time that judging takes. It is not for concurrent use.
func (l *Load) Check() (history.Report, error) {
	l.paused.Store(true)
	defer l.paused.Store(false)
	// What was read comes first: a record that is in a reader's log then is in its producer's.
	l.mu.Lock()
	var paths []string
	for _, log := range l.readers {
		paths = append(paths, log.Path())
	}
	l.mu.Unlock()
	for _, log := range l.logs {
		paths = append(paths, log.Path())
	}
	return l.follower.Check(paths...)
}

// Close ends the load without waiting for outcomes, and closes clients and logs.
func (l *Load) Close() error {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	var errs []error
	for _, cl := range l.clients {
		cl.Close()
	}
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range append(l.logs, l.readers...) {
		errs = append(errs, log.Close())
	}
	return errors.Join(errs...)
}

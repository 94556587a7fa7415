package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/datadir"
	"github.com/headpond/headpond/internal/metrics"
	"github.com/headpond/headpond/internal/topicconfig"
	"github.com/headpond/headpond/kafkaapi"
)

// broker is everything that one `serve` holds. Its parts are opened in the order of the fields, and closed in the reverse.
type broker struct {
	cfg *config.Config
	log *slog.Logger

	dir    *datadir.Dir
	kafka  net.Listener
	status *status
	admin  *adminServer // nil when it is off, or not yet there
	wal    openedWAL
	store  engine.ObjectStore
	engine *engine.Engine
	server *kafkaapi.Server
	served chan error // what ended the listener

	patience time.Duration // how long a start waits for the data directory
	exiting  time.Time     // until then a killed broker, for whose lock the start had to wait, may hold the rest as well
}

// serve runs the broker until ctx ends, or until it cannot go on.
func (b *broker) serve(ctx context.Context) error {
	start := time.Now()
	err := b.start(ctx)
	if err == nil {
		b.status.ready()
		b.log.Info("ready", "listen", b.kafka.Addr().String(), "admin", b.adminAddress(), "took", time.Since(start).Round(time.Millisecond))
		err = b.run(ctx)
	} else if ctx.Err() != nil {
		err = nil // told to stop while it was starting
	}
	return errors.Join(err, b.close())
}

func newBroker(cfg *config.Config, log *slog.Logger) *broker {
	return &broker{cfg: cfg, log: log, status: newStatus(), served: make(chan error, 1)}
}

func (b *broker) start(ctx context.Context) error {
	var err error
	waiting := func(err error) {
		b.exiting = time.Now().Add(b.patience)
		b.log.Info("waiting for the data directory", "for", b.patience, "why", err)
	}
	b.dir, err = untilUnlocked(ctx, b.patience, waiting, func() (*datadir.Dir, error) { return datadir.Open(b.cfg.DataDir) })
	if err != nil {
		var held *datadir.InUseError
		if errors.As(err, &held) {
			return fmt.Errorf("%w; stop that broker, or give this one a directory and addresses of its own with --data-dir, --listen and --admin", err)
		}
		return err
	}
	if b.kafka, err = listen(ctx, b.exiting, b.cfg.Listen, "listen"); err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if b.cfg.Admin != "" {
		l, err := listen(ctx, b.exiting, b.cfg.Admin, "admin")
		if err != nil {
			return err
		}
		b.admin = startAdmin(l, b.status, reg, b.log)
	}
	warnOfRisks(b.log, b.cfg, b.kafka.Addr())
	if err := b.openEngine(ctx, m); err != nil {
		return err
	}
	if err := b.openServer(m); err != nil {
		return err
	}
	go func() { b.served <- b.server.Serve(b.kafka) }()
	return metrics.Register(reg, metrics.Sources{Topics: b.topics, Groups: b.groups, WAL: b.wal.stats, Engine: b.stats, Ready: b.status.isReady})
}

func (b *broker) openEngine(ctx context.Context, m *metrics.Metrics) error {
	share := divide(b.cfg)
	open, url, err := openWAL(b.cfg.WAL, int(share.frame))
	if err != nil {
		return err
	}
	if b.store, err = openObjects(b.cfg.Objects); err != nil {
		return fmt.Errorf("objects %s: %w", b.cfg.Objects, err)
	}
	o := engine.Options{
		OpenWAL: b.wal.watch(b.untilExited(open)), WALURL: url,
		Store: b.store, Batches: batchReader{},
		Retention: b.retention, Logger: b.log, Events: m.Engine(),
		Memory:            int64(share.engine),
		UploadBytes:       int64(b.cfg.UploadSize),
		UploadAge:         b.cfg.UploadAge,
		ProducerExpiry:    b.cfg.Broker.Duration(topicconfig.ProducerIDExpirationMs),
		RetentionInterval: b.cfg.Broker.Duration(topicconfig.LogRetentionCheckMs),
		DeleteGrace:       b.cfg.DeleteAge,
	}
	if b.cfg.WALGiven {
		// Only who names another log means to leave the registered one. A copy of a data directory without its wal/ must not
		// take the original's.
		o.OpenRegisteredWAL = openRegistered
	}
	if b.cfg.WAL.Scheme == "mem" && b.cfg.Objects.Scheme == "mem" {
		// An index of what is gone would be of no use to the next start.
		o.Index = index.NewMem()
	} else {
		o.ReopenIndex = func() (engine.Index, error) {
			return openIndex(b.dir.Index(), index.Options{
				CacheBytes: int64(share.indexCache), MemTableBytes: int(share.indexTable), Logger: b.log,
			}, b.log)
		}
		if o.Index, err = o.ReopenIndex(); err != nil {
			return err
		}
	}
	b.status.notReady("starting: opening the log and catching up the index")
	if b.engine, err = engine.Open(ctx, o); err != nil {
		return fmt.Errorf("start on wal %s, objects %s and index %s: %w", b.cfg.WAL, b.cfg.Objects, b.dir.Index(), err)
	}
	return nil
}

// untilExited has open wait for a killed broker's lock on the log, where that one's lock on the directory was met already.
func (b *broker) untilExited(open engine.WALOpener) engine.WALOpener {
	return func(ctx context.Context, o engine.WALOptions) (engine.WAL, error) {
		return untilFree(ctx, b.exiting, func() (engine.WAL, error) { return open(ctx, o) },
			func(err error) bool { return errors.Is(err, engine.ErrFenced) })
	}
}

// retention is how long a topic's records stay.
func (b *broker) retention(t *engine.Topic) engine.Retention {
	if t.Internal {
		return engine.Retention{Time: -1, Bytes: -1}
	}
	s := topicconfig.Resolve(t.Config, b.cfg.Broker)
	return engine.Retention{Time: s.RetentionTime, Bytes: s.RetentionBytes}
}

func (b *broker) openServer(m *metrics.Metrics) error {
	share := divide(b.cfg)
	var err error
	b.server, err = kafkaapi.NewServer(b.engine, kafkaapi.Options{
		Advertise: b.cfg.Advertise, Broker: b.cfg.Broker,
		RequestMemory: int64(share.requests), FetchMemory: int64(share.fetches),
		Logger: b.log,
		Events: &kafkaapi.Events{
			Connected: m.Connected, Refused: m.Refused, Answered: m.Answered, Produced: m.Produced, Fetched: m.Fetched, Failed: m.Failed,
		},
	})
	return err
}

func (b *broker) adminAddress() string {
	if b.admin == nil {
		return "off"
	}
	return b.admin.address
}

// run waits for the end.
func (b *broker) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-b.served:
		return fmt.Errorf("clients are not served any more: %w", err)
	case <-b.engine.Dead():
		err := fmt.Errorf("the broker cannot go on: %w", b.engine.Err())
		b.status.died(err)
		return err
	}
}

// close stops what was started: no more clients, then what is in flight, then the rest. It ends by the shutdown timeout.
func (b *broker) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.ShutdownTimeout)
	defer cancel()
	b.status.notReady("stopping")
	var errs []error
	if b.server != nil {
		// Half of the time is the clients'; the rest is needed for what they have sent.
		clients, cancel := context.WithTimeout(ctx, b.cfg.ShutdownTimeout/2)
		if err := b.server.Shutdown(clients); err != nil {
			b.log.Warn("clients were cut off: they were not done in time", "err", err)
		}
		cancel()
	} else if b.kafka != nil {
		b.kafka.Close()
	}
	if b.engine != nil {
		if b.cfg.WAL.Scheme == "mem" && b.cfg.Objects.Scheme != "mem" {
			errs = append(errs, b.engine.Flush(ctx))
		}
		errs = append(errs, b.engine.Close(ctx))
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.admin != nil {
		b.admin.close(ctx)
	}
	if b.dir != nil {
		errs = append(errs, b.dir.Close())
	}
	err := errors.Join(errs...)
	if err == nil {
		b.log.Info("stopped")
	}
	return err
}

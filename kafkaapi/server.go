package kafkaapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/topicconfig"
	"github.com/headpond/headpond/kafkaapi/group"
)

// Server serves Kafka clients on any number of listeners. It holds no state that outlives it, save what it tells the
// engine; several servers can live in one process.
type Server struct {
	svc       engine.Service
	o         Options
	ev        *Events
	log       *slog.Logger
	clusterID string // as clients see it

	maxRequest  int64
	maxFetch    int // bytes of one fetch response, unless its first batch is larger
	maxIdle     time.Duration
	maxConns    int
	maxPerHost  int
	autoCreate  bool
	partitions  int32
	deleteTopic bool

	produces *budget // of RequestMemory, for produce requests
	requests *budget // for all others
	fetches  *semaphore.Weighted
	groups   *group.Coordinator
	inspect  chan struct{} // holds a token for each batch that is expanded
	topics   topicCache
	sessions *fetchSessions

	closing chan struct{} // closed when Shutdown begins
	ctx     context.Context
	cancel  context.CancelFunc // ends all connections
	wg      sync.WaitGroup     // connections and what they started

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	perHost   map[string]int
	shut      bool
}

// NewServer makes a server for the engine. It accepts nothing before [Server.Serve]. The caller shuts it down before it
// closes the engine. An error is an [engine.ErrInvalid]
// about the options.
func NewServer(svc engine.Service, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("kafka server: %w", err)
	}
	cluster := svc.ClusterID()
	s := &Server{
		svc: svc, o: o, ev: o.Events, log: o.Logger,
		clusterID:   base64.RawURLEncoding.EncodeToString(cluster[:]),
		maxRequest:  o.Broker.Int(topicconfig.SocketRequestMaxBytes),
		maxFetch:    int(min(o.Broker.Int(topicconfig.FetchMaxBytes), max(o.FetchMemory/16, 1<<20))),
		maxIdle:     o.Broker.Duration(topicconfig.ConnectionsMaxIdleMs),
		maxConns:    int(o.Broker.Int(topicconfig.MaxConnections)),
		maxPerHost:  int(o.Broker.Int(topicconfig.MaxConnectionsPerIP)),
		autoCreate:  o.Broker.Bool(topicconfig.AutoCreateTopics),
		partitions:  int32(o.Broker.Int(topicconfig.NumPartitions)),
		deleteTopic: o.Broker.Bool(topicconfig.DeleteTopicEnable),
		produces:    newBudget(o.RequestMemory - o.RequestMemory/8),
		requests:    newBudget(o.RequestMemory / 8),
		fetches:     semaphore.NewWeighted(o.FetchMemory),
		inspect:     make(chan struct{}, inspectors),
		closing:     make(chan struct{}),
		listeners:   make(map[net.Listener]struct{}),
		conns:       make(map[*conn]struct{}),
		perHost:     make(map[string]int),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.groups, err = group.New(svc, groupOptions(&o)); err != nil {
		return nil, fmt.Errorf("kafka server: %w", err)
	}
	s.sessions = newFetchSessions(int(o.Broker.Int(topicconfig.MaxIncrementalFetchSlots)))
	return s, nil
}

// Serve accepts connections from l until [Server.Shutdown], and returns nil then; it closes l. Any other end of the
// listener is an error. It may be called for several listeners at once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		l.Close()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		l.Close()
	}()
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.start(nc)
			continue
		}
		select {
		case <-s.closing:
			return nil
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		// Out of file descriptors, or a connection that was gone before it was accepted.
		if pause == 0 {
			s.log.Warn("cannot accept connections, trying again", "listen", l.Addr(), "error", err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-s.closing:
			t.Stop()
			return nil
		}
	}
}

// start serves a connection, unless there are too many.
func (s *Server) start(nc net.Conn) {
	host := hostOf(nc)
	s.mu.Lock()
	reason := ""
	switch {
	case s.shut:
		reason = "shutdown"
	case len(s.conns) >= s.maxConns:
		reason = "connections"
	case s.perHost[host] >= s.maxPerHost:
		reason = "connections per address"
	}
	if reason != "" {
		s.mu.Unlock()
		nc.Close()
		s.refused(host, reason, nil)
		return
	}
	c := newConn(s, nc, host)
	s.conns[c] = struct{}{}
	s.perHost[host]++
	s.mu.Unlock()
	s.ev.Connected(1)
	s.wg.Go(c.serve)
}

func (s *Server) finished(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	if s.perHost[c.host]--; s.perHost[c.host] == 0 {
		delete(s.perHost, c.host)
	}
	s.mu.Unlock()
	s.ev.Connected(-1)
}

// refused tells of a connection that was not served, or no longer.
func (s *Server) refused(host, reason string, err error) {
	s.ev.Refused(reason)
	s.log.Debug("connection refused", "client", host, "reason", reason, "error", err)
}

// Shutdown stops accepting, answers what waits (long polls with what there is, group members that they must come back),
// lets requests in flight end, and closes the connections. When ctx ends first, it closes them at once. It returns when
// every goroutine of the server has ended: nil, or ctx's error. A second call does the same again and finds nothing to do.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.shut {
		s.shut = true
		close(s.closing)
		for l := range s.listeners {
			l.Close()
		}
		for c := range s.conns {
			c.interrupt()
		}
	}
	s.mu.Unlock()

	s.groups.Close(ctx) // answers the members that wait
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		s.cancel()
		s.mu.Lock()
		for c := range s.conns {
			c.out.fail(net.ErrClosed)
		}
		s.mu.Unlock()
		<-done
	}
	s.cancel()
	s.sessions.close()
	return err
}

func (s *Server) stopping() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func hostOf(nc net.Conn) string {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return nc.RemoteAddr().String()
	}
	return host
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// status is what health and readiness report. The zero value is a process that is starting.
type status struct {
	phase atomic.Pointer[string] // why it is not ready; nil: it is
	dead  atomic.Pointer[error]  // why it cannot go on; nil: it can
}

func newStatus() *status {
	s := &status{}
	s.notReady("starting")
	return s
}

func (s *status) notReady(why string) { s.phase.Store(&why) }
func (s *status) ready()              { s.phase.Store(nil) }
func (s *status) isReady() bool       { return s.phase.Load() == nil && s.dead.Load() == nil }
func (s *status) died(err error)      { s.dead.Store(&err) }

func (s *status) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := s.dead.Load(); err != nil {
		http.Error(w, (*err).Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *status) readyz(w http.ResponseWriter, r *http.Request) {
	if why := s.phase.Load(); why != nil {
		http.Error(w, *why, http.StatusServiceUnavailable)
		return
	}
	s.healthz(w, r)
}

// adminServer serves the admin address.
type adminServer struct {
	address string // host:port
	http    *http.Server
	done    chan struct{}
}

func startAdmin(l net.Listener, s *status, reg *prometheus.Registry, log *slog.Logger) *adminServer {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "headpond: /healthz /readyz /metrics /debug/pprof/")
	})
	a := &adminServer{
		address: l.Addr().String(),
		http: &http.Server{
			Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(a.done)
		if err := a.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin address is not served any more", "err", err)
		}
	}()
	return a
}

// close lets short requests end; a profile that is being taken is cut off at ctx's end.
func (a *adminServer) close(ctx context.Context) {
	if a.http.Shutdown(ctx) != nil {
		a.http.Close()
	}
	<-a.done
}

package kafkaapi

import "github.com/twmb/franz-go/pkg/kmsg"

// Served calls fn for each version of each API that is served.
func Served(fn func(key kmsg.Key, version int16)) {
	for _, a := range apis {
		for v := a.served; v <= a.max; v++ {
			fn(a.key, v)
		}
	}
}

// Whole says whether all memory that was taken for requests and responses was given back.
func (s *Server) Whole() bool {
	for _, b := range []*budget{s.requests, s.produces} {
		if !b.sem.TryAcquire(b.limit) || len(b.overdraft) > 0 {
			return false
		}
	}
	return s.fetches.TryAcquire(s.o.FetchMemory)
}

// Producing says whether a produce request is being handled.
func (s *Server) Producing() bool {
	if !s.produces.sem.TryAcquire(s.produces.limit) {
		return true
	}
	s.produces.sem.Release(s.produces.limit)
	return false
}

// PanicKey is the key of a request that panics, once [ServePanic] was called.
const PanicKey = 127

// ServePanic adds that request, or takes it away.
func ServePanic(on bool) {
	byKey[PanicKey] = nil
	if on {
		byKey[PanicKey] = &api{key: PanicKey, name: "Panic", max: 1, flexible: 2, handle: func(*request) error { panic("on purpose") }}
	}
}

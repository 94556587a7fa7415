package kafkaapi

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/topicconfig"
)

// Options are the settings and components of a [Server]. The zero value works.
type Options struct {
	// Advertise is the HOST:PORT that clients are told to connect to. Empty: each client is told the address by which
	// it reached the server.
	Advertise string
	// NodeID is the broker's number in the cluster.
	NodeID int32
	// Broker is what Kafka's broker settings say. Nil: their defaults.
	Broker *topicconfig.Broker

	// RequestMemory bounds the bytes of requests that are being read or handled. An eighth is for requests other than
	// produce, which must not wait when producers are held. One request of each kind may exceed its part, so that the
	// largest one passes. Default 64 MiB.
	RequestMemory int64
	// FetchMemory bounds the bytes of fetch responses that are not yet written. Default 64 MiB.
	FetchMemory int64
	// FetchWait is the longest that a fetch waits for records, whatever the client asks for: a client that is gone is
	// noticed after it at the latest. Default 1 min.
	FetchWait time.Duration
	// FirstRequest is how long a new connection has to send its first request. Default 10 s.
	FirstRequest time.Duration
	// StallTimeout is how long a client may take to send the rest of a request, or to take a response, beyond the time
	// that 64 KiB/s would need. Default 30 s.
	StallTimeout time.Duration

	// Logger gets what an operator should know. Nil: [slog.Default].
	Logger *slog.Logger
	// Events is told what happens, for metrics. Nil: nobody is.
	Events *Events
	// Now is the wall clock, used for timestamps of records only. Nil: [time.Now].
	Now func() time.Time
}

// Events are called as things happen; each may be nil. They are called on the goroutines that serve clients and must
// not block.
type Events struct {
	// Connected: a client connected (1) or left (-1).
	Connected func(delta int)
	// Refused: a connection was refused or closed for a fault of the client's; the reason is one of a few fixed words.
	Refused func(reason string)
	// Answered: a request was answered, or ended without an answer. took runs from its last byte read to its answer
	// being ready to be written; out is 0 for a request without an answer.
	Answered func(api string, version int16, in, out int, took time.Duration)
	// Produced: records were appended. Refused batches are not counted.
	Produced func(topic string, batches, bytes int)
	// Fetched: batches were put into a response.
	Fetched func(topic string, bytes int)
	// Failed: a client was told the error, by its name in the protocol.
	Failed func(api, code string)
}

func (e *Events) withDefaults() *Events {
	var d Events
	if e != nil {
		d = *e
	}
	if d.Connected == nil {
		d.Connected = func(int) {}
	}
	if d.Refused == nil {
		d.Refused = func(string) {}
	}
	if d.Answered == nil {
		d.Answered = func(string, int16, int, int, time.Duration) {}
	}
	if d.Produced == nil {
		d.Produced = func(string, int, int) {}
	}
	if d.Fetched == nil {
		d.Fetched = func(string, int) {}
	}
	if d.Failed == nil {
		d.Failed = func(string, string) {}
	}
	return &d
}

// withDefaults returns a copy with every default filled in, or says which option is wrong.
func (o Options) withDefaults() (Options, error) {
	if o.Broker == nil {
		o.Broker, _ = topicconfig.NewBroker(nil)
	}
	if o.NodeID < 0 {
		return o, fmt.Errorf("%w: NodeID %d is negative", engine.ErrInvalid, o.NodeID)
	}
	if o.Advertise != "" {
		if _, _, err := splitAddress(o.Advertise); err != nil {
			return o, fmt.Errorf("%w: advertised address %q: %w", engine.ErrInvalid, o.Advertise, err)
		}
	}
	if o.RequestMemory == 0 {
		o.RequestMemory = 64 << 20
	}
	if o.FetchMemory == 0 {
		o.FetchMemory = 64 << 20
	}
	if o.RequestMemory < 1<<20 || o.FetchMemory < 1<<20 {
		return o, fmt.Errorf("%w: RequestMemory %d and FetchMemory %d must be at least 1 MiB", engine.ErrInvalid, o.RequestMemory, o.FetchMemory)
	}
	if o.FirstRequest == 0 {
		o.FirstRequest = 10 * time.Second
	}
	if o.StallTimeout == 0 {
		o.StallTimeout = 30 * time.Second
	}
	if o.FetchWait == 0 {
		o.FetchWait = time.Minute
	}
	if o.FirstRequest < 0 || o.StallTimeout < 0 || o.FetchWait < 0 {
		return o, fmt.Errorf("%w: FirstRequest %v, StallTimeout %v and FetchWait %v must not be negative", engine.ErrInvalid, o.FirstRequest, o.StallTimeout, o.FetchWait)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Events = o.Events.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

func splitAddress(address string) (host string, port int32, err error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("not of the form HOST:PORT: %w", err)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("the port %q is not a number from 1 to 65535", p)
	}
	if host == "" {
		return "", 0, fmt.Errorf("the host is missing")
	}
	return host, int32(n), nil
}

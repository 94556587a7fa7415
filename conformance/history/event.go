package history

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says what an event is about; its value is the letter that begins the line.
type Kind byte

// The kinds of events.
const (
	Sending   Kind = 'S' // a record is about to be sent
	Acked     Kind = 'A' // a record is durable, says the broker
	Refused   Kind = 'F' // a record was refused and must never appear
	Unknown   Kind = 'U' // the outcome of a record is not known
	Read      Kind = 'R' // a record was read
	Watermark Kind = 'W' // a partition's ends were asked for
	Progress  Kind = 'P' // a session has read up to an offset
	Complete  Kind = 'C' // a session has read all of a range
)

// ID names one record for ever: the producer in the upper 24 bits, its count in the lower 40.
type ID uint64

// MakeID joins a producer's number and the count of the record among all that it sends.
func MakeID(producer uint32, n uint64) ID { return ID(uint64(producer)<<40 | n&(1<<40-1)) }

// Producer is the number of the producer.
func (id ID) Producer() uint32 { return uint32(id >> 40) }

// N is the count of the record among all that its producer sent.
func (id ID) N() uint64 { return uint64(id) & (1<<40 - 1) }

// String is the producer and the count, as reports print them.
func (id ID) String() string { return fmt.Sprintf("p%d/%d", id.Producer(), id.N()) }

// Partition names a partition of a topic.
type Partition struct {
	Topic string // without blanks
	Num   int32
}

// String is the topic and the number, as reports print them.
func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Num) }

// Event is one line of a log. Which fields count depends on the kind; see the package comment.
type Event struct {
	Kind      Kind
	ID        ID
	Partition Partition
	Offset    int64  // of an Acked or Read record
	Digest    uint32 // of everything in the record that must come back
	Session   uint64 // of a Read, Progress or Complete
	Asked     int64  // when the question left, in nanoseconds
	At        int64  // when the answer was there, in nanoseconds
	From, To  int64  // half-open range of offsets: log start and watermark, or what was read; Progress has To alone
}

func (e Event) appendTo(b []byte) []byte {
	num := func(v int64) { b = strconv.AppendInt(append(b, ' '), v, 10) }
	id := func(v uint64) { b = strconv.AppendUint(append(b, ' '), v, 10) }
	part := func() {
		b = append(append(b, ' '), e.Partition.Topic...)
		num(int64(e.Partition.Num))
	}
	digest := func() { b = strconv.AppendUint(append(b, ' '), uint64(e.Digest), 16) }
	b = append(b, byte(e.Kind))
	switch e.Kind {
	case Sending:
		id(uint64(e.ID))
		part()
		digest()
	case Acked:
		id(uint64(e.ID))
		num(e.Offset)
		num(e.At)
	case Refused, Unknown:
		id(uint64(e.ID))
	case Read:
		id(e.Session)
		part()
		num(e.Offset)
		id(uint64(e.ID))
		digest()
	case Watermark:
		num(e.Asked)
		num(e.At)
		part()
		num(e.From)
		num(e.To)
	case Progress:
		id(e.Session)
		num(e.At)
		part()
		num(e.To)
	case Complete:
		id(e.Session)
		num(e.Asked)
		part()
		num(e.From)
		num(e.To)
	}
	return append(b, '\n')
}

// parse is the inverse of appendTo, for a line without its newline.
func parse(line string) (Event, error) {
	f := fields{rest: line}
	var e Event
	switch kind := f.text(); kind {
	case "S":
		e = Event{Kind: Sending, ID: f.id(), Partition: f.partition(), Digest: f.digest()}
	case "A":
		e = Event{Kind: Acked, ID: f.id(), Offset: f.int(), At: f.int()}
	case "F":
		e = Event{Kind: Refused, ID: f.id()}
	case "U":
		e = Event{Kind: Unknown, ID: f.id()}
	case "R":
		e = Event{Kind: Read, Session: f.uint(10, 64), Partition: f.partition(), Offset: f.int(), ID: f.id(), Digest: f.digest()}
	case "W":
		e = Event{Kind: Watermark, Asked: f.int(), At: f.int(), Partition: f.partition(), From: f.int(), To: f.int()}
	case "P":
		e = Event{Kind: Progress, Session: f.uint(10, 64), At: f.int(), Partition: f.partition(), To: f.int()}
	case "C":
		e = Event{Kind: Complete, Session: f.uint(10, 64), Asked: f.int(), Partition: f.partition(), From: f.int(), To: f.int()}
	default:
		return e, fmt.Errorf("unknown kind %q", kind)
	}
	if f.err == nil && !f.ended {
		f.err = fmt.Errorf("more fields than expected: %q", f.rest)
	}
	return e, f.err
}

// fields takes a line apart and keeps the first error.
type fields struct {
	rest  string
	ended bool
	err   error
}

func (f *fields) text() string {
	if f.ended && f.err == nil {
		f.err = fmt.Errorf("fewer fields than expected")
	}
	s, rest, more := strings.Cut(f.rest, " ")
	f.rest, f.ended = rest, !more
	return s
}

func (f *fields) int() int64 {
	v, err := strconv.ParseInt(f.text(), 10, 64)
	if err != nil && f.err == nil {
		f.err = err
	}
	return v
}

func (f *fields) uint(base, bits int) uint64 {
	v, err := strconv.ParseUint(f.text(), base, bits)
	if err != nil && f.err == nil {
		f.err = err
	}
	return v
}

func (f *fields) id() ID         { return ID(f.uint(10, 64)) }
func (f *fields) digest() uint32 { return uint32(f.uint(16, 32)) }

func (f *fields) partition() Partition {
	topic := f.text()
	num := f.int()
	if num != int64(int32(num)) && f.err == nil {
		f.err = fmt.Errorf("partition number %d out of range", num)
	}
	return Partition{Topic: topic, Num: int32(num)}
}

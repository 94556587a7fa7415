// Package history records what Kafka clients did and saw, and checks afterwards that a broker kept its promises.
//
// Each client appends to a log of its own what it is about to send, what it was told, and what it read. A separate
// [Checker] reads all logs of a run and names every anomaly: a record that was acknowledged and is lost, one that nobody
// sent, one that is there twice, two out of order, two values at one offset, a gap, a watermark that fell, a reader that
// went back. The checker knows nothing about the broker, so it judges every backend and every fault alike.
//
// # Log format
//
// A log is text, one event a line, fields separated by one space, integers in decimal, digests in hexadecimal:
//
//	S <id> <topic> <partition> <digest>                      about to send the record
//	A <id> <offset> <at>                                     told at that instant that it is durable at the offset
//	F <id>                                                   told that it was refused: it must never appear
//	U <id>                                                   told nothing certain: it appears once or not at all
//	R <session> <topic> <partition> <offset> <id> <digest>   read by a session, whose offsets rise by one
//	W <asked> <at> <topic> <partition> <start> <end>         log start and high watermark, asked and answered then
//	P <session> <at> <topic> <partition> <next>              the session had read all below next by then
//	C <session> <asked> <topic> <partition> <from> <to>      the session read all of [from, to); to was asked for then
//
// An event is in the log before what it announces happens (S) or after what it reports has happened (the others). A log
// is only ever appended to, one write for each call, so what is there after a kill is a prefix: a last line without its
// newline is dropped, any other damage is an error.
//
// An id is a producer's number and a count: ids of one producer that go to one partition rise in the order of sending.
// Instants are nanoseconds from an origin that all logs of a history share.
package history

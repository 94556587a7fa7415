// Package engine stores partitioned streams of Kafka record batches.
//
// A batch is appended to a write-ahead log ([WAL]) and is acknowledged once the log says that it is durable. An
// uploader moves acknowledged batches into objects of an [ObjectStore]; a commit, which is itself a record of the
// same log, says which objects count; an [Index] maps each partition's offsets to runs inside objects and can
// always be rebuilt from the other two.
//
// The package holds the interfaces that backends implement, with their contracts, and the machinery that is
// written once for all of them. It imports no backend: a command wires one of each together.
package engine

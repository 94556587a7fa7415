// Package group coordinates Kafka's classic consumer groups: who is a member, which generation holds, and which offsets
// are committed.
//
// Groups and offsets live in the internal topic __consumer_offsets, in Kafka's own record formats; a group's partition is
// the Java hash of its id modulo the number of partitions, as in Kafka. Each partition is a shard: its log is read whole at
// the first request that needs it, and from then on memory answers. What is acknowledged is durable first: a shard has one
// writer, which appends one batch at a time with all that waits, and memory changes when the append is done, so that memory is
// always what a load would give. When an append's outcome is unknown the shard drops its memory and loads again.
//
// The engine does not compact the topic. When a shard's log outgrows its live entries, the writer appends all of them again
// and then deletes the records below: a crash at any step leaves a log that gives the same state.
//
// Lock order: Coordinator.mu, then shard.mu. A shard's mutex guards its groups, their members and its queue of writes. No lock
// is held across I/O; the topic look-ups of [engine.Service] are no I/O. Timers and the writer take shard.mu like requests do.
//
// Requests are borrowed for the call: what outlives it is copied. Protocol: https://kafka.apache.org/protocol, KIP-62, KIP-345,
// KIP-394, KIP-429, KIP-559, KIP-814.
package group

// Package load drives a broker with idempotent producers and with readers that survive its restarts, and writes the
// history of what they did for [history.Checker].
//
// A producer never gives up on a record: a broker that comes back must take up where it was, so every record ends
// acknowledged, and one that does not is told by [Load.Failures]. Records are random within a seed: their partition, their size,
// keys that are absent, empty or not, headers, and a codec for each producer.
package load

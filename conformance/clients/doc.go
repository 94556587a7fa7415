// Package clients runs unmodified Kafka clients of three families against the broker's real binary: franz-go,
// librdkafka (by kcat) and sarama. What each writes, each must read.
//
// With -args -addr HOST:PORT the tests that need no more than a broker run against that one, whatever it is.
package clients

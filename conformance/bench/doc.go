// Package bench measures how near the broker comes to what the machine can do: produce and fetch through the socket, the
// engine alone and the log alone, each as a ratio to raw writes with fdatasync or to raw loopback.
//
// What is compared alternates within one run, turn by turn, so that whatever else the machine does meets all of it; the
// median of the turns counts. `go test ./conformance/bench -v -args -measure` runs it; without -measure nothing is
// measured, since figures from a busy machine say nothing. Clients and broker share the machine's cores.
package bench

// Package kafkaapi speaks the Kafka protocol with clients on behalf of an engine.
//
// A connection has one goroutine, which reads a request, handles it and writes the response. Requests of a connection
// are handled one after the other, and responses leave in the order of the requests, as Kafka does it. Two kinds differ:
//
//   - A produce request is only handed over by the reading goroutine, which then goes on to the next request: many of
//     them are in flight at once. Their responses queue in the [outbox], and whoever completes the first one writes it.
//   - A request that waits for other clients, such as JoinGroup, runs in a goroutine of its own while the reader waits
//     for the connection's next byte or its end, so that a client that is gone is noticed.
//
// Each API key has a file of its own, NN_name.go, headed by what it does and where it differs from Kafka; dispatch.go
// has the table of all of them. Handlers translate: what is stored, and how, is the engine's.
//
// Memory: the bytes of a request are charged to one budget before they are read, those of fetch responses to another
// before they are looked up. See budget.go.
package kafkaapi

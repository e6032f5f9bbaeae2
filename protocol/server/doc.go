// Package server speaks Kafka's protocol on a listener: framing, decoding, the
// order of answers, and the limits that keep one client from costing others.
//
// It owns connections, their buffers and goroutines. What an API does is its
// handler's matter; authentication, authorisation and quotas have their places
// in Config. A TLS listener is one that wraps the net.Listener given to Serve.
//
//	s, err := server.New(server.Config{Listener: "PLAINTEXT"}, apis, log)
//	err = s.Serve(ctx, ln) // until ctx ends and all its goroutines have
//
// Each connection has a reader goroutine, which reads a frame, decodes it and
// runs the handler: the ordered part of a request. If the answer is complete
// and no earlier one is outstanding, the reader writes it too. Only an answer
// that waits (a parked fetch, acks=all) makes a writer goroutine, which from
// then on completes and writes queued answers in order. An API that RunsAhead,
// which is Produce alone, is handled while earlier answers of its like wait;
// everything else starts when they have been written, as on Kafka's connections.
// So reader and writer never write at the same time, and there is no lock.
//
// A frame that cannot be decoded, an unknown key or version closes the
// connection, but only after the answers owed before it. A client that hangs up
// ends its context: parked answers return at once and are dropped. When the
// context of Serve ends they return as well and are written.
//
// Panics have one rule: decoding works on nothing but the client's bytes, so a
// panic there is logged as the bug that it is and ends the connection. Anywhere
// else, in a handler, in its Wait, in a write, something of ours may be half done
// and a lock held: nothing recovers, the process ends, and the next start recovers
// what is on disk as after a kill. Bytes that only a handler reads (batches,
// subscriptions) must not panic; they are fuzzed.
//
// Limits: frame size, structure and memory (structure.go, memory.go), unanswered
// requests, connections and their rate (connections.go), time per frame, per write
// and idle (config.go). Against Kafka: connections beyond max.connections are
// closed, not left waiting; a frame that stalls half way and a client that never
// reads are closed in a minute, not after connections.max.idle.ms; non-record
// bytes of a request end at 8 MiB; a null where an array may not be null is read
// as empty, since kmsg does not tell the two apart.
//
// Start reading at conn.go, then dispatch.go.
package server

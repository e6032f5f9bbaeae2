// Package client is one connection to a peer that speaks Kafka's protocol:
// requests in, responses out. Brokers reach the active controller and each
// other by it.
//
// It owns the connection, correlation ids and the choice of versions. Whom to
// dial, when to dial again and what an error code means are its user's matter;
// so is a pool, should one be needed.
//
//	conn, err := client.Dial(ctx, "host:9093", client.Config{ClientID: "broker-1"})
//	resp, err := conn.Request(ctx, kmsg.NewPtrBrokerHeartbeatRequest())
//	err = conn.Close()
//
// Requests may be made by several goroutines at once: they are written in turn
// and answered by correlation id, in whatever order the peer answers. Versions
// are the highest that both sides know, asked for once by ApiVersions v3.
//
// Dial starts one goroutine, which reads responses; Close ends it and waits for
// it. A request whose context ends is forgotten, the connection lives on; once
// part of a request could not be written, or a response could not be read, the
// connection has failed and every request on it returns why.
//
// Start reading at conn.go.
package client

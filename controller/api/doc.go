// Package api holds the handlers of the controller listener, a file per API.
//
//	apis := api.APIs(api.Config{Controller: c, Log: log})
//	s, err := server.New(cfg, append(apis, shared...), log)
//
// A handler queues its request with the controller at once, on the connection's
// reader goroutine, so that requests of a connection are decided in their order.
// The answer is waited for in the connection's writer goroutine, until the commit
// or the deadline: the client's timeout where the API carries one.
//
// Brokers send CreateTopics and its like inside an Envelope (KIP-590), with the
// principal of their client; clients that know a controller's address send them
// as they are (KIP-919). Both come through the same call. Errors of what is inside
// are answered inside, but for NOT_CONTROLLER, which is the broker's to deal with.
//
// Brokers without a vote fetch the metadata log (fetch.go) and its checkpoints
// (fetch_snapshot.go) as Kafka's observers do, from the leader alone; every other
// controller answers who leads and where. DescribeQuorum lists who fetches.
//
// Only what is listed by APIs is served, and only that is advertised. ApiVersions
// and DescribeCluster are in klamm/api, Raft's connections never come here.
//
// Start reading at api.go, then create_topics.go.
package api

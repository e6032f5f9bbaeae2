// Package protocol is Kafka's vocabulary on the wire: ids, names, API keys with
// their versions, request and response headers, error codes. Everyone imports
// it; it imports nothing of ours.
//
// It owns what two packages must agree on to talk to a client or to each other.
// The bodies of requests and responses are the structs of franz-go's kmsg, which
// were compared byte for byte with Kafka 4.4; record batches are protocol/batch,
// connections protocol/server and protocol/client.
//
// An error that a client shall see is an Error, wrapped with %w where more is to
// be said, or made by Errorf where the API carries a message. CodeOf turns any
// error into the code of a response.
//
// The table in apis.go is the surface of Kafka 4.4.0. Where kmsg can decode
// versions that Kafka has dropped, the table decides.
//
// Start reading at ids.go.
package protocol

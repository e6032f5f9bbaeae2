// Package api holds the handlers of a broker's client listeners, a file per API.
//
// A handler takes a decoded request, checks it, has others do the work, and says
// how it is answered; what it answers, down to the texts and to the oddities, is
// what Kafka 4.4 answers. The handlers own no state but fetch sessions and the
// queue of topics to be created.
//
//	broker/replica            records: Produce, Fetch, ListOffsets
//	broker/coordinator        groups: their members, assignments and offsets
//	broker/controllerclient   what only the controller decides: every change, DescribeQuorum
//	the applied image         everything else: Metadata, FindCoordinator
//
// ApiVersions, DescribeCluster and others that controllers serve too are in the
// package api at the top.
//
// Handlers run on their connection's goroutine. What has to wait does so in
// Answer.Wait, with a deadline taken from the request; AutoCreate.Run is the only
// goroutine here. Every answer about metadata comes from one image, taken once.
//
// It differs from Kafka where that spares clients an error: CreateTopics and
// DeleteTopics are answered when this broker has acted on them, and not when the
// controller has; DeleteRecords when a kill can not bring the records back; that a
// topic is unknown, or to a consumer that its offset is out of range, is said once
// this broker knows what the controller knows, and of the offset not before: it is
// not available then;
// Metadata that would name no broker is not answered, the connection ends.
//
// Start reading at Admin.APIs for the metadata, at NewProduce and NewFetch for
// the records, at Groups.settle for the groups.
package api

// Package decide holds the decisions of the active controller: plain functions
// from an image and a request to metadata records and a response.
//
//	records, response := decide.CreateTopics(img, req, env)
//
// A decision reads nothing but its arguments. The time, randomness and fresh ids
// come in Env, so the same arguments give the same records, and a test is a
// table of both. Nothing changes here either: the controller's loop writes the
// records to the log and memory changes when they are replayed, on every node
// alike. An answer of "done" counts only once its records are committed
// (invariant 9), which is the loop's business as well.
//
// What is decided:
//
//   - a broker's life: RegisterBroker, Heartbeat (unfence, fence, controlled
//     shutdown), Fence, UnregisterBroker, AssignReplicasToDirs;
//   - RegisterController, AllocateProducerIDs, Bootstrap (the records of a new
//     cluster);
//   - CreateTopics, CreatePartitions, DeleteTopics;
//   - configs, features, client quotas, SCRAM credentials and ACLs;
//   - who leads: every change of a partition's ISR goes through partitionChange
//     in election.go, which keeps the rules of KIP-966 in one place;
//   - who votes over the metadata log: AddVoter, RemoveVoter, UpdateVoter.
//
// Records are ordered as Kafka 4.4 orders them, and say why they are written
// (cause.go). Codes and texts of errors are Kafka's. Imports are kept to values: no
// context, no locks, no I/O, no logger, no clock, no random source (a test of the
// build checks it).
//
// Start reading at CreateTopics for the shape, at partitionChange for the core.
package decide

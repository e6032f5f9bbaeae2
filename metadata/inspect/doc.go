// Package inspect shows what the files of a metadata directory hold, klamm's
// or Apache Kafka's, of a running node or a copy.
//
// Dump prints segments and checkpoints record by record: as text in the lines
// of Kafka's own dump tool, so that what people know how to read and search
// stays that way, or as one JSON object per record.
//
// Load builds the image that the files add up to, at their end or at an earlier
// offset or time; Show prints it as a tree, ShowDiff what two of them do not
// share. ShowHistory tells every change of one object and its cause, Explain why a
// partition is as it is. Passwords are in none of them, and the keys of credentials
// in no tree.
//
// LoadQuorum says what one node knows of its quorum: epoch, vote, voters, ends.
//
// It reads files and nothing else: no lock is taken but Bolt's, on the Raft store of a
// node that does not run, while it is read; no index is needed, and a batch that a
// running node is just writing is reported, not an error.
//
// Start reading at Dump, then Load and Tree, then LoadHistory, then LoadQuorum.
package inspect

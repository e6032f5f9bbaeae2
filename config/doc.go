// Package config is Kafka's configuration as data: the keys of
// server.properties and of topics, with type, default, limits and the error
// texts that people search for, and the structs that the rest of klamm is
// built from.
//
// It owns four things:
//
//   - the two tables, broker_keys.go and topic.go: one Key per row, all of
//     Kafka 4.4's, read or not. DescribeConfigs and CreateTopics answer from
//     them, and ValidateTopic decides with them;
//   - what can be set at run time, for a broker or for all (dynamic.go), and the
//     keys of groups and of client metrics;
//   - the layers (layers.go): a topic's value comes from the topic, else from
//     what was set at run time for this broker or for all brokers, else from
//     server.properties, else from the table. A topic key has other names
//     (synonyms) on the broker, sometimes in another unit;
//   - the node's own configuration (node.go, listeners.go, quorum.go): read
//     from server.properties (config/properties, the syntax of Java's Properties)
//     once at the start and never changed. A wrong value stops the start and
//     names file, line, key, value and what would be valid; a key that is
//     unknown, or known and not used yet, is named once in a warning.
//
// The package does no I/O but Load's reading of one file, starts no goroutine
// and has no state. It differs from Kafka where a mistake would go unnoticed:
// a key given twice counts with its last value, as in Kafka, but is named in a
// warning.
//
// Start reading at Key, then Layers, then Config.
package config
